"""Work that follows committed batches: tasks that the supervisor's thread calls between its looks."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from headwater.checkpoint import Read
from headwater.connectors import sink_side, source_side
from headwater.connectors.connector import CleansUp, HasUpkeep, OpensInput, WatchesInput
from headwater.connectors.contract import Admission, Ended, Moment, Reader, SourceTask, Task
from headwater.engine.analysis import streamed_paths
from headwater.engine.prepare import Prepared
from headwater.errors import HeadwaterError, Problem
from headwater.errors.catalogue.running import UPKEEP_FAILED
from headwater.plan import QueryFacts
from headwater.plan.predicates import most_partitions
from headwater.runtime.records import RunRecords
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
