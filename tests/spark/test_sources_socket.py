"""Lines from a socket: what comes, and what such a source can't promise."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark import SparkContext

from headwater.api.batch import run_batch
from headwater.api.check import check
from headwater.engine.pipeline_file import load
from headwater.errors import PipelineError
from headwater.events import Event
from headwater.runtime import RunOptions, start
from headwater.runtime.handles import Run
from tests.lines import HOST, LineServer
from tests.pipelines import capture, captured, run_while, wait_for, write

PIPELINE = """
name: lines
sources:
  lines: {{connector: socket, host: {host}, port: {port}, include_timestamp: {include_timestamp}}}
tables:
  out: {sql}
sinks:
  out: {{reads: out, connector: foreach_batch, function: "capture.py:out"}}
"""
EVERYTHING = "SELECT * FROM lines"
SELF_JOIN = "SELECT a.value FROM lines a JOIN lines b ON a.value = b.value"
SELF_UNION = "SELECT value FROM lines UNION ALL SELECT upper(value) FROM lines"


def lines(folder: Path, port: int, sql: str = EVERYTHING, include_timestamp: str = "false") -> Path:
    capture(folder, "out")
    return write(folder, PIPELINE.format(host=HOST, port=port, sql=sql, include_timestamp=include_timestamp))


def codes(file: Path) -> list[tuple[str, str, int]]:
    found = check(file).findings
    return [(f.severity.value, f.problem.code, f.problem.place.line) for f in found if f.problem.place]


def read(file: Path, server: LineServer, *sent: str) -> list[tuple[object, ...]]:
    """Run a pipeline while the server sends lines; all rows that came out."""

    def feed(run: Run) -> None:
        for number, line in enumerate(sent, start=1):
            server.send(line)
            wait_for(lambda number=number: run.queries["out"].rows_in >= number, run)  # type: ignore[misc]

    events: list[Event] = []
    run_while(file, feed, events)
    return sorted(row for batch in captured(file.parent, "out") for row in batch.elements())


@pytest.mark.feature("B6")
def test_lines_with_their_arrival_time(context: SparkContext, tmp_path: Path) -> None:
    with LineServer() as server:
        file = lines(tmp_path, server.port, include_timestamp="true")
        assert codes(file) == [("warning", "HW-SOURCE-NOT-REPLAYABLE", 4)]
        before = datetime.now() - timedelta(seconds=1)
        rows = read(file, server, "apache spark", "apache hadoop")
    assert [value for value, _ in rows] == ["apache hadoop", "apache spark"]
    assert all(before < datetime.fromisoformat(str(at)) < before + timedelta(minutes=5) for _, at in rows)

    # Spark would begin to count the lines anew and die of the count in the checkpoint.
    assert codes(file) == [("error", "HW-SOURCE-NOT-REPLAYABLE-RESUME", 4)]
    with pytest.raises(PipelineError) as refused:
        start(load(file), RunOptions(), print, print)
    (problem,) = refused.value.problems
    checkpoint = Path(str(problem.params["checkpoint"]))
    assert (problem.code, problem.params["sink"]) == ("HW-SOURCE-NOT-REPLAYABLE-RESUME", "out")
    shutil.rmtree(checkpoint)
    assert codes(file) == [("warning", "HW-SOURCE-NOT-REPLAYABLE", 4)]


@pytest.mark.feature("B6", part="not there when the query starts; nothing is lost by starting again")
@pytest.mark.feature("B9.2", part="a source that can't be read again, twice in one query")
def test_a_server_that_comes_later(context: SparkContext, tmp_path: Path) -> None:
    with LineServer() as server:
        port = server.port
    file = lines(tmp_path, port, SELF_UNION)
    run = start(load(file), RunOptions(restarts=False), lambda event: None, lambda line: None)
    assert run.wait(60)
    failure = run.queries["out"].problem
    assert failure is not None
    assert (failure.code, failure.entry.retryable) == ("HW-CONNECTION-FAILED", True)
    with LineServer() as later:
        again = lines(tmp_path, later.port, SELF_UNION)
        rows = read(again, later, "spark")
        assert len(later.connected) == 1
    assert Counter(rows) == Counter([("spark",), ("SPARK",)])


@pytest.mark.feature("B9.2", part="a join with itself would open a second connection")
def test_a_join_with_itself_is_refused(context: SparkContext, tmp_path: Path) -> None:
    assert codes(lines(tmp_path, 9, SELF_JOIN)) == [
        ("error", "HW-SOURCE-NOT-REPLAYABLE-TWICE", 8),
        ("warning", "HW-SOURCE-NOT-REPLAYABLE", 4),
        ("warning", "HW-UNBOUNDED-JOIN", 6),
    ]


@pytest.mark.feature("B6", part="no batch form")
def test_it_has_no_batch_form(tmp_path: Path) -> None:
    with pytest.raises(PipelineError) as refused:
        run_batch(lines(tmp_path, 9), RunOptions(), stdout=print)
    assert [(each.code, each.params["name"]) for each in refused.value.problems] == [
        ("HW-BATCH-UNSUPPORTED", "lines")
    ]
