"""Every example is what it says: both forms are one pipeline, and a run gives exactly the expected rows."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from headwater.api.batch import run_batch
from headwater.api.check import check
from headwater.engine.pipeline_file import load
from headwater.errors import PipelineError
from headwater.runtime import RunOptions
from headwater.spec import SinkSpec
from tests.pipelines import run_until_idle

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(
    file.parent.name for file in EXAMPLES.glob("*/pipeline.yml") if not (file.parent / "tests").exists()
)
"""The examples that run by themselves; those with tests are played in tests/scripted."""
SECOND_PLACES = {"two_destinations": ("large", "archive")}
"""Where the rows of a sink have to be once more."""
NO_BATCH_FORM = {"generated_rows", "socket_word_count"}
FED = {"socket_word_count"}
"""What waits for somebody to send lines."""
# Equal specs run alike; only functions are loaded in another way when Python declares the pipeline.
RUNS = [
    *((name, "pipeline.yml") for name in NAMES if name not in FED),
    ("orders", "pipeline.py"),
    *(
        pytest.param(name, "pipeline.py", marks=pytest.mark.soak)
        for name in ("ad_revenue", "custom_sink", "custom_source", "two_destinations")
    ),
]
AS_A_BATCH = ("custom_sink", "custom_source", "orders", "partitioned_logs")
"""Those that the gate runs as a batch; `make soak` runs the others too."""
LAST_LINES_SECONDS = 10.0

Rows = Counter[str]


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of an example: nothing is written into the repository."""
    ignored = shutil.ignore_patterns("out", "archive", "results", ".headwater", "*.db", "__pycache__")
    copy = tmp_path / str(request.param)
    shutil.copytree(EXAMPLES / copy.name, copy, ignore=ignored)
    return copy


def every(names: Sequence[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("project", names, indirect=True)


def multiset(rows: list[dict[str, Any]]) -> Rows:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def expected(project: Path, sink: str, *, batch: bool = False) -> Rows:
    """The rows that a sink must end up with; a batch may have a file of its own."""
    own = project / "expected" / "batch" / f"{sink}.json"
    file = own if batch and own.exists() else project / "expected" / f"{sink}.json"
    return multiset(json.loads(file.read_text(encoding="utf-8")))


def found(sink: SinkSpec, folder: Path, printed: Callable[[], str], project: Path) -> Rows:
    """The rows that a sink ended up with."""
    if sink.connector == "console":
        return last_table(printed)
    if sink.connector == "foreach_batch":
        return multiset(rows_of_database(project / f"{sink.name}.db", sink.name))
    # An object of the user's writes where it likes, whatever `--output-dir` says.
    return rows_below(project / "out" / sink.name if sink.connector == "foreach" else folder)


def rows_below(folder: Path) -> Rows:
    """The rows of all JSON files in a folder."""
    lines = [line for file in folder.rglob("*.json") for line in file.read_text("utf-8").splitlines()]
    return multiset([json.loads(line) for line in lines])


def rows_of_database(file: Path, table: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(file)) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(f"SELECT * FROM {table}")]


def last_table(printed: Callable[[], str]) -> Rows:
    """The last whole table on the terminal; the JVM's lines may come a moment after the run."""
    end, text = time.monotonic() + LAST_LINES_SECONDS, printed()
    while not tables(text) and time.monotonic() < end:
        text += printed()
    return tables(text)[-1]


def tables(text: str) -> list[Rows]:
    """Every whole table in a text: a rule, its head, a rule, its rows, a rule."""
    found: list[Rows] = []
    part: list[str] = []
    for line in text.splitlines():
        part += [line] if line.startswith(("+-", "|")) else []
        if sum(each.startswith("+") for each in part) == 3:
            head, *body = [_cells(each) for each in part if each.startswith("|")]
            found.append(multiset([dict(zip(head, map(_value, cells), strict=True)) for cells in body]))
            part = []
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _value(cell: str) -> float | str:
    if cell.isdigit():
        return int(cell)
    return float(cell) if re.fullmatch(r"\d+\.\d+", cell) else cell


def test_there_are_examples() -> None:
    assert NAMES == [
        "ad_revenue",
        "custom_sink",
        "custom_source",
        "generated_rows",
        "iot_signals",
        "orders",
        "partitioned_logs",
        "socket_word_count",
        "two_destinations",
        "word_count",
    ]


@every(NAMES)
def test_an_example_is_complete(project: Path) -> None:
    sinks = {sink.name for sink in load(project / "pipeline.yml").sinks}
    assert {file.stem for file in (project / "expected").glob("*.json")} == sinks
    assert "headwater run pipeline.yml" in (project / "README.md").read_text(encoding="utf-8")


@every(NAMES)
def test_both_forms_are_one_pipeline(project: Path) -> None:
    assert load(project / "pipeline.yml") == load(project / "pipeline.py")


@pytest.mark.parametrize(("project", "file"), RUNS, indirect=["project"])
def test_an_example_gives_what_is_expected(
    project: Path, file: str, context: SparkContext, capsys: pytest.CaptureFixture[str]
) -> None:
    run_and_compare(project, project / file, lambda: capsys.readouterr().out)


def run_and_compare(project: Path, file: Path, printed: Callable[[], str]) -> None:
    assert check(file).findings == ()
    result = run_until_idle(file)
    assert result.exit_code == 0
    for sink in load(file).sinks:
        rows = found(sink, project / "out" / sink.name, printed, project)
        assert rows == expected(project, sink.name), sink.name
    if project.name in SECOND_PLACES:
        sink_name, folder = SECOND_PLACES[project.name]
        assert rows_below(project / folder) == expected(project, sink_name)


@every(
    [
        pytest.param(name, marks=() if name in AS_A_BATCH else pytest.mark.soak)
        for name in NAMES
        if name not in NO_BATCH_FORM
    ]
)
@pytest.mark.feature("A1.1", part="examples")
def test_an_example_as_a_batch(
    project: Path, context: SparkContext, capsys: pytest.CaptureFixture[str]
) -> None:
    file, into = project / "pipeline.yml", project / "results"
    run_batch(file, RunOptions(), into=into, stdout=lambda line: None)
    for sink in load(file).sinks:
        rows = found(sink, into / sink.name, lambda: capsys.readouterr().out, project)
        assert rows == expected(project, sink.name, batch=True), sink.name
    assert not (project / ".headwater" / "checkpoints").exists()


@every(sorted(NO_BATCH_FORM))
def test_what_has_no_batch_form_says_so(project: Path) -> None:
    with pytest.raises(PipelineError) as error:
        run_batch(project / "pipeline.yml", RunOptions(), into=project / "results", stdout=print)
    assert [problem.code for problem in error.value.problems] == ["HW-BATCH-UNSUPPORTED"]
