"""What the recorder stores, how soon, and that it never disturbs a run."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.errors import Problem, SetupError
from headwater.events import (
    BacklogChanged,
    EpochCommitted,
    Event,
    EventsDropped,
    Notice,
    QueryIdle,
    QueryStarted,
    RunFinished,
    SparkStarting,
)
from headwater.events.bus import EventBus
from headwater.events.status import RunView
from headwater.history import recorder as module
from headwater.history.reader import History
from headwater.history.recorder import Recorder
from headwater.history.retention import PROGRESS_KEPT, Retention
from headwater.values.secrets import hide
from tests.unit.history.events import NOON, at, batch, started, view_of

SECONDS = 20.0
DAY = 86_400_000
CLOCK: Callable[[], float] = lambda: NOON / 1_000  # noqa: E731


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


def record(file: Path, *events: Event, view: RunView | None = None) -> None:
    recorder = Recorder(file, view or RunView(), clock=CLOCK)
    for event in events:
        recorder(event)
    recorder.close()


def kinds(file: Path) -> list[str]:
    with History(file) as history:
        return [event.body["event"] for event in history.events()]


def test_events_and_batches_are_stored(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    notice = Notice(message="No more data to read.", code="HW-ALL-DATA-READ", at=at(NOON))
    first = QueryStarted(query="out", id="i", run_id="q1", at=at(NOON + 1))
    record(file, SparkStarting(at=at(NOON)), started(), first, batch(0, NOON + 2), batch(1, NOON + 3), notice)
    with History(file) as history:
        stored = list(history.events())
        assert [event.body for event in stored] == [
            SparkStarting(at=at(NOON)).to_json(),
            started().to_json(),
            first.to_json(),
            notice.to_json(),
        ]
        # What happened before the run had its ID belongs to it.
        assert [(event.seq, event.at, event.run_id) for event in stored] == [
            (1, NOON, "r1"),
            (2, NOON, "r1"),
            (3, NOON + 1, "r1"),
            (4, NOON, "r1"),
        ]
        assert [(each.batch_id, each.at, each.run_id) for each in history.batches("out")] == [
            (1, NOON + 3, "r1"),
            (0, NOON + 2, "r1"),
        ]
        assert history.batch("out", 1) == batch(1, NOON + 3).progress


def test_a_start_that_failed_is_not_part_of_the_next_run(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    record(file, SparkStarting())
    record(file, SparkStarting(), started("r2"))
    with History(file) as history:
        assert [event.run_id for event in history.events()] == ["", "r2", "r2"]


def test_a_start_that_failed_has_a_status_if_its_run_is_known(tmp_path: Path) -> None:
    file, view = tmp_path / "history.sqlite", RunView()
    view.run_id, view.pipeline, view.started_at = "r1", "shop", at(NOON - 1)
    recorder = Recorder(file, view, clock=CLOCK)
    recorder(SparkStarting())
    assert recorder.flush()
    with History(file) as history:
        assert [event.run_id for event in history.events()] == ["r1"]
        assert [(run.run_id, run.started_at) for run in history.runs()] == [("r1", NOON - 1)]
        view.apply(started())
        recorder(started())
        assert recorder.flush()
        assert [(run.run_id, run.started_at) for run in history.runs()] == [("r1", NOON)]
    recorder.close()


def test_events_that_say_nothing_new_are_not_stored(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    idle, other = QueryIdle(query="out"), QueryIdle(query="other")
    record(
        file,
        idle,
        idle,
        other,
        EpochCommitted(query="c", epoch=1),
        BacklogChanged(query="out", files={"a": 3}),
    )
    assert kinds(file) == ["query_idle", "query_idle"]
    record(file, idle, batch(1), idle, idle)
    with History(file) as history:
        # Of each query, only the newest.
        assert [(event.seq, event.body["query"]) for event in history.events()] == [(2, "other"), (4, "out")]


def test_the_backlog_belongs_to_the_next_batch(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    record(file, batch(0), BacklogChanged(query="out", files={"a": 3, "b": 4}), batch(1, NOON + 1))
    with History(file) as history:
        assert [each.values["waiting_files"] for each in history.batches("out")] == [7, None]


def test_the_status_is_that_of_the_view(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    finished = RunFinished(run_id="r1", exit_code=1, queries={}, at=at(NOON + 9))
    view = view_of(started(), batch(3), finished)
    record(file, started(), finished, view=view)
    with History(file) as history:
        assert history.status() == history.status("r1") == json.loads(json.dumps(view.to_json()))
        (run,) = history.runs()
        assert (run.started_at, run.ended_at, run.exit_code, run.last_seen) == (NOON, NOON + 9, 1, NOON)


def test_a_status_that_changes_after_the_event_is_stored_also(tmp_path: Path) -> None:
    file, view = tmp_path / "history.sqlite", view_of(started())
    recorder = Recorder(file, view, clock=CLOCK)
    recorder(started())
    assert recorder.flush()
    view.apply(batch(5))
    with History(file) as history:
        until(lambda: (history.status() or {})["queries"][0]["batch"] == 5)
    recorder.close()


def test_events_are_written_within_a_second_without_a_later_one(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.sqlite", RunView(), clock=CLOCK)
    began = time.monotonic()
    recorder(batch(0))
    with History(tmp_path / "history.sqlite") as history:
        until(lambda: history.batches("out"))
    assert time.monotonic() - began < SECONDS / 2
    assert module.WRITE_SECONDS <= 0.5
    recorder.close()


def test_only_the_newest_batches_have_their_progress(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    record(file, *(batch(number, NOON + number) for number in range(PROGRESS_KEPT + 501)))
    with History(file) as history:
        kept = [number for number in range(PROGRESS_KEPT + 501) if history.batch("out", number)]
        assert kept == list(range(501, PROGRESS_KEPT + 501))
        assert len(history.batches("out", 10_000)) == PROGRESS_KEPT + 501


def test_bodies_have_no_secrets(tmp_path: Path) -> None:
    hide("horse-battery")
    file = tmp_path / "history.sqlite"
    record(
        file, Notice(message="at horse-battery", code="X"), batch(1, sink={"description": "horse-battery"})
    )
    assert b"horse-battery" not in file.read_bytes()
    with History(file) as history:
        assert (history.batch("out", 1) or {})["sink"] == {"description": "***"}


def test_old_data_does_not_delay_the_next_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WRITE_SECONDS", 3_600.0)
    monkeypatch.setattr(module, "TIDY_SECONDS", 0.0)
    recorder, parts = Recorder(tmp_path / "history.sqlite", RunView(), clock=CLOCK), list[tuple[int, int]]()

    def steps(retention: Retention, now: int, grown: set[str]) -> Iterator[None]:
        for part in range(3):
            (written,) = retention._connection.execute("SELECT count(*) FROM batches").fetchone()
            parts.append((part, written))
            yield

    monkeypatch.setattr(Retention, "steps", steps)
    for number in range(5):
        recorder(batch(number, NOON + number))
        assert recorder.flush()
    # The fourth write ended the first round.
    assert parts == [(0, 1), (1, 2), (2, 3), (0, 5)]
    recorder.close()


# Files that cannot be written.


def test_a_locked_file_is_written_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "history.sqlite"
    recorder = Recorder(file, RunView(), clock=CLOCK)
    recorder.flush()
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for number in range(3):
        recorder(batch(number, NOON + number))
    until(lambda: recorder.outage.failures >= 2)
    other.execute("ROLLBACK")
    other.close()
    with History(file) as history:
        until(lambda: len(history.batches("out")) == 3)
    recorder.close()
    assert recorder.dropped == 0
    assert [record.message.partition(":")[0] for record in caplog.records] == ["HW-HISTORY-UNWRITABLE"]
    assert "database is locked" in caplog.text


def test_of_events_that_cannot_be_written_the_newest_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PENDING", 3)
    monkeypatch.setattr(module, "WRITE_SECONDS", 3_600.0)
    blocked = tmp_path / "run"
    blocked.write_text("a file where the directory should be")
    recorder = Recorder(blocked / "history.sqlite", RunView(), clock=CLOCK)
    for number in range(5):
        recorder(batch(number, NOON + number))
        assert not recorder.flush()
    assert (recorder.dropped, recorder.outage.failures) == (2, 5)
    blocked.unlink()
    recorder.close()
    with History(blocked / "history.sqlite") as history:
        assert [each.batch_id for each in history.batches("out")] == [4, 3, 2]


def test_what_was_never_written_is_counted_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PENDING", 3)
    monkeypatch.setattr(module, "WRITE_SECONDS", 3_600.0)
    blocked = tmp_path / "run"
    blocked.write_text("a file where the directory should be")
    recorder = Recorder(blocked / "history.sqlite", RunView(), clock=CLOCK)
    for number in range(4):
        recorder(batch(number, NOON + number))
    assert recorder.dropped == 1
    # The report of a loss does not replace an event.
    recorder(EventsDropped(consumer="history", dropped=1))
    assert recorder.dropped == 1
    recorder.close()
    assert recorder.dropped == 4


def test_a_full_disk_does_not_stop_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "history.sqlite"
    recorder = Recorder(file, RunView(), clock=CLOCK)
    recorder.flush()
    assert recorder._connection is not None
    (pages,) = recorder._connection.execute("PRAGMA page_count").fetchone()
    recorder._connection.execute(f"PRAGMA max_page_count = {pages}")
    big = Notice(message="x" * 100_000, code="X")
    recorder(big)
    assert not recorder.flush()
    assert "database or disk is full" in caplog.text
    recorder._connection.execute(f"PRAGMA max_page_count = {pages + 1_000}")
    recorder.close()
    assert kinds(file) == ["notice"]


def test_a_damaged_file_is_replaced_at_the_start(tmp_path: Path) -> None:
    file, told = tmp_path / "history.sqlite", list[Problem]()
    file.write_bytes(b"x" * 5_000)
    recorder = Recorder(file, RunView(), clock=CLOCK, notify=told.append)
    recorder(batch(1))
    recorder.close()
    assert [problem.code for problem in told] == ["HW-HISTORY-DAMAGED"]
    assert len(list(tmp_path.glob("*.damaged-*"))) == 1
    with History(file) as history:
        assert [each.batch_id for each in history.batches("out")] == [1]


def test_damage_that_is_found_later_costs_no_event(tmp_path: Path) -> None:
    file, told = tmp_path / "history.sqlite", list[Problem]()
    record(file, *(batch(number, NOON + number) for number in range(2_000)))
    content = bytearray(file.read_bytes())
    content[8_192:] = b"\xff" * (len(content) - 8_192)
    file.write_bytes(content)
    recorder = Recorder(file, RunView(), clock=CLOCK, notify=told.append)
    recorder(batch(7))
    recorder.flush()
    recorder.close()
    assert [problem.code for problem in told] == ["HW-HISTORY-DAMAGED"]
    with History(file) as history:
        assert [each.batch_id for each in history.batches("out")] == [7]


def test_the_file_of_a_newer_version_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    other = sqlite3.connect(file)
    other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(SetupError) as error:
        Recorder(file, RunView(), clock=CLOCK)
    assert [problem.code for problem in error.value.problems] == ["HW-HISTORY-VERSION-UNSUPPORTED"]


def test_an_event_that_cannot_be_stored_does_not_block_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "history.sqlite"
    recorder = Recorder(file, RunView(), clock=CLOCK)
    assert recorder.flush()
    recorder(replace(batch(1), progress={"sources": []}))
    until(lambda: recorder.dropped == 1)
    recorder(batch(2))
    recorder.close()
    assert "the history missed events" in caplog.text
    with History(file) as history:
        assert [each.batch_id for each in history.batches("out")] == [2]


def test_a_recorder_that_is_stuck_delays_nobody(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    recorder = Recorder(file, RunView(), clock=CLOCK)
    recorder.flush()
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    bus, seen = EventBus(), list[Event]()
    bus.add("history", recorder, capacity=100)
    bus.add("second", seen.append, capacity=100_000)
    began = time.monotonic()
    for number in range(20_000):
        bus(batch(number, NOON + number))
    until(lambda: len(seen) >= 20_000)
    assert time.monotonic() - began < SECONDS
    other.execute("ROLLBACK")
    other.close()
    bus.close()
    recorder.close()


# Other processes.

WRITER = """
import os
import sys
from pathlib import Path
from headwater.events.status import RunView
from headwater.history.recorder import Recorder
from tests.unit.history.events import batch, started, view_of

