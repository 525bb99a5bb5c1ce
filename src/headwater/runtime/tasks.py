"""Work beside the queries: what connectors bring, and the watches over the queries themselves."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from headwater.connectors import sink_side, source_side
from headwater.connectors.connector import HasRunTasks
from headwater.connectors.contract import Pending, QueryCheckpoint, RunTask, StopQueries, Tick
from headwater.engine.prepare import Prepared
from headwater.engine.static_sources import StaticSources
from headwater.errors import CheckpointError, HeadwaterError, Problem
from headwater.errors.catalogue.running import BACKLOG_GROWING, MAINTENANCE_FAILED
from headwater.events import Emit, EpochCommitted, QueryWaits
from headwater.events.idle import Idle, idle_inputs
from headwater.plan import QueryFacts
from headwater.plan.predicates import most_partitions
from headwater.runtime.query_state import QueryState
from headwater.runtime.scope import RunScope
from headwater.spark.jvm_log import keep_small
from headwater.spark.plans import PlanReader
from headwater.spark.query import UnreadFiles
from headwater.values import scrub


class Tasks:
    """The tasks of a run, called one after another; what goes wrong with one leaves the others alone."""

    def __init__(self, scope: RunScope, tasks: Iterable[RunTask]) -> None:
        self._scope = scope
        self._tasks = tuple(tasks)
        self._said: dict[int, tuple[Problem, ...]] = {}

    def take_in(self) -> None:
        for task in self._tasks:
            task.take_in(self._scope)

    def before_start(self, query: str, backup: Path) -> Iterator[Problem]:
        return chain.from_iterable(task.before_start(query, backup) for task in self._tasks)

    def tick(self, tick: Tick) -> dict[str, Problem]:
        """Call each, and say what goes wrong once until it goes well again; the queries that must stop."""
        stops: dict[str, Problem] = {}
        for number, task in enumerate(self._tasks):
            failures: tuple[Problem, ...] = ()
            try:
                for problem in task.tick(tick) or ():
                    self._scope.notify(problem, with_code=True)
            except StopQueries as stop:
                # It is told with the end of the queries.
                stops |= stop.queries
            except HeadwaterError as error:
                failures = error.problems
            except Exception as error:  # noqa: BLE001 - code from outside may raise anything: the watch goes on
                problem = MAINTENANCE_FAILED.at(None, says=scrub(f"{type(error).__name__}: {error}"))
                failures = (replace(problem, detail=scrub(traceback.format_exc())),)
            if failures and failures != self._said.get(number):
                for problem in failures:
                    self._scope.log_failure("between batches", problem)
                    self._scope.notify(problem, with_code=True)
            if failures or tick.committed:
                self._said[number] = failures
        return stops

    def pending(self) -> Pending:
        """What all of them together have yet to hand to the queries."""
        found, undecided, blocked_by = 0, False, None
        for task in self._tasks:
            try:
                each = task.pending()
            except HeadwaterError:
                # A tick says it; nothing is idle while input can't be looked at.
                each = Pending(undecided=True)
            found, undecided = found + each.found, undecided or each.undecided
            blocked_by = blocked_by or each.blocked_by
        return Pending(found, undecided, blocked_by)

    def close(self) -> None:
        with ExitStack() as steps:
            for task in self._tasks:
                steps.callback(task.close)


def tasks_of(scope: RunScope, prepared: Prepared, facts: Sequence[QueryFacts]) -> list[RunTask]:
    """What the connectors of a pipeline do beside its queries, and the run itself."""
    spec, builder, spark = scope.spec, prepared.builder, prepared.session.spark
    queries = [_checkpoint(scope, prepared, each) for each in facts]
    found: list[RunTask] = []
    for source in spec.sources:
        side = source_side(source.connector)
        if isinstance(side, HasRunTasks) and source.name in builder.frames and not source.static:
            most = [most_partitions(each, source.name, facts) for each in facts]
            readers = [replace(q, most_partitions=m) for q, m in zip(queries, most, strict=True)]
            found += side.run_tasks(spark, source.options, builder.context(source), readers)
    for sink in spec.sinks:
        target = sink_side(sink.connector)
        if isinstance(target, HasRunTasks):
            found += target.run_tasks(spark, sink.options, builder.context(sink), queries)
    return [*found, Housekeeping(scope, builder.statics)]


def _checkpoint(scope: RunScope, prepared: Prepared, facts: QueryFacts) -> QueryCheckpoint:
    before = scope.directory.stored_facts(facts.sink)
    return QueryCheckpoint(
        facts.sink,
        scope.directory.checkpoint(facts.sink),
        PlanReader.of(prepared.frames[facts.sink]).paths,
        facts.inputs,
        before.inputs if before else (),
    )


@dataclass(frozen=True)
class Housekeeping(RunTask):
    """Keeps the logs small, and says what was changed under static sources."""

    scope: RunScope
    statics: StaticSources

    def tick(self, tick: Tick) -> None:
        keep_small(self.scope.directory.logs)
        news = self.statics.news()
        if news:
            raise CheckpointError.of(news)


# Whether queries keep up with their input, where a limit bounds their batches.

MANY_FILES = 10
FEW = 2


class Backlog:
    """What waits for one source of one query.

    It is behind when many batches' worth of files wait, and has caught up when few do: between the two it
    stays what it was, so that a number that goes up and down is told once.
    """

    def __init__(self) -> None:
        self.is_behind = False
        self._before: int | None = None

    def falls_behind(self, waiting: UnreadFiles) -> int | None:
        """How many files a batch takes, if the source fell behind just now."""
        before, self._before = self._before, waiting.files
        taken = waiting.at_most or (before - waiting.files if before is not None else 0)
        if taken <= 0:
            return None
        was = self.is_behind
        self.is_behind = waiting.files >= (FEW if was else MANY_FILES) * taken
        return taken if self.is_behind and not was else None


class BacklogWatch(RunTask):
    """The task that tells when a query falls behind."""

    def __init__(self, queries: Mapping[str, QueryState]) -> None:
        self._queries = queries
        self._backlogs: dict[tuple[str, int], Backlog] = {}

    def tick(self, tick: Tick) -> Iterator[Problem]:
        for query in sorted(tick.committed) if not tick.last else ():
            for number, waiting in enumerate(self._queries[query].query.waiting()):
                taken = self._backlogs.setdefault((query, number), Backlog()).falls_behind(waiting)
                if taken:
                    limit = "max_files_per_batch" if waiting.at_most else "max_bytes_per_batch"
                    params = {"waiting": waiting.files, "path": waiting.path, "taken": taken, "limit": limit}
                    yield BACKLOG_GROWING.at(None, sink=query, **params)


# Whether the watermark of a query waits for an input that brings no rows.

MANY_INPUTS = 10


@dataclass
class _IdleTime:
    """For how long an input has been idle."""

    begun: int
    """The newest batch with rows when it was found."""
    said: bool = False


class IdleWatch(RunTask):
    """The task that finds idle inputs.

    Who looks at a run sees them at once. They are said only when they have lasted for many batches: inputs
    that take turns are idle for a batch each, and nothing is wrong with them.
    """

    def __init__(self, queries: Mapping[str, QueryState], emit: Emit) -> None:
        self._queries = queries
        self._emit = emit
        self._spells: dict[str, dict[Idle, _IdleTime]] = {}

    def tick(self, tick: Tick) -> Iterator[Problem]:
        for name in sorted(tick.committed):
            state = self._queries[name]
            known = state.query.marks()
            if known is None:
                continue
            found = idle_inputs(state.brought, *known)
            if found != state.waits_for:
                state.waits_for = found
                self._emit(QueryWaits(query=name, waits_for=tuple(idle.to_json(name) for idle in found)))
            if not tick.last:
                yield from self._lasted(state, found)

    def _lasted(self, state: QueryState, found: tuple[Idle, ...]) -> Iterator[Problem]:
        newest, before = max(state.brought.values(), default=0), self._spells.get(state.name, {})
        self._spells[state.name] = {idle: before.get(idle) or _IdleTime(newest) for idle in found}
        for idle, spell in self._spells[state.name].items():
            if not spell.said and newest - spell.begun >= MANY_INPUTS:
                spell.said = True
                yield idle.problem(state.name)


class EpochWatch(RunTask):
    """The task that looks for epochs of continuous queries, of which Spark's listener tells nothing.

    The newest is told, once, and none that a run before this one has committed.
    """

    def __init__(self, queries: Mapping[str, QueryState], emit: Emit) -> None:
        self._queries = queries
        self._emit = emit

    def tick(self, tick: Tick) -> None:
        for state in list(self._queries.values()):
            if not state.query.has_batches and not state.ended:
                known = state.newest if state.epoch is None else state.epoch
                epoch = state.query.epoch()
                if epoch is not None and epoch != known:
                    self._emit(EpochCommitted(query=state.name, epoch=epoch))
