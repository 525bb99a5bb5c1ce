"""Work alongside the queries: tasks of the connectors, and the monitors of the queries."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from headwater.connectors import sink_side, source_side
from headwater.connectors.connector import HasRunTasks
from headwater.connectors.contract import Pending, QueryCheckpoint, RunTask, StopQueries, Tick
from headwater.engine.prepare import Prepared
from headwater.engine.query import RunningQuery
from headwater.engine.static_sources import StaticSources
from headwater.errors import CheckpointError, HeadwaterError, Problem
from headwater.errors.catalogue.running import BACKLOG_GROWING, MAINTENANCE_FAILED
from headwater.events import BacklogChanged, Emit, EpochCommitted, InputsIdle, WatermarkHeldBack
from headwater.events.idle import Idle, held_back_by, idle_inputs
from headwater.plan import QueryFacts
from headwater.plan.predicates import most_partitions
from headwater.runtime.query_state import QueryState
from headwater.runtime.scope import RunScope
from headwater.spark.jvm_log import keep_small
from headwater.spark.plans import PlanReader
from headwater.spark.query import UnreadFiles
from headwater.values import scrub

FIRST_BATCH_SECONDS = 5.0


class Tasks:
    """Tasks that are called one after another; a failing task does not affect the others."""

    def __init__(self, scope: RunScope, tasks: Iterable[RunTask]) -> None:
        self._scope = scope
        self._tasks = tuple(tasks)
        self._said: dict[int, tuple[Problem, ...]] = {}

    def prepare(self) -> None:
        for task in self._tasks:
            task.prepare(self._scope)

    def before_start(self, query: str, backup: Path) -> Iterator[Problem]:
        return chain.from_iterable(task.before_start(query, backup) for task in self._tasks)

    def tick(self, tick: Tick) -> dict[str, Problem]:
        """Call each task, and report a failure once until it succeeds again; returns the queries to stop."""
        stops: dict[str, Problem] = {}
        for number, task in enumerate(self._tasks):
            failures: tuple[Problem, ...] = ()
            try:
                for problem in task.tick(tick) or ():
                    self._scope.notify(problem)
            except StopQueries as stop:
                # Reported when the queries terminate.
                stops |= stop.queries
            except HeadwaterError as error:
                failures = error.problems
            except Exception as error:  # noqa: BLE001 - foreign code may raise anything: monitoring continues
                problem = MAINTENANCE_FAILED.at(None, says=scrub(f"{type(error).__name__}: {error}"))
                failures = (replace(problem, detail=scrub(traceback.format_exc())),)
            if failures and failures != self._said.get(number):
                for problem in failures:
                    self._scope.log_failure("between batches", problem)
                    self._scope.notify(problem)
            if failures or tick.committed:
                self._said[number] = failures
        return stops

    def pending(self) -> Pending:
        """What all tasks together have not yet passed to the queries."""
        found, undecided, blocked_by = 0, False, None
        for task in self._tasks:
            try:
                each = task.pending()
            except HeadwaterError:
                # A tick reports it; nothing is idle while input cannot be read.
                each = Pending(undecided=True)
            found, undecided = found + each.found, undecided or each.undecided
            blocked_by = blocked_by or each.blocked_by
        return Pending(found, undecided, blocked_by)

    def close(self) -> None:
        with ExitStack() as steps:
            for task in self._tasks:
                steps.callback(task.close)


class TaskThread:
    """Calls tasks on a thread of their own, one tick after another, so that a long call delays no query."""

    def __init__(self, name: str, end: Callable[[Mapping[str, Problem]], None]) -> None:
        self._end = end
        self._changed = threading.Condition()
        self._due: tuple[Tasks, Tick] | None = None
        self._busy = self._closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def tick(self, tasks: Tasks, tick: Tick) -> None:
        """Have the tasks called when their current call has returned; raises what monitoring them has raised."""
        with self._changed:
            if self._error is not None:
                raise self._error
            self._due = tasks, (_joined(self._due[1], tick) if self._due else tick)
            self._changed.notify_all()

    def settle(self) -> Tick:
        """Wait until no task is called; returns what they were not called for."""
        with self._changed:
            # First, so that no other call begins.
            due, self._due = self._due, None
            self._changed.wait_for(lambda: not self._busy)
        return due[1] if due else Tick(frozenset())

    def close(self) -> None:
        """Call no task any more."""
        self.settle()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._due or self._closed)
                if self._due is None:
                    return
                (tasks, tick), self._due, self._busy = self._due, None, True
            try:
                stops = tasks.tick(tick)
                if stops:
                    self._end(stops)
            except BaseException as error:  # noqa: BLE001 - the loop of the run raises it
                with self._changed:
                    self._error = error


def _joined(before: Tick, tick: Tick) -> Tick:
    progress = {name: (*before.progress.get(name, ()), *more) for name, more in tick.progress.items()}
    return Tick(before.committed | tick.committed, progress={**before.progress, **progress})


def tasks_of(scope: RunScope, prepared: Prepared, facts: Sequence[QueryFacts]) -> list[RunTask]:
    """The tasks of a pipeline's connectors."""
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
    return found


def _checkpoint(scope: RunScope, prepared: Prepared, facts: QueryFacts) -> QueryCheckpoint:
    checkpoint, before = scope.directory.checkpoint(facts.sink), scope.directory.stored_facts(facts.sink)
    stored = before.inputs if before else ()
    # The query of a group has no connector of its own, and no sink of it is in process.
    if facts.connector and sink_side(facts.connector).in_process:
        # Each start and restart of the query discards the checkpoint.
        stored = ()
    elif not checkpoint.exists():
        stored = facts.inputs
    return QueryCheckpoint(
        facts.sink, checkpoint, PlanReader.of(prepared.frames[facts.sink]).paths, facts.inputs, stored
    )


