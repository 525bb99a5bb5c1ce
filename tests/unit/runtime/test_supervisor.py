"""How a run ends, and what it says of that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import cast
from unittest.mock import MagicMock

import pytest

from headwater.connectors.contract import RunTask, StopQueries, Tick
from headwater.engine.query import RunningQuery
from headwater.errors import CheckpointError, ForcedStopError, HeadwaterError
from headwater.errors.catalogue.running import LOCK_REMOVED, QUERY_STUCK
from headwater.events import (
    Event,
    Notice,
    QueryIdle,
    QueryProgress,
    QueryStatus,
    QueryTerminated,
    RunFinished,
)
from headwater.runtime.handles import Run
from headwater.runtime.host import ControlledRun
from headwater.runtime.query_state import QueryState
from headwater.runtime.tasks import Tasks
from headwater.values import Secret
from tests.unit.runtime.queries import SECONDS, FailedQuery, FakeQuery, FakeStarter, running

PROGRESS = {"batchId": 1, "numInputRows": 0, "sources": []}


def ended(events: list[Event]) -> RunFinished:
    (event,) = [each for each in events if isinstance(each, RunFinished)]
    return event


def stop_in_a_batch(run: Run, query: FakeQuery, then: Callable[[], None]) -> None:
    """Ask for a stop, and do something while the batch still runs."""
    stopping = threading.Thread(target=run.stop)
    stopping.start()
    assert query.begun_to_stop.wait(SECONDS)
    then()
    stopping.join(SECONDS)
    assert not stopping.is_alive()


def test_a_forced_end_is_told_with_the_exit_code_of_the_process() -> None:
    with running("out") as (run, queries, events):
        stop_in_a_batch(run, queries["out"], run.kill)
        assert (run.exit_code, ended(events).exit_code) == (130, 130)
        assert ForcedStopError.exit_code == 130
        problem = run.queries["out"].problem
        assert problem is not None
        assert problem.code == "HW-FORCED-STOP"


def test_an_end_for_another_reason_is_a_failure() -> None:
    with running("out") as (run, queries, events):
        why = LOCK_REMOVED.at(file="out.lock")
        stop_in_a_batch(run, queries["out"], lambda: run._supervisor.kill(why))
        assert (run.exit_code, ended(events).exit_code) == (1, 1)
        assert run.queries["out"].problem == why


def test_force_after_the_end_changes_nothing() -> None:
    with running("out") as (run, queries, events):
        queries["out"].in_batch = False
        run.stop()
        run.kill()
        assert (run.exit_code, ended(events).exit_code, run.queries["out"].problem) == (0, 0, None)


class Restarting(FakeStarter):
    """Starts a query again, which fails again."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def restart_for_static(self, state: QueryState, failure: Exception) -> RunningQuery | None:
        self.names.append(state.name)
        return cast(RunningQuery, FailedQuery(state.name))


@pytest.mark.feature("C7.3", part="a batch that fails over a missing file again and again")
def test_a_query_that_may_start_again_does_so_three_times_without_progress() -> None:
    starter = Restarting()
    with running("out", starter=starter, query=FailedQuery) as (run, _, events):
        assert run.wait(SECONDS)
        assert starter.names == ["out"] * 3
        assert run.queries["out"].status is QueryStatus.FAILED
        assert [each.status for each in events if isinstance(each, QueryTerminated)] == [QueryStatus.FAILED]


def test_progress_begins_the_count_anew() -> None:
    with running("out") as (run, _, _):
        state = run._supervisor.queries["out"]
        state.static_restarts = 3
        run._supervisor.handle(QueryProgress(query="out", rows_out=0, progress=PROGRESS))
        assert state.static_restarts == 0


