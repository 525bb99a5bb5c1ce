"""Reading a YAML file into a tree with positions."""

import math
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.errors import HeadwaterError, PipelineError, Problem
from headwater.loaders.yaml_form import parse_tree, read_tree
from headwater.loaders.yaml_syntax import MappingNode, Node, ScalarNode, SequenceNode, resolve
from headwater.values import Position, TextPosition

PIPELINE = """\
# a pipeline
name: ad_revenue
sources:
  impressions:
    topic: "impressions"
    columns: [ad_id, {shown_at: timestamp}]
tables:
  revenue:
    sql: |

      SELECT at
        FROM priced
    limit: 10
"""


def problems_of(text: str) -> list[Problem]:
    with pytest.raises(PipelineError) as refused:
        parse_tree(text, "p.yml")
    return list(refused.value.problems)


def codes(text: str) -> list[tuple[str, str]]:
    return [(problem.code, str(problem.place)) for problem in problems_of(text)]


def scalar(text: str, *path: str | int) -> ScalarNode:
    node = parse_tree(text, "p.yml").find(path)
    assert isinstance(node, ScalarNode)
    return node


def test_reads_plain_values_in_order() -> None:
    tree = parse_tree(PIPELINE, "p.yml")
    assert tree.value == {
        "name": "ad_revenue",
        "sources": {"impressions": {"topic": "impressions", "columns": ["ad_id", {"shown_at": "timestamp"}]}},
        "tables": {"revenue": {"sql": "\nSELECT at\n  FROM priced\n", "limit": 10}},
    }
    assert [pair.key for pair in tree.pairs] == ["name", "sources", "tables"]


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        ((), "2:1", "2:1"),
        (("name",), "2:7", "2:1"),
        (("sources",), "4:3", "3:1"),
        (("sources", "impressions", "topic"), "5:12", "5:5"),
        (("sources", "impressions", "columns"), "6:14", "6:5"),
        (("sources", "impressions", "columns", 0), "6:15", "6:15"),
        (("sources", "impressions", "columns", 1, "shown_at"), "6:33", "6:23"),
        (("sources", "impressions", "columns", 7), "6:14", "6:5"),
        (("sources", "impressions", "serverz"), "5:5", "4:3"),
        (("sources", "absent", "deeper"), "4:3", "3:1"),
        (("name", "deeper"), "2:7", "2:1"),
        ((0,), "2:1", "2:1"),
    ],
)
def test_finds_places_or_the_deepest_that_exists(path: tuple[str | int, ...], value: str, key: str) -> None:
    tree = parse_tree(PIPELINE, "p.yml")
    assert str(tree.find(path).position) == f"p.yml:{value}"
    assert str(tree.of_key(path)) == f"p.yml:{key}"


