"""The events of a session's queries, as a watch receives them: each batch once, every end with its reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.engine.session_queries import Spark
from headwater.errors import UsageError
from headwater.events import (
    Event,
    Notice,
    QueryProgress,
    QueryRestarted,
    QueryRunning,
    QueryStarted,
    QueryTerminated,
)
from headwater.events.status import ENDED_KEPT
from headwater.runtime.program_queries import ControlledWatch, WatchedQueries
from headwater.values import AvailableNow, Every
from headwater.values.durations import Duration
from tests.unit.history.events import NOON, batch
from tests.unit.runtime.programs import FakeSession
from tests.unit.runtime.queries import FailedQuery, FakeQuery

pytestmark = pytest.mark.feature("L4", part="events")


class World:
    """A watched session, and what the watch has emitted."""

    def __init__(self, folder: Path) -> None:
        self.session = FakeSession()
        self.events: list[Event] = []
        self.ended: list[str] = []
        self.log = folder / "failures.log"
        ended: Callable[[], None] = lambda: self.ended.append("ended")  # noqa: E731
        self.watched = WatchedQueries(self.session, self.events.append, self.log, ended)

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def batches(self) -> list[int]:
        return [event.batch_id for event in self.of(QueryProgress)]

    @property
    def ends(self) -> list[tuple[str, str, str]]:
        return [
            (each.query, each.status.value, each.problem.code if each.problem else "")
            for each in self.of(QueryTerminated)
        ]


class ReportedQuery(FakeQuery):
    """A query between two batches; Spark reports its end."""

    def __init__(self, name: str, world: World) -> None:
        super().__init__(name)
        self.in_batch = False
        self._world = world

    def stop(self) -> bool:
        self.is_active = False
        self._world.watched.over(self.name)
        return True


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_query_from_before_has_the_batches_that_spark_still_knows(world: World) -> None:
    query = world.session.start(FakeQuery("out"))
    query.trigger = Every(Duration(1_000))
    query.committed = [batch(57, NOON), batch(58, NOON + 1_000)]
    world.watched.open()
    world.watched.handle(batch(58, NOON + 1_000))
    world.watched.handle(batch(59, NOON + 2_000))
    (started,) = world.of(QueryStarted)
    assert (started.query, started.id, started.run_id) == ("out", "id of out", "run of out")
    assert (started.details.connector, started.details.trigger) == ("noop", "every 1 second")
    assert world.session.listener.known == ["out"]
    assert world.batches == [57, 58, 59]
    assert world.of(Notice) == []
    # The time of the batch and not of its event: a second watch stores nothing twice.
    assert [each.at[17:] for each in world.of(QueryProgress)] == ["00.100Z", "01.100Z", "02.100Z"]


def test_batches_without_an_event_are_read_from_the_query(world: World) -> None:
    world.watched.open()
    query = world.session.start(FakeQuery("out"))
    world.watched.handle(batch(0))
    query.committed = [batch(0), batch(1), batch(2)]
    world.watched.catch_up()
    world.watched.handle(batch(2))
    assert world.batches == [0, 1, 2]


def test_a_batch_that_has_begun_is_reported_once(world: World) -> None:
    world.watched.open()
    query = world.session.start(FakeQuery("out"))
    query.is_processing = True
    world.watched.catch_up()
    world.watched.catch_up()
    assert [event.query for event in world.of(QueryRunning)] == ["out"]
    assert world.watched.summary["out"].status == "running"


def test_events_of_unknown_queries_are_ignored(world: World) -> None:
    world.watched.open()
    world.watched.handle(batch(0, query="other"))
    world.watched.over("other")
    assert world.events == []


@pytest.mark.parametrize(
    ("query", "trigger", "end"),
    [
        (FakeQuery, AvailableNow(), ("out", "finished", "")),
        (FakeQuery, Every(Duration(1_000)), ("out", "stopped", "")),
        (FailedQuery, Every(Duration(1_000)), ("out", "failed", "HW-QUERY-FAILED")),
    ],
)
def test_an_end_has_its_reason_and_comes_after_the_last_batch(
    query: type[FakeQuery], trigger: Any, end: tuple[str, str, str], world: World
) -> None:
    world.watched.open()
    started = world.session.start(query("out"))
    started.trigger, started.is_active = trigger, False
    started.committed = [batch(0)]
    world.watched.over("out")
    world.watched.over("out")
    assert world.ends == [end]
    assert isinstance(world.events[-2], QueryProgress)
    assert world.watched.exit_code == int(end[1] == "failed")
    assert world.log.exists() == (end[1] == "failed")


def test_an_end_without_an_event_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.runtime.query_state._LAST_EVENTS_SECONDS", -1.0)
    monkeypatch.setattr(FakeQuery, "is_gone", False)
    world.watched.open()
    world.session.start(FakeQuery("out")).is_active = False
    world.watched.catch_up()
    assert world.ends == [("out", "stopped", "")]


def test_a_query_that_has_terminated_has_ended_when_all_is_taken_in(world: World) -> None:
    world.watched.open()
    over, active = world.session.start(FakeQuery("over")), world.session.start(FakeQuery("active"))
    over.trigger, over.is_active, over.committed = AvailableNow(), False, [batch(0, query="over")]
    world.watched.drain(1.0)
    world.watched.over("over")
    assert world.ends == [("over", "finished", "")]
    assert world.batches == [0]
    assert active.is_active


def test_a_query_that_the_program_starts_again_is_a_restart(world: World) -> None:
    world.watched.open()
    first = world.session.start(FailedQuery("out"))
    world.watched.handle(batch(0))
    world.watched.over("out")
    second = FakeQuery("out")
    second.run_id = "second run"
    world.session.start(second)
    world.watched.handle(batch(1))
    assert world.ends == [("out", "failed", "HW-QUERY-FAILED")]
    assert [event.run_id for event in world.of(QueryStarted)] == [first.run_id, "second run"]
    assert [event.restarts for event in world.of(QueryRestarted)] == [1]
    assert world.batches == [0, 1]
    summary = world.watched.summary["out"]
    assert (summary.status, summary.rows_in, summary.problem) == ("running", 10, None)
    assert world.watched.exit_code == 0


@pytest.mark.parametrize(
    ("status", "end"),
    [
        (Spark.STOPPED, ("out", "stopped", "")),
        (Spark.DIED, ("out", "failed", "HW-QUERY-FAILED")),
    ],
)
def test_the_queries_end_with_spark(status: Spark, end: tuple[str, str, str], world: World) -> None:
    world.watched.open()
    world.session.start(FakeQuery("out"))
    world.watched.catch_up()
    assert world.ended == []
    world.session.status = status
    world.watched.catch_up()
    assert world.ends == [end]
    assert world.ended == ["ended"]


def test_what_could_not_be_handled_is_reported_once(world: World) -> None:
    world.watched.not_handled(ValueError("no such field"))
    world.watched.not_handled(ValueError("no such field"))
    assert [event.code for event in world.of(Notice)] == ["HW-EVENT-PROCESSING-FAILED"]


@pytest.mark.feature("L4", part="control")
def test_other_processes_can_stop_a_query_and_see_its_plan_and_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.watched.open()
    control = ControlledWatch("job", world.watched)
    queries = [world.session.start(ReportedQuery(name, world)) for name in ("one", "two")]
    monkeypatch.setattr(queries[1], "plan", lambda: "== Physical Plan ==", raising=False)
    assert control.plan("two") == "== Physical Plan =="
    control.stop("one", 1.0)
    assert [query.is_active for query in queries] == [False, True]
    assert world.ends == [("one", "stopped", "")]
    control.stop(None, 1.0)
    assert world.ends == [("one", "stopped", ""), ("two", "stopped", "")]
    assert control.is_alive
    with pytest.raises(UsageError) as refused:
        control.restart("one")
    assert refused.value.problems[0].code == "HW-WATCH-RESTART-UNSUPPORTED"
    with pytest.raises(UsageError) as refused:
        control.sql("SELECT 1", 10, 1.0)
    assert refused.value.problems[0].code == "HW-WATCH-SQL-UNSUPPORTED"


def test_a_batch_that_outlasts_the_limit_is_interrupted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.runtime.program_queries._END_SECONDS", 0.0)
    monkeypatch.setattr(FakeQuery, "finish_batch", lambda query, deadline, forced: False)
    world.watched.open()
    world.session.start(FakeQuery("out"))
    world.watched.stop(["out"], 0.5)
    world.watched.over("out")
    assert world.ends == [("out", "stopped", "HW-STOP-TIMEOUT")]


def test_only_the_last_ended_queries_are_kept_in_memory(world: World) -> None:
    world.watched.open()
    world.session.start(FakeQuery("active"))
    failed = world.session.start(FailedQuery("failed"))
    failed.is_active = False
    world.watched.over("failed")
    assert world.watched.exit_code == 1
    names = [f"q{number}" for number in range(ENDED_KEPT + 30)]
    for name in names:
        query = world.session.start(FakeQuery(name))
        world.watched.handle(batch(0, query=name))
        query.is_active = False
        world.watched.over(name)
    world.watched.catch_up()
    assert list(world.watched.summary) == ["active", *names[30:]]
    # Every event was emitted, and a failure is not forgotten.
    assert [each.query for each in world.of(QueryTerminated)] == ["failed", *names]
    assert [each.query for each in world.of(QueryProgress)] == names
    assert world.watched.exit_code == 1
    # A name that is known no more is that of a new query.
    world.session.start(FakeQuery("q0"))
    assert world.of(QueryRestarted) == []
    assert world.watched.summary["q0"].status == "starting"
