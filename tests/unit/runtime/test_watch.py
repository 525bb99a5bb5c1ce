"""A watch and its run directory: who may use it, what replaces a watch, and what is left of one."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headwater.api.remote import connect
from headwater.engine.session_queries import Spark
from headwater.errors import CheckpointLockedError, SetupError
from headwater.events import Event
from headwater.events.status import ENDED_KEPT
from headwater.history.reader import History
from headwater.run_directory import RunDirectory
from headwater.runtime.locks import RunLocks
from headwater.runtime.observers import Observed
from headwater.runtime.watch import Watch, start_watch
from headwater.values import Position
from tests.unit.history.events import batch
from tests.unit.runtime.programs import FakeSession, headwater_threads, soon
from tests.unit.runtime.queries import FakeQuery

pytestmark = pytest.mark.feature("L4", part="a watch leaves nothing behind")

CALL = Position("job.py", 3)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test records a run of the user; afterwards, no thread is left."""
    monkeypatch.setenv("HEADWATER_STATE_DIR", str(tmp_path / "state"))
    yield
    assert soon(lambda: headwater_threads() == []), headwater_threads()


def watching(session: FakeSession, folder: Path, metrics: str | None = None) -> Watch:
    return start_watch(session, Observed("job", folder / "run", metrics=metrics), None, CALL)


def test_a_watch_is_shown_like_a_run_and_stops_twice(tmp_path: Path) -> None:
    session, events = FakeSession(), list[Event]()
    now = round(time.time() * 1_000)
    session.start(FakeQuery("out")).committed = [batch(0, now), batch(1, now + 1)]
    watch = start_watch(session, Observed("job", tmp_path / "run"), events.append, CALL)
    remote = connect(tmp_path / "run")
    assert (remote.id, remote.status) == (watch.id, "running")
    assert remote.to_json() == watch.status
    assert watch.queries["out"]["rows_in"] == 10
    assert repr(watch) == "<Watch job, active: out: running>"
    watch.stop()
    watch.stop()
    assert not session.listener.is_open
    # The query continues, so its end is unknown.
    assert repr(watch) == "<Watch job, stopped: out: running>"
    assert [event.kind for event in events] == [
        "run_started",
        "query_started",
        "query_progress",
        "query_progress",
        "run_finished",
    ]
    directory = RunDirectory(tmp_path / "run")
    assert not directory.in_use
    assert not directory.control.exists()
    assert not directory.control_socket.exists()
    with History(directory.history) as history:
        (run,) = history.runs()
        assert (run.run_id, run.pipeline, run.exit_code) == (watch.id, "job", 0)
        assert [each.batch_id for each in history.batches("out")] == [1, 0]


def test_the_history_has_the_queries_that_memory_forgets(tmp_path: Path) -> None:
    session, names = FakeSession(), [f"q{number}" for number in range(ENDED_KEPT + 10)]
    with watching(session, tmp_path) as watch:
        assert session.receiver is not None
        for name in names:
            query = session.start(FakeQuery(name))
            query.is_active = False
            session.receiver.over(name)
        assert list(watch.queries) == names[10:]
    with History(RunDirectory(tmp_path / "run").history) as history:
        ends = [event.body for event in history.events() if event.body["event"] == "query_terminated"]
        assert [(each["query"], each["status"]) for each in ends] == [(name, "stopped") for name in names]
        assert [each["query"] for each in (history.status() or {})["queries"]] == names[10:]


def test_a_second_watch_of_the_same_session_replaces_the_first(tmp_path: Path) -> None:
    session = FakeSession()
    first = watching(session, tmp_path)
    second = watching(session, tmp_path)
    assert (first.is_active, second.is_active) == (False, True)
    second.stop()


def test_another_session_replaces_only_one_that_has_ended(tmp_path: Path) -> None:
    one, other = FakeSession(), FakeSession()
    first = watching(one, tmp_path)
    with pytest.raises(CheckpointLockedError) as refused:
        watching(other, tmp_path)
    (problem,) = refused.value.problems
    assert (problem.code, problem.place) == ("HW-WATCH-DIRECTORY-IN-USE", CALL)
    assert (problem.params["directory"], problem.params["run"]) == (str(tmp_path / "run"), first.id)
    assert first.is_active
    one.status = Spark.STOPPED
    with watching(other, tmp_path) as second:
        assert (first.is_active, second.is_active) == (False, True)


def test_a_directory_of_a_run_is_refused(tmp_path: Path) -> None:
    locks = RunLocks([RunDirectory(tmp_path / "run").checkpoints], "r1")
    try:
        with pytest.raises(CheckpointLockedError) as refused:
            watching(FakeSession(), tmp_path)
    finally:
        locks.release()
    assert refused.value.problems[0].params["run"] == "r1"


def test_a_watch_that_cannot_start_leaves_nothing(tmp_path: Path) -> None:
    session = FakeSession()
    with closing(socket.create_server(("127.0.0.1", 0))) as taken, pytest.raises(SetupError) as refused:
        watching(session, tmp_path, metrics=str(taken.getsockname()[1]))
    assert refused.value.problems[0].code == "HW-METRICS-ADDRESS-IN-USE"
    assert not RunDirectory(tmp_path / "run").in_use
    assert not session.listener.is_open


def test_a_watch_ends_with_spark(tmp_path: Path) -> None:
    session = FakeSession()
    session.start(FakeQuery("out"))
    watch = watching(session, tmp_path)
    session.status = Spark.STOPPED
    assert session.receiver is not None
    session.receiver.catch_up()
    assert not watch.is_active
    assert connect(tmp_path / "run").status == "stopped"


def test_at_the_exit_of_the_program_its_queries_stop(tmp_path: Path) -> None:
    session = FakeSession()
    session.start(FakeQuery("out"))
    watch = watching(session, tmp_path)
    watch._exit()
    assert watch.queries["out"]["status"] == "stopped"
    assert connect(tmp_path / "run").status == "stopped"