def test_nodes_say_what_they_are() -> None:
    tree = parse_tree("a: [1, x, true, null, 1.5]\nb: {}\n", "p.yml")
    listed, mapped = tree.get("a"), tree.get("b")
    assert isinstance(listed, SequenceNode)
    assert isinstance(mapped, MappingNode)
    assert tree.get("c") is None
    kinds = [child.kind for child in listed.children]
    assert kinds == ["a number", "a string", "a boolean", "nothing", "a number"]
    assert (listed.kind, mapped.kind) == ("a list", "a mapping")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("on", "on"),
        ("10", 10),
        ("-3", -3),
        ("007", 7),
        ("0o17", 15),
        ("0xFF", 255),
        ("1_000", "1_000"),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        (".inf", math.inf),
        ("-.inf", -math.inf),
        ("2024-01-01", "2024-01-01"),
        ("12:30", "12:30"),
        ("1.2.3", "1.2.3"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_resolves_by_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    resolved = resolve(text)
    assert (type(resolved), resolved) == (type(value), value)


def test_not_a_number_is_a_number() -> None:
    resolved = resolve(".nan")
    assert isinstance(resolved, float)
    assert math.isnan(resolved)


@pytest.mark.parametrize(
    ("written", "text", "plain", "value"),
    [("10", "10", True, 10), ("'10'", "10", False, "10"), ('"a\\tb"', "a\tb", False, "a\tb")],
)
def test_scalars_keep_their_text(written: str, text: str, plain: bool, value: object) -> None:
    node = scalar(f"a: {written}\n", "a")
    assert (node.text, node.plain, node.value) == (text, plain, value)


@pytest.mark.parametrize(
    ("document", "line", "column"),
    [
        ("sql: |\n  SELECT\n  x\n", 2, 3),
        ("sql: |\n\n    SELECT\n", 2, 5),
        ("sql: |2\n    SELECT\n", 2, 3),
        ("sql: |-  # why\n      SELECT\n", 2, 7),
        ("sql: &named |\n  SELECT\n", 2, 3),
        ("sql: &named\n  |\n  SELECT\n", 3, 3),
        ("sql: |\r\n  SELECT\r\n", 2, 3),
    ],
)
def test_a_literal_text_follows_the_lines_of_the_file(document: str, line: int, column: int) -> None:
    position = scalar(document, "sql").text_position
    assert position == TextPosition(Position("p.yml", line, column), follows_lines=True)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("sql: SELECT\n", TextPosition(Position("p.yml", 1, 6))),
        ("sql: 'SELECT'\n", TextPosition(Position("p.yml", 1, 7))),
        ("sql: &s SELECT\n", TextPosition(Position("p.yml", 1, 9))),
        ("sql: >\n  SELECT\n", TextPosition(Position("p.yml", 1, 6), exact=False)),
        ("sql: |\nb: 1\n", TextPosition(Position("p.yml", 1, 6), exact=False)),
    ],
)
def test_other_texts_know_their_start(document: str, expected: TextPosition) -> None:
    assert scalar(document, "sql").text_position == expected


def test_aliases_repeat_values() -> None:
    tree = parse_tree("a: &x {b: [1]}\nc: *x\nd: [*x, &y 2, *y]\n", "p.yml")
    assert tree.value == {"a": {"b": [1]}, "c": {"b": [1]}, "d": [{"b": [1]}, 2, 2]}
    assert str(tree.find(("c", "b", 0)).position) == "p.yml:1:12"


