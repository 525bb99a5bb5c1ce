"""Work that follows committed batches: tasks that the supervisor's thread calls between its looks."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from headwater.checkpoint import Read
from headwater.connectors import sink_side, source_side
from headwater.connectors.connector import CleansUp, HasUpkeep, OpensInput, WatchesInput
from headwater.connectors.contract import Admission, Ended, Moment, Reader, SourceTask, Task
from headwater.engine.prepare import Prepared, streamed_paths
from headwater.errors import HeadwaterError, Problem
from headwater.errors.catalogue.running import BEHIND, UPKEEP_FAILED
from headwater.events import EpochCommitted, Event, QueryWaits
from headwater.events.kinds import Idle, idle_inputs
from headwater.plan import QueryFacts
from headwater.plan.predicates import most_partitions
from headwater.runtime.query_state import Track
from headwater.runtime.records import RunRecords
from headwater.spark.query import Waiting
from headwater.spec import PipelineSpec
from headwater.values import scrub


def tasks_of(prepared: Prepared, spec: PipelineSpec, directory: RunRecords, patience: float) -> list[Task]:
    """What is to be done between batches; the last call of a task may wait for `patience` seconds."""
    return [*_source_tasks(prepared, spec, directory), *_sink_tasks(prepared, spec, directory, patience)]


def _source_tasks(prepared: Prepared, spec: PipelineSpec, directory: RunRecords) -> list[Task]:
    cleaned = [
        (source, side)
        for source in spec.sources
        if isinstance(side := source_side(source.connector), CleansUp) and side.clean_up(source.options)
    ]
    if not cleaned:
        return []
    frames = prepared.frames.items()
    readers = [Reader(name, directory.checkpoint(name), streamed_paths(frame)) for name, frame in frames]
    return [
        side.clean_up_task(source.options, prepared.builder.context(source), readers)
        for source, side in cleaned
    ]


def read_by_all(directory: RunRecords, source: str, facts: Iterable[QueryFacts]) -> frozenset[str]:
    """The files of a source that every query of these facts has in a committed batch."""
    queries = (each.sink for each in facts if source in each.inputs)
    read = [(directory.committed(query) or {}).get(source, Read()).files for query in queries]
    return frozenset.intersection(*read) if read else frozenset()


def admissions_of(
    prepared: Prepared, spec: PipelineSpec, directory: RunRecords, facts: Sequence[QueryFacts]
) -> list[Admission]:
    """What opens the new input of sources before a batch of the queries of these facts takes it."""
    return [
        side.admission(
            prepared.session.spark,
            source.options,
            prepared.builder.context(source),
            partial(read_by_all, directory, source.name, facts),
        )
        for source in spec.sources
        if source.name in prepared.builder.frames
        and not source.static
        and isinstance(side := source_side(source.connector), OpensInput)
        and side.opens(source.options, source.bad_rows)
    ]


def caught_up(admissions: Iterable[Admission]) -> int | None:
    """How often anything new was found so far, after a look; None where something is not decided yet."""
    found = [each.catch_up() for each in admissions]
    counts = [each for each in found if each is not None]
    return sum(counts) if len(counts) == len(found) else None


def hindrance(admissions: Iterable[Admission]) -> Problem | None:
    """What has kept some new input from being taken in for long."""
    return next(filter(None, (each.hindrance() for each in admissions)), None)


def watches_of(
    prepared: Prepared, spec: PipelineSpec, directory: RunRecords, facts: Sequence[QueryFacts]
) -> list[SourceTask]:
    """What looks after that which the sources read, while the queries of these facts run."""

    def reader(query: QueryFacts, source: str) -> Reader:
        most = most_partitions(query, source, facts)
        return Reader(query.sink, directory.checkpoint(query.sink), (), query.inputs, most)

    return [
        side.watch(
            prepared.session.spark,
            source.options,
            prepared.builder.context(source),
            [reader(each, source.name) for each in facts],
        )
        for source in spec.sources
        if not source.static and isinstance(side := source_side(source.connector), WatchesInput)
    ]


def _sink_tasks(prepared: Prepared, spec: PipelineSpec, directory: RunRecords, patience: float) -> list[Task]:
    return [
        side.upkeep(
            prepared.session.spark,
            sink.options,
            prepared.builder.context(sink),
            checkpoint=directory.checkpoint(sink.name),
            patience=patience,
        )
        for sink in spec.sinks
        if isinstance(side := sink_side(sink.connector), HasUpkeep) and side.has_upkeep(sink.options)
    ]


class Upkeep:
    """Calls the tasks of a run, and says what goes wrong with each, once until it goes well again."""

    def __init__(
        self,
        tasks: Iterable[Task],
        say: Callable[[Problem], None],
        end: Callable[[Mapping[str, Problem]], None] = lambda queries: None,
    ) -> None:
        self._tasks = tuple(tasks)
        self._say = say
        self._end = end
        self._said: dict[int, tuple[Problem, ...]] = {}

    def __call__(self, moment: Moment) -> None:
        for number, task in enumerate(self._tasks):
            problems = self._problems(task, moment)
            if problems and problems != self._said.get(number):
                for problem in problems:
                    self._say(problem)
            if problems or moment.committed:
                self._said[number] = problems

    def _problems(self, task: Task, moment: Moment) -> tuple[Problem, ...]:
        try:
            task(moment)
        except Ended as ended:
            # It is told with the end of the queries.
            self._end(ended.queries)
        except HeadwaterError as error:
            return error.problems
        except Exception as error:  # noqa: BLE001 - code from outside may raise anything: the watch goes on
            problem = UPKEEP_FAILED.at(None, says=scrub(f"{type(error).__name__}: {error}"))
            return (replace(problem, detail=scrub(traceback.format_exc())),)
        return ()


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

    def falls_behind(self, waiting: Waiting) -> int | None:
        """How many files a batch takes, if the source fell behind just now."""
        before, self._before = self._before, waiting.files
        taken = waiting.at_most or (before - waiting.files if before is not None else 0)
        if taken <= 0:
            return None
        was = self.is_behind
        self.is_behind = waiting.files >= (FEW if was else MANY_FILES) * taken
        return taken if self.is_behind and not was else None


class BacklogWatch:
    """The task that tells when a query falls behind."""

    def __init__(self, waiting: Callable[[str], tuple[Waiting, ...]], say: Callable[[Problem], None]) -> None:
        self._waiting = waiting
        self._say = say
        self._backlogs: dict[tuple[str, int], Backlog] = {}

    def __call__(self, moment: Moment) -> None:
        for query in sorted(moment.committed) if not moment.last else ():
            for number, waiting in enumerate(self._waiting(query)):
                taken = self._backlogs.setdefault((query, number), Backlog()).falls_behind(waiting)
                if taken:
                    self._say(_behind(query, waiting, taken))


def _behind(query: str, waiting: Waiting, taken: int) -> Problem:
    limit = "max_files_per_batch" if waiting.at_most else "max_bytes_per_batch"
    return BEHIND.at(None, sink=query, waiting=waiting.files, path=waiting.path, taken=taken, limit=limit)


# Whether the watermark of a query waits for an input that brings no rows.

MANY_INPUTS = 10


@dataclass
class _Spell:
    """For how long an input has been idle."""

    begun: int
    """The newest batch with rows when it was found."""
    said: bool = False


class IdleWatch:
    """The task that finds idle inputs.

    Who looks at a run sees them at once. They are said only when they have lasted for many batches: inputs
    that take turns are idle for a batch each, and nothing is wrong with them.
    """

    def __init__(
        self,
        track: Callable[[str], Track],
        emit: Callable[[Event], None],
        say: Callable[[Problem], None],
    ) -> None:
        self._track = track
        self._emit = emit
        self._say = say
        self._spells: dict[str, dict[Idle, _Spell]] = {}

    def __call__(self, moment: Moment) -> None:
        for query in sorted(moment.committed):
            track = self._track(query)
            known = track.query.marks()
            if known is not None:
                self._found(track, idle_inputs(track.brought, *known), last=moment.last)

    def _found(self, track: Track, found: tuple[Idle, ...], *, last: bool) -> None:
        if found != track.waits_for:
            track.waits_for = found
            told = tuple(idle.to_json(track.name) for idle in found)
            self._emit(QueryWaits(query=track.name, waits_for=told))
        if not last:
            self._lasted(track, found)

    def _lasted(self, track: Track, found: tuple[Idle, ...]) -> None:
        newest, before = max(track.brought.values(), default=0), self._spells.get(track.name, {})
        self._spells[track.name] = {idle: before.get(idle) or _Spell(newest) for idle in found}
        for idle, spell in self._spells[track.name].items():
            if not spell.said and newest - spell.begun >= MANY_INPUTS:
                spell.said = True
                self._say(idle.problem(track.name))


# How far continuous queries have come, of which Spark's listener tells nothing.


class EpochWatch:
    """The task that looks for epochs committed since the last look; the newest is told, once."""

    def __init__(
        self,
        tracks: Callable[[], Iterable[Track]],
        tell: Callable[[Event], None],
        before: Mapping[str, int] | None = None,
    ) -> None:
        """`before` is the newest epoch or batch of the runs before this one, by query."""
        self._tracks = tracks
        self._tell = tell
        self._before = before or {}

    def __call__(self, moment: Moment) -> None:
        for track in self._tracks():
            if track.query.has_batches or track.ended:
                continue
            known = self._before.get(track.name) if track.epoch is None else track.epoch
            epoch = track.query.epoch()
            if epoch is not None and epoch != known:
                self._tell(EpochCommitted(query=track.name, epoch=epoch))
