"""Work that follows committed batches: tasks that the supervisor's thread calls between its looks."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace

from headwater.connectors import sink_side, source_side
from headwater.connectors.upkeep import Moment, Reader, Task
from headwater.engine.analysis import streamed_paths
from headwater.engine.connector_code import spark_module
from headwater.engine.prepare import Prepared
from headwater.errors import HeadwaterError, Problem
from headwater.errors.catalogue.running import UPKEEP_FAILED
from headwater.runtime.run_folder import RunFolder
from headwater.spec import PipelineSpec
from headwater.values import scrub


def tasks_of(prepared: Prepared, spec: PipelineSpec, folder: RunFolder, patience: float) -> list[Task]:
    """What is to be done between batches; the last call of a task may wait for `patience` seconds."""
    return [*_source_tasks(prepared, spec, folder), *_sink_tasks(prepared, spec, folder, patience)]


def _source_tasks(prepared: Prepared, spec: PipelineSpec, folder: RunFolder) -> list[Task]:
    cleaned = [source for source in spec.sources if source_side(source.connector).clean_up(source.options)]
    if not cleaned:
        return []
    frames = prepared.frames.items()
    readers = [Reader(name, folder.checkpoint(name), streamed_paths(frame)) for name, frame in frames]
    return [
        spark_module(source.connector).clean_up(source.options, prepared.builder.context(source), readers)
        for source in cleaned
    ]


def _sink_tasks(prepared: Prepared, spec: PipelineSpec, folder: RunFolder, patience: float) -> list[Task]:
    return [
        spark_module(sink.connector).upkeep(
            prepared.session.spark,
            sink.options,
            prepared.builder.context(sink),
            checkpoint=folder.checkpoint(sink.name),
            patience=patience,
        )
        for sink in spec.sinks
        if sink_side(sink.connector).upkeep(sink.options)
    ]


class Upkeep:
    """Calls the tasks of a run, and says what goes wrong with each, once until it goes well again."""

    def __init__(self, tasks: Iterable[Task], say: Callable[[Problem], None]) -> None:
        self._tasks = tuple(tasks)
        self._say = say
        self._said: dict[int, tuple[Problem, ...]] = {}

    def __call__(self, moment: Moment) -> None:
        for number, task in enumerate(self._tasks):
            problems = _problems(task, moment)
            if problems and problems != self._said.get(number):
                for problem in problems:
                    self._say(problem)
            if problems or moment.committed:
                self._said[number] = problems


def _problems(task: Task, moment: Moment) -> tuple[Problem, ...]:
    try:
        task(moment)
    except HeadwaterError as error:
        return error.problems
    except Exception as error:  # noqa: BLE001 - a connector from outside may raise anything: the watch goes on
        problem = UPKEEP_FAILED.at(None, says=scrub(f"{type(error).__name__}: {error}"))
        return (replace(problem, detail=scrub(traceback.format_exc())),)
    return ()