def test_an_anchor_given_twice_means_the_last_one() -> None:
    assert parse_tree("a: &x 1\nb: &x 2\nc: *x\n", "p.yml").value == {"a": 1, "b": 2, "c": 2}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("", [("HW-YAML-NOT-MAPPING", "p.yml:1:1")]),
        ("# only\n\n# comments\n", [("HW-YAML-NOT-MAPPING", "p.yml:1:1")]),
        ("---\n", [("HW-YAML-NOT-MAPPING", "p.yml:1:1")]),
        ("a: 1\n---\nb: 2\n", [("HW-YAML-DOCUMENTS", "p.yml:2:1")]),
        ("%YAML 1.1\n---\na: 1\n", [("HW-YAML-UNSUPPORTED", "p.yml:1:1")]),
        ("- a\n", [("HW-YAML-NOT-MAPPING", "p.yml:1:1")]),
        ("\n\nwords\n", [("HW-YAML-NOT-MAPPING", "p.yml:3:1")]),
        ("a:\n\tb: 1\n", [("HW-YAML-TAB", "p.yml:2:1")]),
        ("a:\n  b: 1\n  \tc: 2\n", [("HW-YAML-TAB", "p.yml:3:3")]),
        ("a: b\n  c: d\n", [("HW-YAML-INDENT", "p.yml:2:1")]),
        ("a:\n  b: 1\n c: 2\n", [("HW-YAML-INDENT", "p.yml:3:2")]),
        ("a: 1\nb: 2\na: 3\n", [("HW-YAML-DUPLICATE-KEY", "p.yml:3:1")]),
        ("a: {b: 1, b: 2}\n", [("HW-YAML-DUPLICATE-KEY", "p.yml:1:11")]),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", [("HW-YAML-UNSUPPORTED", "p.yml:3:3")]),
        ("a: !x 1\n", [("HW-YAML-UNSUPPORTED", "p.yml:1:4")]),
        ("a: !!str 1\n", [("HW-YAML-UNSUPPORTED", "p.yml:1:4")]),
        ("a: !!python/object/apply:os.system [ls]\n", [("HW-YAML-UNSUPPORTED", "p.yml:1:4")]),
        ("a: !x!y 1\n", [("HW-YAML-UNSUPPORTED", "p.yml:1:4")]),
        ("a: &x [*x]\n", [("HW-YAML-ALIAS-NOT-FOUND", "p.yml:1:8")]),
        ("a: &x\n  b: {c: *x}\n", [("HW-YAML-ALIAS-NOT-FOUND", "p.yml:2:10")]),
        ("path: *.csv\n", [("HW-YAML-ALIAS-NOT-FOUND", "p.yml:1:7")]),
        ("path: * \n", [("HW-YAML-QUOTE-START", "p.yml:1:7")]),
        ("a: @x\n", [("HW-YAML-QUOTE-START", "p.yml:1:4")]),
        ("a: > 5\n", [("HW-YAML-QUOTE-START", "p.yml:1:4")]),
        ("? [a]\n: b\n", [("HW-YAML-KEY-INVALID", "p.yml:1:3")]),
        ("a: {{b}}\n", [("HW-YAML-KEY-INVALID", "p.yml:1:5")]),
        ("a: &x b\n*x : c\n", [("HW-YAML-KEY-INVALID", "p.yml:2:1")]),
        ("a: 'b\nc: d\n", [("HW-YAML-UNCLOSED", "p.yml:1:4")]),
        ("a: [1, 2\nb: 3\n", [("HW-YAML-UNCLOSED", "p.yml:1:4")]),
        ("a: {b: [1, 2}\n", [("HW-YAML-UNCLOSED", "p.yml:1:8")]),
        ("a: [\n", [("HW-YAML-UNCLOSED", "p.yml:1:4")]),
        ("a: {b: c,\n  d: e\n  f: g}\n", [("HW-YAML-COMMA", "p.yml:3:4")]),
        (" - a\n- b\n", [("HW-YAML-INDENT", "p.yml:2:1")]),
        ("a: {b: 'x' y}\n", [("HW-YAML-COMMA", "p.yml:1:12")]),
        ("a: 'it's'\n", [("HW-YAML-SYNTAX", "p.yml:1:8")]),
        ("a: - b\n", [("HW-YAML-LIST", "p.yml:1:4")]),
        ('a: "\\q"\n', [("HW-YAML-SYNTAX", "p.yml:1:6")]),
        ('a: "\\UFFFFFFFF"\n', [("HW-YAML-SYNTAX", "p.yml:1:2")]),
        ("a: }\n", [("HW-YAML-SYNTAX", "p.yml:1:4")]),
        ("a: b\x07\n", [("HW-YAML-SYNTAX", "p.yml:1:5")]),
        ("name: x\nsources\n  a: b\n", [("HW-YAML-NO-COLON", "p.yml:2:1")]),
    ],
)
def test_refuses_at_the_line_to_blame(document: str, expected: list[tuple[str, str]]) -> None:
    assert codes(document) == expected


@pytest.mark.parametrize(
    ("key", "kind"), [("1", "a number"), ("1.5", "a number"), ("true", "a boolean"), ("~", "nothing")]
)
def test_a_key_that_is_no_text_must_be_quoted(key: str, kind: str) -> None:
    (problem,) = problems_of(f"a:\n  {key}: x\n")
    told = {"kind": f"`{key}`, which is read as {kind}"}
    assert (problem.code, problem.params) == ("HW-YAML-KEY-INVALID", told)
    assert parse_tree(f'"{key}": x\non: y\n', "p.yml").value == {key: "x", "on": "y"}


def test_a_duplicate_names_both_lines() -> None:
    (problem,) = problems_of("x:\n  a: 1\n  b: 2\n\n  a: 3\n")
    assert problem.params == {"key": "a", "first": 2, "second": 5}