def test_a_stop_during_a_new_start_is_heard() -> None:
    begun, go_on = threading.Event(), threading.Event()
    new = FakeQuery("out")

    class Slow(FakeStarter):
        def restart_for_static(self, state: QueryState, failure: Exception) -> RunningQuery | None:
            begun.set()
            assert go_on.wait(SECONDS)
            return cast(RunningQuery, new)

    with running("out", starter=Slow(), query=FailedQuery) as (run, _, _):
        assert begun.wait(SECONDS)
        run._supervisor.stop()
        go_on.set()
        assert run.wait(SECONDS)
        assert not new.is_active
        assert run.queries["out"].status is QueryStatus.STOPPED


class Seen(RunTask):
    """A task that notes its calls, and may fail."""

    def __init__(self, *failures: Exception) -> None:
        self.ticks: list[Tick] = []
        self.ticked, self.closed = threading.Event(), threading.Event()
        self._failures = list(failures)

    def tick(self, tick: Tick) -> None:
        self.ticks.append(tick)
        if len(self.ticks) > len(self._failures):
            self.ticked.set()
        else:
            raise self._failures[len(self.ticks) - 1]

    def close(self) -> None:
        self.closed.set()


def test_every_tick_calls_the_tasks_and_the_last_one_is_known() -> None:
    seen = Seen()
    with running("out", tasks=[seen]) as (run, queries, _):
        assert seen.ticked.wait(SECONDS)
        queries["out"].in_batch = False
        run.stop()
    assert (seen.ticks[0].committed, seen.ticks[0].last) == (frozenset(["out"]), False)
    assert [tick.last for tick in seen.ticks] == [*[False] * (len(seen.ticks) - 1), True]
    assert (seen.ticks[-1].healthy, seen.ticks[-1].patience) == (True, 60.0)
    assert seen.closed.is_set()


def test_a_task_that_fails_is_said_once_until_it_goes_well_and_the_others_go_on() -> None:
    broken, unknown = CheckpointError(LOCK_REMOVED.at(file="a")), RuntimeError("no word for it")
    failing, other = Seen(broken, broken, unknown), Seen()
    with running("out", tasks=[failing, other]) as (run, _, events):
        assert failing.ticked.wait(SECONDS)
        assert run.is_active
    assert len(other.ticks) == len(failing.ticks)
    said = [each.text.split()[0] for each in events if isinstance(each, Notice)]
    assert said == ["HW-LOCK-REMOVED", "HW-MAINTENANCE-FAILED"]


def test_a_task_stops_the_queries_that_it_names() -> None:
    why = LOCK_REMOVED.at(file="a")
    with running("out", "other", tasks=[Seen(StopQueries({"out": why}))]) as (run, queries, _):
        queries["out"].in_batch = False
        assert run.queries["out"].wait(SECONDS)
        assert (run.queries["out"].status, run.queries["out"].problem) == (QueryStatus.FAILED, why)
        assert run.queries["other"].status is QueryStatus.STARTING


class Long(RunTask):
    """A task whose first call takes long."""

    def __init__(self) -> None:
        self.called, self.leave = threading.Event(), threading.Event()
        self.steps: list[object] = []

    def tick(self, tick: Tick) -> None:
        if not self.called.is_set():
            self.called.set()
            assert self.leave.wait(SECONDS)
        self.steps.append((tick.last, tick.progress))

    def close(self) -> None:
        self.steps.append("closed")


@pytest.mark.feature("F3", part="the work of a connector delays no query")
def test_a_task_that_takes_long_delays_no_query_and_is_waited_for_at_the_end() -> None:
    task = Long()
    with running("one", "two", tasks=[task]) as (run, queries, _):
        assert task.called.wait(SECONDS)
        # What happens meanwhile is joined into the next call.
        for batch in (1, 2):
            run._supervisor.handle(
                QueryProgress(query="two", rows_out=0, progress={**PROGRESS, "batchId": batch})
            )
        queries["one"].in_batch = queries["one"].is_active = False
        assert run.queries["one"].wait(SECONDS)
        queries["two"].in_batch = queries["two"].is_active = False
        assert run.queries["two"].wait(SECONDS)
        # The locks are released only after the last call.
        assert not run.wait(0.5)
        task.leave.set()
        assert run.wait(SECONDS)
    assert [step if step == "closed" else step[0] for step in task.steps] == [False, True, "closed"]  # type: ignore[index]
    last = cast(tuple[bool, dict[str, tuple[dict[str, int], ...]]], task.steps[1])
    assert [each["batchId"] for each in last[1]["two"]] == [1, 2]


