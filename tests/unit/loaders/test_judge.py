"""Every wrong pipeline file is told its problems: each once, at its line, in words a newcomer understands."""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.api.check import check
from headwater.checks import Severity
from headwater.errors import PipelineError, Problem
from headwater.loaders.judge import judge
from headwater.loaders.keys import Declaration
from headwater.loaders.yaml_form import parse_tree
from headwater.values import Position, Secret, TextPosition
from tests.unit.loaders.refusing import bare, expected, project, unclear, written

CASES = Path(__file__).parent / "refused"


def cases() -> Iterator[Any]:
    """Every case of the folder; documents that can't be read as YAML stand alone."""
    for file in sorted(CASES.glob("*.cases")):
        for case in re.split(r"^=== ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            title, _, text = case.partition("\n")
            content = bare(text) if file.stem == "documents" else written(text)
            yield pytest.param(content, expected(text), id=f"{file.stem}: {title}")


def told(file: Path) -> list[Problem]:
    found = check(file, offline=True).findings
    return [finding.problem for finding in found if finding.severity is Severity.ERROR]


@pytest.mark.parametrize(("content", "wanted"), list(cases()))
def test_a_wrong_file_is_refused(content: str, wanted: list[Any], tmp_path: Path) -> None:
    problems = told(project(tmp_path, content))
    assert [str(problem) for problem in problems if problem.place is None] == []
    assert [(p.code, p.place.line) for p in problems if p.place] == [(w.code, w.line) for w in wanted]
    assert [str(p) for w, p in zip(wanted, problems, strict=True) if not w.is_told_by(p)] == []
    assert list(unclear(problems)) == []


def test_there_are_many_cases() -> None:
    assert len(list(cases())) > 200


def test_the_file_that_cases_are_made_from_is_right(tmp_path: Path) -> None:
    assert told(project(tmp_path, written("timezone: UTC"))) == []


def test_an_alias_bomb_is_defused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert [problem.code for problem in told(project(tmp_path, "\n".join(lines)))] == ["HW-YAML-TOO-LARGE"]


def test_values_can_be_nested_only_so_deep(tmp_path: Path) -> None:
    problems = told(project(tmp_path, f"name: {'[' * 5000}{']' * 5000}\n"))
    assert [problem.code for problem in problems] == ["HW-YAML-TOO-LARGE"]


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    problems = told(project(tmp_path, f"name: p\n# {'x' * 2**20}\n"))
    assert [problem.code for problem in problems] == ["HW-YAML-TOO-LARGE"]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"name: p\xff\n", "HW-FILE-ENCODING-INVALID"),
        (b"name: p\0\n", "HW-YAML-SYNTAX"),
        (b"", "HW-YAML-NOT-MAPPING"),
    ],
)
def test_bytes_that_are_no_text(content: bytes, code: str, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yml"
    file.write_bytes(content)
    assert [problem.code for problem in told(file)] == [code]


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    project(tmp_path, written(""))
    (missing,) = told(tmp_path / "pipelin.yml")
    (folder,) = told(tmp_path)
    assert (missing.code, missing.hint) == (
        "HW-FILE-NOT-FOUND",
        f"Did you mean {tmp_path / 'pipeline.yml'}?",
    )
    assert (folder.code, "pipeline.yml" in folder.hint) == ("HW-FILE-IS-DIRECTORY", True)


@pytest.mark.parametrize(
    ("function", "code", "place"),
    [
        ("code.py:star", "HW-FUNCTION-PARAMETERS-UNSUPPORTED", ("code.py", 10, 1)),
        ("code.py:keys", "HW-FUNCTION-PARAMETERS-UNSUPPORTED", ("code.py", 13, 1)),
        ("broken.py:good", "HW-CODE-SYNTAX", ("broken.py", 1, 17)),
        ("code.py:unknown", "HW-TABLE-NOT-FOUND", ("code.py", 7, 1)),
    ],
)
def test_wrong_code_is_told_at_its_own_line(
    function: str, code: str, place: tuple[str, int, int], tmp_path: Path
) -> None:
    file = project(tmp_path, written(f'tables: {{few: {{python: "{function}"}}}}'))
    (problem,) = told(file)
    assert problem.place is not None
    assert (problem.code, Path(problem.place.file).name, problem.place.line, problem.place.column) == (
        code,
        *place,
    )


def test_a_link_does_not_hide_that_a_sink_writes_what_a_source_reads(tmp_path: Path) -> None:
    file = project(
        tmp_path,
        written(
            "sources: {clicks: {connector: files, path: in, format: text}}\n"
            "sinks: {out: {reads: clicks, connector: files, path: out, format: text}}"
        ),
    )
    (tmp_path / "out").symlink_to(tmp_path / "in")
    assert [problem.code for problem in told(file)] == ["HW-SINK-WRITES-SOURCE"]


def test_an_address_does_not_hide_that_two_sinks_write_one_place(tmp_path: Path) -> None:
    sink = "reads: clicks, connector: files, format: json"
    file = project(
        tmp_path,
        written(f"sinks:\n  one: {{{sink}, path: out}}\n  two: {{{sink}, path: 'file://{tmp_path}/out'}}"),
    )
    assert [problem.code for problem in told(file)] == ["HW-SINK-PATH-CONFLICT"]


@pytest.mark.parametrize("path", ["out", "in2", "input/in", "in.out"])
def test_a_sink_beside_a_source_is_fine(path: str, tmp_path: Path) -> None:
    file = project(
        tmp_path,
        written(
            "sources: {clicks: {connector: files, path: in, format: text}}\n"
            f"sinks: {{out: {{reads: clicks, connector: files, path: {path}, format: text}}}}"
        ),
    )
    assert told(file) == []


class NoPlaces:
    """Everything stands in one line."""

    def of_key(self, route: tuple[str | int, ...]) -> Position:
        return Position("p.yml", 1)

    of_value = of_key

    def of_text(self, route: tuple[str | int, ...]) -> TextPosition:
        return TextPosition(Position("p.yml", 1))


WORDS = st.sampled_from(
    ["clicks", "few", "rate", "files", "noop", "in", "json", "int", "1 minute", "append", "every 1s",
     "SELECT 1", "SELECT * FROM few", "code.py:good", "", "ü", "spark", "DROP TABLE x"]
)  # fmt: skip
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2**70)
    | st.floats()
    | WORDS
    | st.text("aä _-./:$0", max_size=5)
)
ANY = st.recursive(
    PLAIN | st.just(Secret("${secret:NAME}")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
RIGHT: dict[str, Any] = {
    "name": "p",
    "timezone": "UTC",
    "run_dir": "runs",
    "spark": {"spark.a": "b"},
    "watermark_policy": "fastest",
    "sources": {
        "clicks": {
            "connector": "files",
            "path": ["s3://a/b"],
            "format": "csv",
            "schema": {"id": "int", "at": "timestamp", "deep": {"a": ["int"]}},
            "header": True,
            "watermark": {"column": "at", "delay": "1 minute"},
            "options": {"mode": "DROPMALFORMED"},
        },
        "ticks": {
            "connector": "rate_per_batch",
            "rows_per_batch": 3,
            "start_timestamp": "2026-01-01",
            "advance_per_batch": "1s",
        },
        "ads": {"connector": "files", "path": "s3://c", "format": "text", "static": True},
    },
    "tables": {
        "few": "SELECT * FROM clicks WHERE id IN (SELECT value FROM ticks)",
        "more": {"sql": "SELECT * FROM few JOIN ads", "watermark": {"column": "at", "delay": "1h"}},
    },
    "sinks": {
        "out": {"reads": "more", "connector": "files", "path": "out", "format": "json", "partition_by": "id"},
        "show": {
            "reads": "few",
            "connector": "console",
            "mode": "update",
            "trigger": "every 1s",
            "num_rows": 3,
        },
    },
}


def routes(values: Any, route: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside."""
    for key, inner in values.items() if isinstance(values, dict) else ():
        yield (*route, key)
        yield from routes(inner, (*route, key))


@st.composite
def nearly_right(draw: st.DrawFn) -> dict[str, Any]:
    """A right pipeline with a few values replaced, keys renamed or left out."""
    values = copy.deepcopy(RIGHT)
    for _ in range(draw(st.integers(0, 3))):
        *outer, last = draw(st.sampled_from(sorted(routes(values), key=repr)))
        inside = reduce(getitem, outer, values)
        old = inside.pop(last)
        change = draw(st.sampled_from(["replace", "rename", "leave out"]))
        if change == "replace":
            inside[last] = draw(ANY)
        elif change == "rename":
            inside[draw(WORDS)] = old
    return values


def test_the_right_pipeline_is_right() -> None:
    spec = judge(Declaration(RIGHT, NoPlaces(), Path("/nowhere"), "p.yml"))
    assert check(spec, offline=True).findings == ()


@given(nearly_right())
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_is_declared_is_taken_or_refused_in_words(values: dict[str, Any]) -> None:
    assert list(unclear(refused(values))) == []


def refused(values: dict[str, Any]) -> list[Problem]:
    try:
        spec = judge(Declaration(values, NoPlaces(), Path("/nowhere"), "p.yml"))
    except PipelineError as error:
        return list(error.problems)
    return [finding.problem for finding in check(spec, offline=True).findings]


@given(st.text(max_size=60) | st.text(":-{}[]&*!|>'\"#%@,? \n\tabc", max_size=60))
@settings(max_examples=300, deadline=None)
def test_whatever_text_a_file_holds_is_read_or_refused_in_words(text: str) -> None:
    # Only Headwater's own errors may come out.
    with contextlib.suppress(PipelineError):
        parse_tree(text, "p.yml")
