"""The classic first example, fed through a real socket."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from headwater.api.check import check
from headwater.events import Event
from headwater.runtime.handles import Run
from tests.docs.test_examples import EXAMPLES, LAST_LINES_SECONDS, Rows, expected, multiset, tables
from tests.lines import LineServer
from tests.pipelines import run_while, wait_for

NAME = "socket_word_count"
FIRST = multiset([{"value": "apache", "count": 1}, {"value": "spark", "count": 1}])


@pytest.fixture
def server() -> Iterator[LineServer]:
    with LineServer() as server:
        yield server


@pytest.mark.feature("A5")
@pytest.mark.parametrize("form", ["pipeline.yml", pytest.param("pipeline.py", marks=pytest.mark.soak)])
def test_two_lines_give_the_two_well_known_tables(
    form: str, server: LineServer, context: SparkContext, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / NAME
    shutil.copytree(EXAMPLES / NAME, project)
    file = project / form
    file.write_text(file.read_text(encoding="utf-8").replace("9999", str(server.port)), encoding="utf-8")
    assert [each.problem.code for each in check(file).findings] == ["HW-SOURCE-NOT-REPLAYABLE"]

    def feed(run: Run) -> None:
        for number, line in enumerate(("apache spark", "apache hadoop"), start=1):
            server.send(line)
            wait_for(lambda number=number: run.queries["counts"].rows_in >= number, run)  # type: ignore[misc]

    events: list[Event] = []
    run_while(file, feed, events)
    assert printed_tables(capsys, 2) == [FIRST, expected(project, "counts")]


def printed_tables(capsys: pytest.CaptureFixture[str], count: int) -> list[Rows]:
    """The tables with rows on the terminal; the JVM's lines may come a moment after the run."""
    end, text, found = time.monotonic() + LAST_LINES_SECONDS, "", [Rows()]
    while len(found) < count and time.monotonic() < end:
        text += capsys.readouterr().out
        found = [table for table in tables(text) if table]
    return found
