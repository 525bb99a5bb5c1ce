"""Which failed query is restarted, when, and how often."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Self, cast

import pytest

from headwater.connectors.contract import RunTask, Tick
from headwater.engine.query import RunningQuery
from headwater.errors import Problem, UsageError
from headwater.errors.catalogue.running import (
    CONNECTION_FAILED,
    QUERY_FAILED,
    QUERY_STOPPING,
    SPARK_DIED,
)
from headwater.events import (
    Event,
    Notice,
    QueryRestarted,
    QueryRestarting,
    QueryStatus,
    QueryTerminated,
    RunFinished,
)
from headwater.runtime.handles import Run
from headwater.runtime.host import ControlledRun
from headwater.runtime.query_state import QueryState
from headwater.runtime.restarts import Restarts
from headwater.runtime.supervisor import Supervisor
from headwater.spec import RestartPolicy
from headwater.values import Duration
from tests.unit.runtime.queries import (
    SECONDS,
    AnySpec,
    FailedQuery,
    FakeQuery,
    FakeStarter,
    running,
    scope_of,
)

QUICK = RestartPolicy(attempts=3, within=Duration(60_000), backoff=Duration(10), max_backoff=Duration(20))
UNREACHABLE = CONNECTION_FAILED.at(None, sink="out", says="refused")


class Recovering(FakeStarter):
    """Queries that fail for a reason that a retry can fix, until they are restarted often enough."""

    def __init__(self, needed: int, problem: Problem = UNREACHABLE) -> None:
        self.needed = needed
        self.problem = problem
        self.started: list[FakeQuery] = []

    def explain(self, state: QueryState, failure: Exception) -> Problem:
        return self.problem

    def restart(self, name: str) -> RunningQuery:
        last = len(self.started) + 1 >= self.needed
        self.started.append((FakeQuery if last else FailedQuery)(name))
        return cast(RunningQuery, self.started[-1])


def wait_for(run: Run, condition: Callable[[], bool]) -> None:
    assert run._supervisor.wait(condition, SECONDS)


@pytest.mark.feature("F3", part="restart with back-off, without Spark")
def test_a_query_recovers_after_several_attempts() -> None:
    starter = Recovering(3)
    with running("out", starter=starter, query=FailedQuery, policy=QUICK) as (run, _, events):
        wait_for(run, lambda: len(starter.started) == 3)
        query = run.queries["out"]
        wait_for(run, lambda: query.restarts == 3)
        restarting = [each for each in events if isinstance(each, QueryRestarting)]
        assert [(each.attempt, each.attempts, each.problem) for each in restarting] == [
            (number, 3, UNREACHABLE) for number in (1, 2, 3)
        ]
        starter.started[-1].in_batch = False
        run.stop()
        assert [each.restarts for each in events if isinstance(each, QueryRestarted)] == [1, 2, 3]
        assert (query.status, query.problem, run.exit_code) == (QueryStatus.STOPPED, None, 0)


@pytest.mark.feature("F3", part="no more attempts, without Spark")
def test_it_fails_for_good_when_its_attempts_are_used_up() -> None:
    starter = Recovering(1_000)
    with running("out", starter=starter, query=FailedQuery, policy=QUICK) as (run, _, events):
        assert run.wait(SECONDS)
        assert len(starter.started) == 3
        (used_up,) = [each for each in events if isinstance(each, Notice)]
        assert (used_up.code, used_up.fields["attempts"]) == ("HW-RESTARTS-USED-UP", 3)
        (ended,) = [each for each in events if isinstance(each, QueryTerminated)]
        assert (ended.status, ended.problem, run.exit_code) == (QueryStatus.FAILED, UNREACHABLE, 1)


@pytest.mark.parametrize(
    ("problem", "policy"),
    [
        (QUERY_FAILED.at(None, sink="out", says="a bug", log="log"), QUICK),
        (UNREACHABLE, RestartPolicy.never()),
        # The process of Spark belongs to other code.
        (SPARK_DIED.at(None, sink="out", log="log"), QUICK),
    ],
)
def test_what_a_retry_can_not_fix_is_not_retried(problem: Problem, policy: RestartPolicy) -> None:
    starter = Recovering(1, problem)
    with running("out", starter=starter, query=FailedQuery, policy=policy) as (run, _, events):
        assert run.wait(SECONDS)
        assert starter.started == []
        assert run.queries["out"].problem == problem
        assert not [each for each in events if isinstance(each, QueryRestarting | Notice)]


SLOW = RestartPolicy(backoff=Duration(3_600_000), max_backoff=Duration(3_600_000), within=Duration(7_200_000))


def test_a_query_that_waits_for_its_restart_can_be_stopped() -> None:
    with running("out", starter=Recovering(1), query=FailedQuery, policy=SLOW) as (run, _, events):
        query = run.queries["out"]
        wait_for(run, lambda: query.status is QueryStatus.RESTARTING)
        run.stop()
        # It has not recovered.
        assert (query.status, query.problem, run.exit_code) == (QueryStatus.FAILED, UNREACHABLE, 1)
        (finished,) = [each for each in events if isinstance(each, RunFinished)]
        assert finished.exit_code == 1


def test_a_failure_during_a_slow_restart_is_handled_before_the_next_restart() -> None:
    def fail(*names: str) -> None:
        with run._supervisor._changed:
            for name in names:
                queries[name].failure = lambda: RuntimeError("refused")  # type: ignore[method-assign]
                queries[name].in_batch = queries[name].is_active = False
                run._supervisor.over(name)

    class Slow(Recovering):
        def restart(self, name: str) -> RunningQuery:
            if not self.started:
                fail("c")
            return super().restart(name)

    starter = Slow(1)
    with running("a", "b", "c", starter=starter, policy=QUICK) as (run, queries, events):
        fail("a", "b")
        wait_for(run, lambda: all(query.restarts == 1 for query in run.queries.values()))
        happened = [each for each in events if isinstance(each, QueryRestarting | QueryRestarted)]
        first, second = [each.query for each in happened if isinstance(each, QueryRestarted)][:2]
        assert [(type(each), each.query) for each in happened] == [
            (QueryRestarting, "a"),
            (QueryRestarting, "b"),
            (QueryRestarted, first),
            (QueryRestarting, "c"),
            (QueryRestarted, second),
            (QueryRestarted, "c"),
        ]
        for each in starter.started:
            each.in_batch = False
        run.stop()


def test_a_waiting_query_does_not_delay_the_others() -> None:
    with running("a", "b", starter=Recovering(1), policy=SLOW) as (run, queries, _):
        queries["a"].failure = lambda: RuntimeError("refused")  # type: ignore[method-assign]
        queries["a"].in_batch = queries["a"].is_active = False
        wait_for(run, lambda: run.queries["a"].status is QueryStatus.RESTARTING)
        queries["b"].in_batch = queries["b"].is_active = False
        wait_for(run, lambda: run.queries["b"].status is QueryStatus.FINISHED)
        assert run.queries["a"].status is QueryStatus.RESTARTING
        run.stop()


def test_a_user_restarts_a_running_query_and_one_that_has_failed() -> None:
    starter = Recovering(1, QUERY_FAILED.at(None, sink="out", says="a bug", log="log"))
    with running("out", "other", starter=starter) as (run, queries, events):
        queries["out"].in_batch = False
        run.queries["out"].restart()
        assert (len(starter.started), run.queries["out"].restarts) == (1, 1)
        first = starter.started[0]
        first.failure = lambda: RuntimeError("a bug")  # type: ignore[method-assign]
        first.is_active = False
        wait_for(run, lambda: run.queries["out"].status is QueryStatus.FAILED)
        run.queries["out"].restart()
        assert (len(starter.started), run.queries["out"].restarts) == (2, 2)
        assert run.queries["out"].problem is None
        starter.started[1].in_batch = queries["other"].in_batch = False
        run.stop()
        assert run.exit_code == 0
        with pytest.raises(UsageError) as ended:
            run.queries["out"].restart()
        assert ended.value.problems[0].code == "HW-RUN-ENDED"
        assert [each.restarts for each in events if isinstance(each, QueryRestarted)] == [1, 2]


@pytest.mark.parametrize(("stops", "status"), [(True, QueryStatus.STOPPED), (False, QueryStatus.STARTING)])
def test_the_failure_of_one_query_ends_the_run_if_the_pipeline_says_so(
    stops: bool, status: QueryStatus
) -> None:
    with running("a", "b", policy=RestartPolicy.never(), stops=stops) as (run, queries, _):
        queries["b"].in_batch = False
        queries["a"].failure = lambda: RuntimeError("a bug")  # type: ignore[method-assign]
        queries["a"].is_active = False
        wait_for(run, lambda: run.queries["a"].status is QueryStatus.FAILED)
        if stops:
            assert run.wait(SECONDS)
        assert run.queries["b"].status is status


class NewSpark(FakeStarter):
    """Every query has died with Spark, which can be started again."""

    restarts_spark = True

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.starts: list[list[str]] = []
        self.queries: dict[str, FakeQuery] = {}

    def explain(self, state: QueryState, failure: Exception) -> Problem:
        return SPARK_DIED.at(None, sink=state.name, log="log")

    def with_new_spark(self, supervisor: Supervisor, names: Iterable[str]) -> Self:
        self.starts.append(list(names))
        if len(self.starts) <= self.failures:
            raise OSError("no memory")
        for name in self.starts[-1]:
            self.queries[name] = FakeQuery(name)
            supervisor.adopt(cast(RunningQuery, self.queries[name]), newest=-1)
        return self


class Ticks(RunTask):
    """Notes whether each tick was the last one."""

    def __init__(self) -> None:
        self.last: list[bool] = []

    def tick(self, tick: Tick) -> None:
        self.last.append(tick.last)


@pytest.mark.feature("H1.1", part="the process of Spark dies, without Spark")
@pytest.mark.parametrize("failures", [0, 2])
def test_spark_and_all_its_queries_restart_together(failures: int, monkeypatch: pytest.MonkeyPatch) -> None:
    is_gone = threading.Event()
    monkeypatch.setattr(
        FakeQuery, "is_gone", property(lambda query: is_gone.is_set() and not query.is_active)
    )
    starter = NewSpark(failures)
    with running("a", "b", "c", starter=starter, policy=QUICK) as (run, queries, events):
        # One had ended before.
        queries["c"].in_batch = False
        run.queries["c"].stop()
        wait_for(run, lambda: run.queries["c"].status is QueryStatus.STOPPED)
        for each in (queries["a"], queries["b"]):
            each.failure = lambda: RuntimeError("gone")  # type: ignore[method-assign]
            each.is_active = False
        # Of all queries at once.
        is_gone.set()
        wait_for(run, lambda: all(run.queries[name].restarts == 1 for name in "ab"))
        assert starter.starts == [["a", "b"]] * (failures + 1)
        attempts = [(each.query, each.attempt) for each in events if isinstance(each, QueryRestarting)]
        assert sorted(attempts) == sorted(
            (name, number + 1) for name in "ab" for number in range(failures + 1)
        )
        for each in starter.queries.values():
            each.in_batch = False
        run.stop()
        assert run.exit_code == 0


def test_spark_that_never_starts_again_is_given_up() -> None:
    starter, task = NewSpark(1_000), Ticks()
    with running("a", "b", starter=starter, query=FailedQuery, tasks=[task], policy=QUICK) as (
        run,
        _,
        events,
    ):
        assert run.wait(SECONDS)
        # Without Spark, tasks have nothing to do before the end.
        assert task.last == [True]
        assert len(starter.starts) == 3
        assert run.exit_code == 1
        codes = {name: problem.code for name in "ab" if (problem := run.queries[name].problem)}
        assert codes == {"a": "HW-SPARK-DIED", "b": "HW-SPARK-DIED"}
        assert {each.code for each in events if isinstance(each, Notice)} == {"HW-RESTARTS-USED-UP"}


def test_spark_dies_while_a_query_waits_for_its_batch_to_be_restarted() -> None:
    starter = NewSpark()
    with running("out", starter=starter, policy=QUICK) as (run, queries, events):
        query = queries["out"]
        asking = threading.Thread(target=run.queries["out"].restart, daemon=True)
        asking.start()
        assert query.begun_to_stop.wait(SECONDS)
        query.failure = lambda: RuntimeError("gone")  # type: ignore[method-assign]
        query.in_batch = query.is_active = False
        asking.join(SECONDS)
        assert not asking.is_alive()
        wait_for(run, lambda: run.queries["out"].restarts == 1)
        # The death of Spark is reported, and the request is met by the restart of Spark.
        assert [each.problem.code for each in events if isinstance(each, QueryRestarting)] == [
            "HW-SPARK-DIED"
        ]
        assert starter.starts == [["out"]]
        starter.queries["out"].in_batch = False
        run.stop()
        assert run.exit_code == 0


def test_a_query_that_a_user_restarts_without_spark_does_not_wait_for_a_time_that_nobody_sets() -> None:
    restarts = Restarts(scope_of([], AnySpec("out")), clock=lambda: 10.0)
    state = QueryState(cast(RunningQuery, FakeQuery("out")))
    restarts.spark_died()
    state.wait_for_restart(9.0)
    assert restarts.is_due(state)
    state.wait_for_restart(11.0)
    assert not restarts.is_due(state)


def test_a_restart_while_a_stop_waits_for_the_batch_is_rejected_and_the_stop_succeeds() -> None:
    """Otherwise, the query would never end for the client that waits for its stop."""
    starter = Recovering(1)
    with running("out", "other", starter=starter) as (run, queries, _):
        controlled = ControlledRun(run._supervisor)
        stopping = threading.Thread(target=controlled.stop, args=("out", None), daemon=True)
        stopping.start()
        assert queries["out"].begun_to_stop.wait(SECONDS)
        with pytest.raises(UsageError) as rejected:
            controlled.restart("out")
        assert rejected.value.problems == (QUERY_STOPPING.at(None, sink="out"),)
        queries["out"].in_batch = queries["out"].is_active = False
        stopping.join(SECONDS)
        assert not stopping.is_alive()
        assert run.queries["out"].status is QueryStatus.STOPPED
        # Now nobody waits for it.
        controlled.restart("out")
        assert run.queries["out"].restarts == 1
        starter.started[0].in_batch = queries["other"].in_batch = False
        run.stop()


def test_a_stop_that_comes_while_a_restart_is_decided_is_not_forgotten() -> None:
    events: list[Event] = []
    state, changed = QueryState(cast(RunningQuery, FakeQuery("out"))), threading.Condition()

    def stopped_meanwhile() -> float:
        state.stopping = True
        return 1.0

    restarts = Restarts(scope_of(events, AnySpec("out", policy=QUICK)), jitter=stopped_meanwhile)
    assert not restarts.schedule(state, UNREACHABLE, changed)
    assert (state.stopping, state.restart_at, events) == (True, None, [])
    with running("out") as (run, _, _):
        state = run._supervisor.queries["out"]
        state.stopping = True
        # The stop has replaced the request for a restart.
        assert not run._supervisor._restart_requested(state)
        assert state.restart_at is None


def test_a_stop_returns_if_the_query_was_restarted_as_soon_as_it_had_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running("out") as (run, _, _):
        # The client has not looked before the restart.
        monkeypatch.setattr(Supervisor, "stop", lambda *_: None)
        stopping = threading.Thread(
            target=ControlledRun(run._supervisor).stop, args=("out", None), daemon=True
        )
        stopping.start()
        stopping.join(SECONDS)
        assert not stopping.is_alive()


def test_the_delay_doubles_up_to_its_limit_and_varies() -> None:
    policy = RestartPolicy(backoff=Duration(1_000), max_backoff=Duration(60_000))
    assert [policy.delay(attempt, 1.0) for attempt in (1, 2, 3, 6, 7, 1_000)] == [1, 2, 4, 32, 60, 60]
    assert [policy.delay(attempt, 0.0) for attempt in (1, 2, 7)] == [0.5, 1, 30]


def test_attempts_before_the_period_do_not_count() -> None:
    now = [0.0]
    policy = RestartPolicy(
        attempts=2, within=Duration(10_000), backoff=Duration(1_000), max_backoff=Duration(1_000)
    )
    events: list[Event] = []
    scope = scope_of(events, AnySpec("out", policy=policy))
    restarts = Restarts(scope, clock=lambda: now[0], jitter=lambda: 1.0)
    state, changed = QueryState(cast(RunningQuery, FakeQuery("out"))), threading.Condition()

    def fails_at(time: float) -> bool:
        now[0] = time
        return restarts.schedule(state, UNREACHABLE, changed)

    assert [fails_at(0), fails_at(5), fails_at(10.5), fails_at(11.0), fails_at(12)] == [
        True,
        True,
        False,
        True,
        False,
    ]
    now[0] = 11.9
    assert not restarts.is_due(state)
    now[0] = 12.0
    assert restarts.is_due(state)
