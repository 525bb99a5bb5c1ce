"""Environment variables and secrets in the values of a tree."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import Problem
from headwater.loaders.yaml_form import interpolate, parse_tree
from headwater.loaders.yaml_syntax import ScalarNode
from headwater.values import Position, Secret, TextPosition
from headwater.values.secrets import SecretName

ENVIRON = {"HOST": "db", "N": "10", "EMPTY": "", "TRUE": "true", "NESTED": "${HOST}", "YAML": "{a: [1]}"}


def substituted(text: str) -> tuple[Any, list[Problem]]:
    tree, problems = interpolate(parse_tree(text, "p.yml"), ENVIRON)
    return tree.value, problems


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${HOST}", "db"),
        ("${HOST}:9092", "db:9092"),
        ("'${HOST}'", "db"),
        ("${PORT:-9092}", 9092),
        ("'${PORT:-9092}'", "9092"),
        ('"${PORT:-9092}"', "9092"),
        ("${N}", 10),
        ("${N}${N}", 1010),
        ("${N} rows", "10 rows"),
        ("${TRUE}", True),
        ("${EMPTY}", None),
        ("'${EMPTY}'", ""),
        ("${EMPTY:-x}", "x"),
        ("${HOST:-x}", "db"),
        ("${X:-}", None),
        ("${X:-a:-b c}", "a:-b c"),
        ("$${HOST}", "${HOST}"),
        ("'$${HOST} ${HOST}'", "${HOST} db"),
        ("cost $5 $HOST $$", "cost $5 $HOST $$"),
        ("${NESTED}", "${HOST}"),
        ("${YAML}", "{a: [1]}"),
        ("[1, '${N}', a]", [1, "10", "a"]),
        ("{b: '${HOST}'}", {"b": "db"}),
    ],
)
def test_substitutes(written: str, value: object) -> None:
    assert substituted(f"a: {written}\n") == ({"a": value}, [])


def test_values_without_substitutions_stay_as_they_are() -> None:
    tree = parse_tree("a: 1\nb: [x, {c: null}]\n", "p.yml")
    assert interpolate(tree, {}) == (tree, [])


@pytest.mark.parametrize(
    ("written", "secret"),
    [
        ("${secret:PASSWORD}", Secret("${secret:PASSWORD}")),
        ("'${secret:PASSWORD}'", Secret("${secret:PASSWORD}")),
        ("pg://u:${secret:P}@${HOST}/x", Secret("pg://u:${secret:P}@db/x")),
        ("'$${x} ${secret:P}'", Secret("$${x} ${secret:P}")),
    ],
)
def test_a_secret_makes_the_whole_value_a_secret(written: str, secret: Secret) -> None:
    assert substituted(f"a: {written}\n") == ({"a": secret}, [])


def test_the_environment_can_not_bring_in_a_secret() -> None:
    tree = parse_tree("a: ${X} ${secret:A}\n", "p.yml")
    value = interpolate(tree, {"X": "${secret:B}"})[0].value
    assert value == {"a": Secret.of(["${secret:B} ", SecretName("A")])}
    assert value["a"].names == ("A",)


def test_a_missing_variable_is_reported_at_its_place_with_the_nearest_name() -> None:
    _, problems = substituted('a: x\nb: http://${HOTS}/${PORT}\nc: |\n  one\n  two ${PORT}\nd: "${PORT}"\n')
    assert [(p.code, str(p.place), p.params["name"], "HOST" in p.hint) for p in problems] == [
        ("HW-VARIABLE-MISSING", "p.yml:2:11", "HOTS", True),
        ("HW-VARIABLE-MISSING", "p.yml:2:19", "PORT", False),
        ("HW-VARIABLE-MISSING", "p.yml:5:7", "PORT", False),
        ("HW-VARIABLE-MISSING", "p.yml:6:5", "PORT", False),
    ]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("a ${", "${"),
        ("${}", "${}"),
        ("${secret:}", "${secret:}"),
        ("${secret:A:-b}", "${secret:A:-b}"),
        ("${1}", "${1}"),
        ("${A B}", "${A B}"),
        ("${A-b}", "${A-b}"),
        ("${env:A}", "${env:A}"),
        ("${HOST", "${HOST"),
    ],
)
def test_a_malformed_substitution_is_reported(written: str, found: str) -> None:
    _, problems = substituted(f"a: x\nb: {written}\n")
    column = 4 + written.index("$")
    assert [(p.code, str(p.place), p.params["found"]) for p in problems] == [
        ("HW-VARIABLE-MALFORMED", f"p.yml:2:{column}", found)
    ]


def test_keys_are_not_substituted() -> None:
    value, problems = substituted("a:\n  ${HOST}: 1\n")
    assert value == {"a": {"${HOST}": 1}}
    assert [(p.code, str(p.place), p.params["key"]) for p in problems] == [
        ("HW-VARIABLE-IN-KEY", "p.yml:2:3", "${HOST}")
    ]


def test_an_aliased_value_is_reported_once() -> None:
    _, problems = substituted("a: &x ['${PORT}']\nb: *x\nc: *x\n")
    assert [str(p.place) for p in problems] == ["p.yml:1:9"]


def test_a_place_hidden_by_escapes_is_the_value() -> None:
    _, problems = substituted('a: "\\x24{PORT} ${PORT}"\n')
    assert [str(p.place) for p in problems] == ["p.yml:1:4", "p.yml:1:4"]


def test_a_text_that_gains_lines_no_longer_follows_the_file() -> None:
    tree = parse_tree("sql: |\n  SELECT ${A}\n  FROM t\n", "p.yml")
    start = Position("p.yml", 2, 3)
    same, more = (interpolate(tree, {"A": value})[0].find(("sql",)) for value in ("x", "x,\ny"))
    assert isinstance(same, ScalarNode)
    assert isinstance(more, ScalarNode)
    assert same.text_position == TextPosition(start, follows_lines=True)
    assert more.text_position == TextPosition(start)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_environment_values_are_data(value: str) -> None:
    tree = parse_tree("a: '${X}'\nb: x ${X}\n", "p.yml")
    result, problems = interpolate(tree, {"X": value})
    assert (result.value, problems) == ({"a": value, "b": f"x {value}"}, [])


@given(st.text())
def test_any_text_is_substituted_or_reported(text: str) -> None:
    tree = parse_tree("a: x\n", "p.yml")
    node = tree.find(("a",))
    assert isinstance(node, ScalarNode)
    odd = ScalarNode(node.position, text, text, True, node.text_position)
    interpolate(odd, {})