handed = 0

class Reporting(Recorder):
    def flush(self):
        before = handed
        written = super().flush()
        os.write(1, b"written %d\\n" % before)
        return written

recorder = Reporting(Path(sys.argv[1]), view_of(started()), clock=lambda: 1_767_268_800)
recorder(started())
for line in sys.stdin:
    recorder(batch(int(line), 1_767_268_800_000 + int(line)))
    handed += 1
    os.write(1, b"handed %d\\n" % handed)
"""
"""Hands a batch to the recorder for each line, and reports how many it had been handed before each write."""


def test_kill_9_loses_at_most_the_last_second(tmp_path: Path) -> None:
    """It loses what arrived since the last write, and a write follows the previous one after half a second.

    How long ago that was on the clock depends on the load: a process that is not scheduled cannot write.
    """
    file = tmp_path / "history.sqlite"
    command = [sys.executable, "-c", WRITER, str(file)]
    root = str(Path(__file__).parents[3])
    environ = {**os.environ, "PYTHONPATH": root}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environ, cwd=root) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        handed, written = 0, set[int]()
        while len(written - {0}) < 3:
            assert handed < 2_000, "nothing is written"
            writer.stdin.write(f"{handed}\n")
            writer.stdin.flush()
            handed += 1
            while (line := writer.stdout.readline()) != f"handed {handed}\n":
                written.add(int(line.removeprefix("written ")))
            time.sleep(0.01)
            if len(written - {0}) == 1:
                # It can be read while the other process writes.
                with History(file) as history:
                    assert history.batches("out", 1)[0].batch_id >= max(written) - 1
                    assert (history.status() or {})["status"] == "starting"
        os.kill(writer.pid, signal.SIGKILL)
        written |= {int(line.removeprefix("written ")) for line in writer.stdout}
    assert module.WRITE_SECONDS <= 0.5
    with History(file) as history:
        (newest,) = history.batches("out", 1)
        numbers = [each.batch_id for each in history.batches("out", 100_000)]
        (run,) = history.runs()
    assert max(written) - 1 <= newest.batch_id < handed
    assert numbers == list(range(newest.batch_id, -1, -1))
    assert (run.run_id, run.ended_at) == ("r1", None)
    # The next run continues the same file.
    record(
        file,
        replace(started("r2"), at=at(NOON + DAY)),
        view=view_of(replace(started("r2"), at=at(NOON + DAY))),
    )
    with History(file) as history:
        assert [each.run_id for each in history.runs()] == ["r2", "r1"]
        assert history.batches("out", 1) == [newest]