@dataclass(frozen=True)
class Housekeeping(RunTask):
    """Keeps the logs small, and reports changes to static sources."""

    scope: RunScope
    statics: StaticSources

    def tick(self, tick: Tick) -> None:
        keep_small(self.scope.directory.logs)
        news = self.statics.news()
        if news:
            raise CheckpointError.of(news)


class SqlPreparation(RunTask):
    """Prepares for `headwater sql` once, after the first batches, so that it delays neither them nor the start."""

    def __init__(
        self, prepare: Callable[[], None], queries: Iterable[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._prepare = prepare
        self._waits_for = set(queries)
        self._clock = clock
        self._since = clock()
        self._prepared = False

    def tick(self, tick: Tick) -> None:
        self._waits_for -= tick.progress.keys()
        # Without input, a query has no first batch.
        late = self._clock() - self._since >= FIRST_BATCH_SECONDS
        if not (self._prepared or tick.last) and (late or not self._waits_for):
            self._prepared = True
            self._prepare()


# Whether queries keep up with their input if a limit bounds their batches.

MANY_FILES = 10
FEW = 2


class Backlog:
    """The backlog of one source of one query.

    The query is behind when the backlog is worth many batches, and has caught up when it is worth few. In
    between, the status stays the same, so that a number that fluctuates is reported once.
    """

    def __init__(self) -> None:
        self.is_behind = False
        self._before: int | None = None

    def falls_behind(self, waiting: UnreadFiles) -> int | None:
        """How many files a batch reads, if the source has just fallen behind."""
        before, self._before = self._before, waiting.files
        taken = waiting.at_most or (before - waiting.files if before is not None else 0)
        if taken <= 0:
            return None
        was = self.is_behind
        self.is_behind = waiting.files >= (FEW if was else MANY_FILES) * taken
        return taken if self.is_behind and not was else None


class BacklogWatch(RunTask):
    """The task that reports how many files wait to be read, and when a query falls behind."""

    def __init__(self, queries: Mapping[str, QueryState], emit: Emit) -> None:
        self._queries = queries
        self._emit = emit
        self._backlogs: dict[tuple[str, int], Backlog] = {}
        self._files: dict[str, dict[str, int]] = {}

    def tick(self, tick: Tick) -> Iterator[Problem]:
        for query in sorted(tick.committed) if not tick.last else ():
            unread = self._queries[query].query.waiting()
            files = {each.path: each.files for each in unread}
            if files != self._files.get(query, {}):
                self._files[query] = files
                self._emit(BacklogChanged(query=query, files=files))
            for number, waiting in enumerate(unread):
                taken = self._backlogs.setdefault((query, number), Backlog()).falls_behind(waiting)
                if taken:
                    limit = "max_files_per_batch" if waiting.at_most else "max_bytes_per_batch"
                    params = {"waiting": waiting.files, "path": waiting.path, "taken": taken, "limit": limit}
                    yield BACKLOG_GROWING.at(None, sink=query, **params)

    def forget(self, query: str) -> None:
        """The query has terminated for good."""
        self._files.pop(query, None)
        self._backlogs = {key: each for key, each in self._backlogs.items() if key[0] != query}


# Whether an idle input blocks the watermark of a query.

MANY_INPUTS = 10


@dataclass
class _IdleTime:
    """How long an input has been idle."""

    begun: int
    """The newest batch with rows when it was found."""
    said: bool = False


class IdleWatch(RunTask):
    """The task that finds idle inputs, and the sources that hold back a watermark.

    Idle inputs are shown immediately. A notice is sent only after many batches: inputs that take turns are idle for
    one batch each, and that is normal.
    """

    def __init__(self, queries: Mapping[str, QueryState], emit: Emit) -> None:
        self._queries = queries
        self._emit = emit
        self._spells: dict[str, dict[Idle, _IdleTime]] = {}
        self._emitted: dict[str, RunningQuery] = {}

    def tick(self, tick: Tick) -> Iterator[Problem]:
        for name in sorted(tick.committed):
            state = self._queries[name]
            known = state.query.marks()
            if known is None:
                continue
            # A query that was restarted is new to those who receive its events.
            again = self._emitted.get(name, state.query) is not state.query
            self._emitted[name] = state.query
            held = held_back_by(*known)
            if held != state.held_back_by or (again and held):
                state.held_back_by = held
                self._emit(WatermarkHeldBack(query=name, sources=held))
            found = idle_inputs(state.delivered, *known)
            if found != state.idle_inputs or (again and found):
                state.idle_inputs = found
                self._emit(InputsIdle(query=name, idle_inputs=tuple(idle.to_json(name) for idle in found)))
            if not tick.last:
                yield from self._lasted(state, found)

    def _lasted(self, state: QueryState, found: tuple[Idle, ...]) -> Iterator[Problem]:
        newest, before = max(state.delivered.values(), default=0), self._spells.get(state.name, {})
        self._spells[state.name] = {idle: before.get(idle) or _IdleTime(newest) for idle in found}
        for idle, spell in self._spells[state.name].items():
            if not spell.said and newest - spell.begun >= MANY_INPUTS:
                spell.said = True
                yield idle.problem(state.name)


class EpochWatch(RunTask):
    """The task that reports epochs of continuous queries, because Spark's listener does not.

    It reports only the newest, once, and none of a previous run.
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