def test_tasks_that_cannot_be_called_end_the_run() -> None:
    class Broken(RunTask):
        def tick(self, tick: Tick) -> None:
            raise SystemExit

    with running("out", tasks=[Broken()]) as (run, queries, _):
        assert queries["out"].begun_to_stop.wait(SECONDS)
        queries["out"].in_batch = False
        assert run.wait(SECONDS)
        problem = run.queries["out"].problem
        assert problem is not None
        assert problem.code == "HW-MONITOR-FAILED"


class Asked(FakeQuery):
    """A query that counts how often it is asked whether it runs."""

    asked = 0
    _active = True

    @property
    def is_active(self) -> bool:
        self.asked += 1
        return self._active

    @is_active.setter
    def is_active(self, active: bool) -> None:
        self._active = active


def test_queries_are_not_asked_at_every_tick() -> None:
    """Each answer is several calls into the JVM, for each query of the run."""
    seen = Seen()
    with running("one", "two", query=Asked, tasks=[seen]) as (run, queries, _):
        assert run.is_active
        deadline = time.monotonic() + SECONDS
        while len(seen.ticks) < 8 and time.monotonic() < deadline:
            time.sleep(0.01)
        asked = [cast(Asked, each).asked for each in queries.values()]
        assert 1 <= max(asked) <= len(seen.ticks) // 2
        queries["one"].is_active = False
        assert run.queries["one"].wait(SECONDS)