def test_problems_are_reported_together_in_the_order_of_the_file() -> None:
    document = "a: {x: decimal(10,2), 1: b}\nc: !t d\na: 1\ne: [\n"
    assert codes(document) == [
        ("HW-YAML-QUOTE-COMMA", "p.yml:1:8"),
        ("HW-YAML-KEY-INVALID", "p.yml:1:23"),
        ("HW-YAML-UNSUPPORTED", "p.yml:2:4"),
        ("HW-YAML-UNCLOSED", "p.yml:4:4"),
    ]


@pytest.mark.parametrize(
    ("document", "place", "found", "suggestion"),
    [
        ("a: {cost: decimal(10,2)}", "1:11", "decimal(10,2)", 'a: {cost: "decimal(10,2)"}'),
        ("a: {b: 1, cost: decimal(10, 2), c: 2}", "1:17", "decimal(10, 2)", None),
        ("a: {m: map<string,int>}", "1:8", "map<string,int>", 'a: {m: "map<string,int>"}'),
        ("a: {s: struct<a:int,b:int,c:int>}", "1:8", "struct<a:int,b:int,c:int>", None),
        (
            "a: {condition: coalesce(x, 0) > 1, on_violation: drop}",
            "1:16",
            "coalesce(x, 0) > 1",
            'a: {condition: "coalesce(x, 0) > 1", on_violation: drop}',
        ),
        ("a: [f(x, y), z]", "1:5", "f(x, y)", 'a: ["f(x, y)", z]'),
        ("a: [f(x,\n  y), z]", "1:5", "f(x, y)", '"f(x, y)"'),
        ("a: {f: g(a, b: 2)}", "1:8", "g(a, b: 2)", 'a: {f: "g(a, b: 2)"}'),
    ],
)
def test_a_value_cut_at_its_commas(document: str, place: str, found: str, suggestion: str | None) -> None:
    (problem,) = problems_of(document)
    assert (problem.code, str(problem.place)) == ("HW-YAML-QUOTE-COMMA", f"p.yml:{place}")
    assert problem.params["found"] == found
    if suggestion:
        assert problem.params["suggestion"] == suggestion
        assert parse_tree(suggestion if ": " in suggestion[:3] else f"a: {suggestion}", "p.yml")


def test_two_cut_values_are_two_problems() -> None:
    assert codes("a: {x: decimal(10,2), y: decimal(12,2)}") == [
        ("HW-YAML-QUOTE-COMMA", "p.yml:1:8"),
        ("HW-YAML-QUOTE-COMMA", "p.yml:1:26"),
    ]


@pytest.mark.parametrize(
    "document",
    ["a: {condition: b<c, on_violation: d>e}", "a: [':(', ':)']", "a: {b: f(1), c: (2)}", "a: [b(, c]"],
)
def test_values_that_only_look_cut_are_read(document: str) -> None:
    assert parse_tree(document, "p.yml").value


@pytest.mark.parametrize(
    ("document", "place", "found", "suggestion"),
    [
        ("a: {b: ${X}}", "1:8", "${X}", 'a: {b: "${X}"}'),
        ("a: {b: x ${X:-1}y, c: 1}", "1:10", "${X:-1}", 'a: {b: "x ${X:-1}y", c: 1}'),
        ("a: [x, ${X}, ${Y}]", "1:8", "${X}", 'a: [x, "${X}", ${Y}]'),
        ("a: {b: ${secret:X}}", "1:8", "${secret:X}", 'a: {b: "${secret:X}"}'),
    ],
)
def test_a_substitution_between_brackets_must_be_quoted(
    document: str, place: str, found: str, suggestion: str
) -> None:
    (problem,) = problems_of(document)
    assert (problem.code, str(problem.place)) == ("HW-YAML-QUOTE-SUBSTITUTION", f"p.yml:{place}")
    assert problem.params == {"found": found, "suggestion": suggestion}


