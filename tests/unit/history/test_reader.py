"""Reading a history: runs, events, batches and series, also while it is written."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import UsageError
from headwater.events import Notice, QueryStarted
from headwater.history.reader import PAGE, History, Point
from headwater.history.recorder import Recorder
from headwater.history.retention import DAY, HOUR, MINUTE, HistoryLimits, Retention, Slice
from headwater.history.store import open_for_writing
from tests.unit.history.events import NOON, at, batch, started, view_of


def clock() -> float:
    return NOON / 1_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history of a run #1.sqlite"


@pytest.fixture
def recorder(file: Path) -> Iterator[Recorder]:
    recorder = Recorder(file, view_of(started()), clock=clock)
    yield recorder
    recorder.close()


def notice(number: int, ms: int = NOON) -> Notice:
    return Notice(message=str(number), code="HW-X", at=at(ms))


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        History(tmp_path / "history.sqlite")
    (problem,) = error.value.problems
    assert (problem.code, problem.params) == (
        "HW-HISTORY-NOT-FOUND",
        {"file": str(tmp_path / "history.sqlite")},
    )
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_history_is_explained(file: Path) -> None:
    file.write_bytes(b"x" * 5_000)
    with pytest.raises(UsageError) as error:
        History(file)
    assert [problem.code for problem in error.value.problems] == ["HW-HISTORY-UNREADABLE"]


def test_an_empty_history_has_nothing(file: Path, recorder: Recorder) -> None:
    with History(file) as history:
        assert (list(history.events()), history.batches("out"), history.queries()) == ([], [], [])
        assert (history.batch("out", 1), history.status("other"), history.newest_seq()) == (None, None, 0)
        assert history.series("out", "lag") == []


def test_events_are_selected(file: Path, recorder: Recorder) -> None:
    recorder(started())
    recorder(QueryStarted(query="out", id="i", run_id="q", at=at(NOON + 5)))
    for number in range(3):
        recorder(notice(number, NOON + 10 * number))
    assert recorder.flush()
    with History(file) as history:
        assert [event.seq for event in history.events()] == [1, 2, 3, 4, 5]
        assert [event.seq for event in history.events(3)] == [4, 5]
        assert [event.seq for event in history.events(since=NOON + 5)] == [2, 4, 5]
        assert [event.seq for event in history.events(since=NOON + 21)] == []
        assert [event.seq for event in history.events(since=NOON + DAY)] == []
        assert [event.seq for event in history.events(query="out")] == [2]
        assert [event.seq for event in history.events(query="out", run_id="r1")] == [2]
        assert [event.seq for event in history.events(1, 3)] == [2, 3]
        assert [event.seq for event in history.events(run_id="r2")] == []
        (last,) = history.events(4)
        assert last.to_json() == {"seq": 5, **notice(2, NOON + 20).to_json()}


def insert(writer: sqlite3.Connection, rows: list[tuple[int, int, str, str]]) -> None:
    """Events, each with its number, its time, its run and its query."""
    sql = "INSERT INTO events (seq, at, run_id, kind, query, code, body) VALUES (?, ?, ?, 'notice', ?, '', '{}')"
    writer.executemany(sql, rows)


@pytest.fixture
def writer(file: Path) -> Iterator[sqlite3.Connection]:
    connection, _ = open_for_writing(file)
    yield connection
    connection.close()


def test_events_are_read_page_by_page(file: Path, writer: sqlite3.Connection) -> None:
    insert(writer, [(seq, NOON + seq, "r1", "out") for seq in range(1, 2 * PAGE + 1)])
    with History(file) as history:
        read = list[str]()
        history._connection.set_trace_callback(read.append)
        events = history.events()
        assert [next(events).seq for _ in range(PAGE)] == list(range(1, PAGE + 1))
        assert len([sql for sql in read if "body" in sql]) == 1
        # What is stored from now on belongs to the next call.
        insert(writer, [(2 * PAGE + 1, NOON, "r1", "out")])
        assert [event.seq for event in events] == list(range(PAGE + 1, 2 * PAGE + 1))
        assert len([sql for sql in read if "body" in sql]) == 3
        # No transaction stays open in between, so the writer can empty its log.
        next(history.events())
        assert writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


def test_the_events_of_a_run_and_of_a_query(file: Path, writer: sqlite3.Connection) -> None:
    runs = [(1, "r1", "a"), (2, "r1", "b"), (3, "", ""), (4, "r2", "a"), (5, "r2", "b"), (6, "r3", "a")]
    insert(writer, [(seq, NOON + seq * DAY, run, query) for seq, run, query in runs])
    with History(file) as history:
        assert [event.seq for event in history.events(run_id="r2")] == [4, 5]
        assert [event.seq for event in history.events(run_id="r2", query="a")] == [4]
        assert [event.seq for event in history.events(query="a")] == [1, 4, 6]
        assert [event.seq for event in history.events(query="a", since=NOON + 2 * DAY)] == [4, 6]


def test_an_event_that_was_stored_late_has_its_own_time(file: Path, writer: sqlite3.Connection) -> None:
    times = [NOON - 600_000, NOON + 60_000, NOON + 3, NOON - 1, NOON]
    insert(writer, [(seq, at, "r1", "out") for seq, at in enumerate(times, 1)])
    with History(file) as history:
        assert [event.seq for event in history.events(since=NOON)] == [2, 3, 5]
        assert [event.seq for event in history.events(since=NOON + 1)] == [2, 3]
        assert [event.seq for event in history.events(since=NOON + 60_001)] == []


@pytest.mark.parametrize(
    ("arguments", "index"),
    [
        ({}, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        ({"run_id": "r1"}, "INDEX events_run (run_id=? AND rowid>? AND rowid<?)"),
        ({"query": "out"}, "INDEX events_query (query=? AND rowid>? AND rowid<?)"),
        ({"query": "out", "run_id": "r1"}, "INDEX events_query (query=? AND rowid>? AND rowid<?)"),
        ({"since": NOON}, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        ({"query": "out", "since": NOON}, "INDEX events_query (query=? AND rowid>? AND rowid<?)"),
    ],
)
def test_no_page_is_sorted_or_scanned(
    file: Path, writer: sqlite3.Connection, arguments: dict[str, Any], index: str
) -> None:
    insert(writer, [(1, NOON, "r1", "out")])
    with History(file) as history:
        read = list[str]()
        history._connection.set_trace_callback(read.append)
        assert [event.seq for event in history.events(**arguments)] == [1]
        history._connection.set_trace_callback(None)
        plans = [
            step
            for sql in dict.fromkeys(read)
            for *_, step in history._connection.execute(f"EXPLAIN QUERY PLAN {sql}")
        ]
    assert f"SEARCH events USING {index}" in plans
    assert [step for step in plans if "TEMP B-TREE" in step or step.startswith("SCAN events")] == []


def test_new_events_are_followed_while_they_are_written(file: Path, recorder: Recorder) -> None:
    recorder(notice(0))
    assert recorder.flush()
    stop, waits = threading.Event(), list[float]()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        recorder(notice(len(waits)))
        recorder(QueryStarted(query="out", id="i", run_id="q"))
        assert recorder.flush()
        if len(waits) == 3:
            stop.set()

    with History(file) as history:
        found = [event.body["message"] for event in history.follow(stop, query="", wait=wait)]
        # Those of the last wait came after the stop.
        assert found == ["1", "2"]
        assert max(waits) <= 0.2
        stop.clear()
        following = history.follow(stop, after=0, query="")
        assert [next(following).body["message"] for _ in range(4)] == ["0", "1", "2", "3"]


def test_batches_are_paged_newest_first(file: Path, recorder: Recorder) -> None:
    for number in range(5):
        recorder(batch(number, NOON + number))
    recorder(batch(9, NOON, query="other"))
    assert recorder.flush()
    with History(file) as history:
        first = history.batches("out", 2)
        assert [each.batch_id for each in first] == [4, 3]
        assert [each.batch_id for each in history.batches("out", 2, before=first[-1].at)] == [2, 1]
        assert history.queries() == ["other", "out"]
        assert first[0].to_json()["at"] == at(NOON + 4)
        assert first[0].to_json()["rows_in"] == 5


def test_of_a_batch_that_was_repeated_the_newest_counts(file: Path, recorder: Recorder) -> None:
    recorder(batch(1, NOON, rows=5))
    recorder(batch(1, NOON + 1, rows=7))
    assert recorder.flush()
    with History(file) as history:
        assert (history.batch("out", 1) or {})["numInputRows"] == 7


def test_a_series_has_all_resolutions(file: Path, recorder: Recorder) -> None:
    times = [NOON, NOON + 1_000, NOON + 2 * HOUR, NOON + 2 * HOUR + MINUTE, NOON + 4 * HOUR]
    for number, ms in enumerate(times):
        recorder(batch(number, ms, rows=10**number))
    assert recorder.flush()
    with History(file) as history:
        raw = history.series("out", "rows_in", points=5)
        writer, _ = open_for_writing(file)
        keeping = Retention(writer, HistoryLimits(), batches_kept=2)
        keeping.fold(Slice("out", NOON, NOON + 1_000, 2), HOUR)
        part = keeping.oldest("out", 2)
        assert part is not None
        keeping.fold(part, MINUTE)
        writer.close()
        assert len(history.batches("out")) == 2
        assert history.series("out", "rows_in", points=5) == raw
        width = -(-(4 * HOUR + 1) // 5)
        assert raw == [
            Point(NOON, 2, 1, 10, 5.5),
            Point(NOON + 2 * width, 2, 100, 1_000, 550),
            Point(NOON + 4 * width, 1, 10_000, 10_000, 10_000),
        ]
        assert history.series("out", "rows_in", NOON + HOUR, NOON + 3 * HOUR, 1) == [
            Point(NOON + HOUR, 2, 100, 1_000, 550)
        ]
        # A bucket that the range only touches is a part of it.
        (first,) = history.series("out", "rows_in", NOON + HOUR - 1, NOON + HOUR, 1)
        assert first == Point(NOON + HOUR - 1, 2, 1, 10, 5.5)
        assert first.to_json()["at"] == at(NOON + HOUR - 1)


def test_a_spike_is_seen_in_the_shortest_series(file: Path, recorder: Recorder) -> None:
    for number in range(1_000):
        recorder(batch(number, NOON + number * 1_000, rows=99_999 if number == 500 else 1))
    assert recorder.flush()
    with History(file) as history:
        assert [point.max for point in history.series("out", "rows_in", points=2)] == [1, 99_999]
        assert len(history.series("out", "rows_in")) == 500


def test_an_unknown_metric_is_an_error(file: Path, recorder: Recorder) -> None:
    with (
        History(file) as history,
        pytest.raises(ValueError, match="unknown metric 'rows'; expected one of rows_in"),
    ):
        history.series("out", "rows")


def test_the_status_is_that_of_the_newest_run(file: Path) -> None:
    for run, ms in (("r1", NOON), ("r2", NOON + 1)):
        event = started(run, ms=ms)
        recorder = Recorder(file, view_of(event), clock=clock)
        recorder(event)
        recorder.close()
    with History(file) as history:
        assert [run.run_id for run in history.runs()] == ["r2", "r1"]
        assert [run.run_id for run in history.runs(1)] == ["r2"]
        assert (history.status() or {})["run_id"] == "r2"
        assert (history.status("r1") or {})["run_id"] == "r1"
        assert history.runs()[0].to_json() == {
            "run_id": "r2",
            "pipeline": "shop",
            "started_at": at(NOON + 1),
            "ended_at": None,
            "exit_code": None,
            "last_seen": at(NOON),
        }


def test_a_reader_cannot_write(file: Path, recorder: Recorder) -> None:
    with History(file) as history, pytest.raises(sqlite3.OperationalError, match="readonly"):
        history._connection.execute("DELETE FROM runs")