class Closing(FakeStarter):
    """Notes its end, and may fail at it."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.closed = threading.Event()
        self._failure = failure

    def close(self) -> None:
        self.closed.set()
        if self._failure:
            raise self._failure


def test_a_watch_that_fails_stops_the_queries_and_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def tick(tasks: Tasks, tick: Tick) -> None:
        raise RuntimeError("no word for it")

    monkeypatch.setattr(Tasks, "tick", tick)
    starter = Closing()
    with running("out", starter=starter) as (run, queries, events):
        assert queries["out"].begun_to_stop.wait(SECONDS)
        # The running batch may commit, and until then the run holds its locks.
        assert not starter.closed.is_set()
        queries["out"].in_batch = False
        assert run.wait(SECONDS)
        assert not queries["out"].is_active
        assert starter.closed.is_set()
        query = run.queries["out"]
        assert query.problem is not None
        assert (query.status, query.problem.code) == (QueryStatus.FAILED, "HW-MONITOR-FAILED")
        assert query.problem.params == {"says": "RuntimeError: no word for it"}
        assert "Traceback" in query.problem.detail
        assert (run.exit_code, ended(events).exit_code) == (1, 1)


def test_a_run_is_closed_even_if_its_last_steps_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    raised = list[type[BaseException]]()
    monkeypatch.setattr(threading, "excepthook", lambda args: raised.append(args.exc_type))
    starter = Closing(RuntimeError("the lock can't be removed"))
    with running("out", query=FailedQuery, starter=starter) as (run, _, events):
        assert run.wait(SECONDS)
        assert ended(events).exit_code == 1
        run._supervisor._thread.join(SECONDS)
        assert raised == [RuntimeError]


def test_the_locks_are_released_when_nothing_of_the_run_is_left() -> None:
    """A new run in the directory has the same socket and history."""
    starter, released = Closing(), list[bool]()
    with running("out", query=FailedQuery, starter=starter) as (run, _, events):
        observers = MagicMock()
        observers.close.side_effect = lambda: released.append(starter.closed.is_set())
        run._supervisor.scope = replace(run._supervisor.scope, observers=observers)
        assert run.wait(SECONDS)
        assert (released, starter.closed.is_set(), ended(events).exit_code) == ([False], True, 1)


class StuckQuery(FakeQuery):
    """A query whose code does not react to an interrupt."""

    def finish_batch(self, deadline: float, forced: Callable[[], bool]) -> bool:
        return not self.in_batch

    def stop(self) -> bool:
        self.is_active = self.in_batch
        return not self.is_active


def test_a_query_that_cannot_be_stopped_is_named_and_does_not_end_the_run() -> None:
    with running("out", "other", query=StuckQuery) as (run, queries, events):
        queries["other"].in_batch = False
        controlled = ControlledRun(run._supervisor)
        requests: tuple[Callable[[str], None], ...] = (
            controlled.restart,
            lambda name: controlled.stop(name, 0),
        )
        for request in requests:
            with pytest.raises(HeadwaterError) as stuck:
                request("out")
            assert stuck.value.problems == (QUERY_STUCK.at(None, sink="out"),)
        assert (run.is_stuck, run.is_active) == (False, True)
        run.queries["other"].stop()
        assert run.queries["other"].wait(SECONDS)
        # Now nothing else is left.
        assert run.is_stuck
        assert [each.code for each in events if isinstance(each, Notice)].count("HW-QUERY-STUCK") == 1
        # The stop came after the restart, so the query is not started again.
        queries["out"].in_batch = queries["out"].is_active = False
        assert run.wait(SECONDS)
        assert (run.is_stuck, run.queries["out"].status) == (False, QueryStatus.STOPPED)


def test_what_others_see_of_the_progress_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROGRESS_TOKEN", "batchId-and-more")
    Secret("${secret:PROGRESS_TOKEN}").reveal()
    progress = {**PROGRESS, "sources": [{"description": "Feed[batchId-and-more]"}]}
    with running("out") as (run, _, _):
        run._supervisor.handle(QueryProgress(query="out", rows_out=0, progress=progress))
        assert run.queries["out"].progress == {**PROGRESS, "sources": [{"description": "Feed[***]"}]}


@pytest.mark.parametrize("name", ["out", "id of out"])
def test_a_query_by_name_or_id(name: str) -> None:
    with running("out", "more") as (run, _, _):
        assert run.query(name).name == "out"


def test_a_query_that_can_not_start_again_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGAIN_TOKEN", "hush-hush")
    Secret("${secret:AGAIN_TOKEN}").reveal()

    class Full(FakeStarter):
        def restart_for_static(self, state: QueryState, failure: Exception) -> RunningQuery | None:
            raise OSError("hush-hush is full")

    with running("out", starter=Full(), query=FailedQuery) as (run, _, events):
        assert run.wait(SECONDS)
        problem = run.queries["out"].problem
        assert problem is not None
        assert problem.code == "HW-QUERY-FAILED"
        said = [each.text for each in events if isinstance(each, Notice)]
        assert said == ["Could not restart query `out`: OSError: *** is full."]


@pytest.mark.parametrize(
    ("begun", "seconds", "idle"),
    [
        ("2000-01-01T00:00:00.000Z", 0.3, False),
        ("2999-01-01T00:00:00.000Z", SECONDS, True),
        ("", SECONDS, True),
    ],
)
def test_looks_from_before_the_call_are_no_sign_of_being_idle(begun: str, seconds: float, idle: bool) -> None:
    with running("out") as (run, _, _):
        answers: list[bool] = []
        waiting = threading.Thread(target=lambda: answers.append(run.wait_idle(seconds)))
        waiting.start()
        while waiting.is_alive():
            run._supervisor.handle(QueryIdle(query="out", started_at=begun))
            waiting.join(0.01)
        assert answers == [idle]