@pytest.mark.parametrize(
    ("document", "place", "found"),
    [
        ("a:b\n", "1:1", "a:b"),
        ("a:b\nc: d\n", "1:1", "a:b"),
        ("x: 1\na:b\nc: d\n", "2:1", "a:b"),
        ("x:\n  a:b\n  c: d\n", "2:3", "a:b"),
        ("x:\n  a:b\n  c:d\n", "2:3", "a:b"),
        ("x:\n  a:b\n  c:d\n  e: f\n", "2:3", "a:b"),
        ("x: {a:1, b: 2}\n", "1:5", "a:1"),
    ],
)
def test_a_colon_without_a_space(document: str, place: str, found: str) -> None:
    (problem,) = problems_of(document)
    assert (problem.code, str(problem.place)) == ("HW-YAML-NO-SPACE", f"p.yml:{place}")
    assert problem.params == {"found": found, "suggestion": found.replace(":", ": ")}


@pytest.mark.parametrize(
    "document", ["a: localhost:9092", "a:\n  localhost:9092", "a: [h:1, h:2]", "a: http://x\n"]
)
def test_colons_inside_values_are_read(document: str) -> None:
    assert parse_tree(document, "p.yml").value


@pytest.mark.parametrize(
    ("document", "place", "suggestion"),
    [
        ("sql: SELECT a: b", "1:6", 'sql: "SELECT a: b"'),
        ("a:\n  - sql: SELECT a: b # why", "2:10", '- sql: "SELECT a: b" # why'),
        ('a: say "x": y', "1:4", "a: 'say \"x\": y'"),
        ("a: {b: c: d}", "1:8", 'a: {b: "c: d"}'),
    ],
)
def test_a_colon_and_space_in_a_value(document: str, place: str, suggestion: str) -> None:
    (problem,) = problems_of(document)
    assert (problem.code, str(problem.place)) == ("HW-YAML-QUOTE-COLON", f"p.yml:{place}")
    assert problem.params == {"suggestion": suggestion}


def laughs(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ("a: " + "[" * 60, "HW-YAML-TOO-LARGE"),
        ("a: " + "[" * 100_000, "HW-YAML-TOO-LARGE"),
        ("- " * 100_000, "HW-YAML-TOO-LARGE"),
        ("\n".join(" " * n + "a:" for n in range(60)), "HW-YAML-TOO-LARGE"),
        (
            "a0: &a0 [x]\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 60)),
            "HW-YAML-TOO-LARGE",
        ),
        (laughs(40), "HW-YAML-TOO-LARGE"),
        ("a: [" + "x, " * 10_000 + "]", "HW-YAML-TOO-LARGE"),
        ("a: [" + "[], " * 10_000 + "]", "HW-YAML-TOO-LARGE"),
        ("a: " + "x" * 1024 * 1024, "HW-YAML-TOO-LARGE"),
        ("a: " + "é" * 600 * 1024, "HW-YAML-TOO-LARGE"),
    ],
)
def test_limits_are_kept_quickly(document: str, code: str) -> None:
    begun = time.thread_time()
    assert [problem.code for problem in problems_of(document)] == [code]
    assert time.thread_time() - begun < 5


def test_what_is_within_the_limits_is_read() -> None:
    assert parse_tree("a: " + "[" * 49 + "]" * 49, "p.yml").value
    assert len(parse_tree("a: [" + "x, " * 9_998 + "]", "p.yml").value["a"]) == 9_998
    assert parse_tree(laughs(3), "p.yml").value["a2"][8][8][8] == "x"


def test_a_long_list_of_open_parentheses_is_read_quickly() -> None:
    begun = time.thread_time()
    assert parse_tree("a: [" + "f(, " * 5_000 + "]", "p.yml").value
    assert time.thread_time() - begun < 5


def test_messages_stay_short() -> None:
    assert len(str(problems_of(":" * 100_000)[0])) < 500
    assert len(str(problems_of("a: {" + "x" * 5_000 + ": f(1, 2)}")[0])) < 500


def test_a_large_pipeline_is_read_quickly() -> None:
    lines = [
        "  t{n}:",
        "    sql: |",
        "      SELECT a",
        "      FROM x",
        "    expect: {{p: {{condition: c >= 0}}}}\n",
    ]
    table = "\n".join(lines)
    document = "name: x\ntables:\n" + "".join(table.format(n=n) for n in range(400))
    begun = time.thread_time()
    assert len(parse_tree(document, "p.yml").value["tables"]) == 400
    assert time.thread_time() - begun < 3


def test_reads_a_file(tmp_path: Path) -> None:
    file = tmp_path / "p.yml"
    file.write_bytes(b"\xef\xbb\xbfname: caf\xc3\xa9\r\nb: 2\r\n")
    tree = read_tree(file)
    assert tree.value == {"name": "café", "b": 2}
    assert tree.of_key(("b",)) == Position(str(file), 2, 1)


def refused_file(path: Path) -> Problem:
    with pytest.raises(PipelineError) as refused:
        read_tree(path)
    (problem,) = refused.value.problems
    return problem


def test_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "revenue.yml").write_text("name: x\n")
    problem = refused_file(tmp_path / "revenu.yml")
    assert problem.code == "HW-FILE-NOT-FOUND"
    assert str(tmp_path / "revenue.yml") in problem.hint
    assert refused_file(tmp_path / "zzz").code == "HW-FILE-NOT-FOUND"
    assert str(tmp_path / "absent") in refused_file(tmp_path / "absent" / "p.yml").hint


def test_a_folder_names_a_file_in_it(tmp_path: Path) -> None:
    assert refused_file(tmp_path).code == "HW-FILE-IS-DIRECTORY"
    (tmp_path / "p.yml").write_text("name: x\n")
    assert str(tmp_path / "p.yml") in refused_file(tmp_path).hint


def test_a_path_through_a_file_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text("name: x\n")
    assert refused_file(tmp_path / "p.yml" / "q.yml").code == "HW-FILE-UNREADABLE"


def test_a_file_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "p.yml"
    file.write_bytes(b"name: x\nb: caf\xe9\n")
    problem = refused_file(file)
    assert (problem.code, problem.place) == ("HW-FILE-ENCODING-INVALID", Position(str(file), 2, 7))


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "p.yml"
    file.write_bytes(b"#" * (1024 * 1024 + 1))
    assert refused_file(file).code == "HW-YAML-TOO-LARGE"


YAML_PIECES = (
    *"abc01:-?,[]{}()<>#&*!|>'\"%@`~$\\ \t\n\r.=é\x85\u2028\ufeff",
    *("\n  ", ": ", "- ", "&a ", "*a", "${", "${X}", "!!str ", "\n---\n", "...", "%YAML 1.2\n", "<<: "),
    *("|\n", ">-\n", "\\x", "\\U"),
)
YAML_LIKE = st.lists(st.sampled_from(YAML_PIECES), max_size=40).map("".join)


def places(node: Node) -> list[Position]:
    match node:
        case MappingNode():
            inner = [place for pair in node.pairs for place in (pair.key_position, *places(pair.node))]
        case SequenceNode():
            inner = [place for child in node.children for place in places(child)]
        case _:
            inner = []
    return [node.position, *inner]


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.text(), YAML_LIKE, YAML_LIKE.map("a: ".__add__), YAML_LIKE.map("a: {b: ".__add__)))
@example("a: [")
@example("\ufeffa: {b: ")
@example('a: "\\ud800"')
def test_any_text_is_read_or_refused(text: str) -> None:
    problems: tuple[Problem, ...] = ()
    try:
        tree = parse_tree(text, "p.yml")
        found = places(tree)
        assert isinstance(tree.value, dict)
    except HeadwaterError as error:
        problems = error.problems
        found = [Position(p.place.file, p.place.line, p.place.column) for p in problems if p.place]
    assert [str(problem) for problem in problems if problem.place is None] == []
    assert all(place.line >= 1 and place.column >= 1 for place in found)
    assert found
