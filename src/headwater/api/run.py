"""`headwater run`: run one or several pipelines in the foreground."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.api.results import RunResult
from headwater.checks import Finding
from headwater.engine.pipeline_file import load
from headwater.errors import ForcedStopError, HeadwaterError, PipelineError, Problem
from headwater.errors.catalogue.notices import RUN_STOPPING, START_STOPPED, TIME_LIMIT_REACHED
from headwater.errors.catalogue.pipelines import PIPELINE_NAME_CONFLICT, PIPELINE_RUN_DIR_CONFLICT
from headwater.errors.catalogue.running import FORCED_STOP, FORCED_STOP_AT_START
from headwater.events import Emit, Event, Notice
from headwater.events.kinds import of_pipeline
from headwater.runtime import RunOptions, start
from headwater.runtime.application import APPLICATION
from headwater.runtime.signals import Signals, StopRequested
from headwater.spec import PipelineSpec
from headwater.values import Duration

if TYPE_CHECKING:
    from headwater.runtime.handles import Run

_LOOK_SECONDS = 0.2
_KILLED_SECONDS = 10.0


@dataclass
class Output:
    """Where a run in the foreground shows what happens."""

    emit: Emit
    stdout: Callable[[str], None]
    found: Callable[[list[Finding], str], None] = field(default=lambda findings, file: None)
    """Receives the findings of the check before the start, and the file of the pipeline."""


def run(
    files: Sequence[PipelineSpec | str | Path],
    options: RunOptions,
    output: Output,
    *,
    limit: Duration | None = None,
) -> list[RunResult]:
    """Run until every query has stopped, a signal arrives, the time is up, or all data is processed.

    Several pipelines share one process of Spark, and nothing else: one that fails or stops does not affect the
    others. The result of each is in the order of the files.
    """
    with Signals() as signals:
        started = _Started(options, output, signals)
        try:
            # A second interrupt ends code that hangs during the start.
            with signals.interruptible():
                specs = [file if isinstance(file, PipelineSpec) else load(file) for file in files]
                _refuse_clashes(specs)
                APPLICATION.expect(specs)
                for spec, file in zip(specs, files, strict=True):
                    name = spec.declared_in if isinstance(file, PipelineSpec) else str(file)
                    started.start(spec, name, alone=len(specs) == 1)
        except StopRequested as asked:
            output.emit(Notice.of(START_STOPPED.at(None, signal=str(asked))))
            started.stop()
            return started.end() or [RunResult(0)]
        except KeyboardInterrupt:
            raise ForcedStopError(FORCED_STOP_AT_START.at(None)) from None
        return started.wait(limit)


def _refuse_clashes(specs: Sequence[PipelineSpec]) -> None:
    """PipelineError if two pipelines have the same name or the same run directory."""
    problems, names, directories = [], dict[str, PipelineSpec](), dict[Path, PipelineSpec]()
    for spec in specs:
        if spec.name in names:
            other = f"the pipeline in {names[spec.name].declared_in}"
            problems.append(PIPELINE_NAME_CONFLICT.at(spec.position, name=spec.name, other=other))
        elif spec.run_dir in directories:
            other = directories[spec.run_dir].name
            params = {"name": spec.name, "other": other, "directory": str(spec.run_dir)}
            problems.append(PIPELINE_RUN_DIR_CONFLICT.at(spec.position, **params))
        names.setdefault(spec.name, spec)
        directories.setdefault(spec.run_dir, spec)
    if problems:
        raise PipelineError.of(problems)


class _Started:
    """The pipelines of one command, in the order of their files; one that could not start has only problems."""

    def __init__(self, options: RunOptions, output: Output, signals: Signals) -> None:
        self._options = options
        self._output = output
        self._signals = signals
        self._runs: list[Run | RunResult] = []

    def start(self, spec: PipelineSpec, file: str, *, alone: bool) -> None:
        """Start a pipeline; if there are others, they run even if this one cannot start."""
        emit = self._output.emit if alone else _named(spec.name, self._output.emit)
        found = self._output.found
        try:
            self._runs.append(
                start(
                    spec,
                    self._options,
                    emit,
                    self._output.stdout,
                    lambda findings: found(findings, file),
                    self._signals,
                )
            )
        except HeadwaterError as error:
            if alone:
                raise
            self._runs.append(RunResult(error.exit_code, problems=error.problems))
            for problem in error.problems:
                self._output.emit(Notice.of(problem))
        except StopRequested as asked:
            if alone or self._signals.stop:
                raise
            # `headwater stop` for this pipeline only.
            self._runs.append(RunResult(0))
            self._output.emit(Notice.of(START_STOPPED.at(None, signal=str(asked))))

    @property
    def running(self) -> list[Run]:
        return [each for each in self._runs if not isinstance(each, RunResult)]

    @property
    def results(self) -> list[RunResult]:
        return [
            each
            if isinstance(each, RunResult)
            else RunResult(1 if each.exit_code is None else each.exit_code, each.summary)
            for each in self._runs
        ]

    def wait(self, limit: Duration | None) -> list[RunResult]:
        """Wait for the end of all, and end their process of Spark."""
        try:
            self._until_ended(limit)
        except BaseException:
            self._end_spark()
            raise
        return self.end()

    def end(self) -> list[RunResult]:
        """End the process of Spark after a stop; ForcedStopError if batches were interrupted."""
        signals = self._signals
        self._end_spark()
        # A second interrupt that came when all queries had ended interrupted nothing.
        interrupted = {run.exit_code for run in self.running} & {None, ForcedStopError.exit_code}
        if signals.forced and interrupted:
            raise ForcedStopError(FORCED_STOP.at(None))
        return self.results

    def _end_spark(self) -> None:
        APPLICATION.expect(())
        if self._signals.forced or any(run.is_stuck for run in self.running):
            APPLICATION.kill()
            for run in self.running:
                run.wait(_KILLED_SECONDS)
        else:
            APPLICATION.stop()

    def _until_ended(self, limit: Duration | None) -> None:
        deadline = time.monotonic() + limit.seconds if limit else None
        idle: set[str] = set()
        while not all(run.is_stuck or run.has_ended for run in self.running):
            reason: Problem | None = None
            if self._signals.stop:
                reason = RUN_STOPPING.at(None, signal=self._signals.stop)
            elif deadline is not None and time.monotonic() >= deadline:
                reason = TIME_LIMIT_REACHED.at(None, limit=str(limit))
            elif self._options.until_idle:
                self._stop_idle(idle)
            if reason:
                # Once for all of them.
                self.running[0].notify(reason)
                self.stop()
                return
            # Meanwhile, the last one may have ended.
            for run in [each for each in self.running if not each.has_ended][:1]:
                run.wait(_LOOK_SECONDS)

    def _stop_idle(self, idle: set[str]) -> None:
        """Stop each run that has read everything, with the others still running."""
        for run in self.running:
            reason = None if run.id in idle or run.has_ended else run.reason_to_end()
            if reason:
                idle.add(run.id)
                run.notify(reason)
                threading.Thread(target=run.stop, name="headwater stop", daemon=True).start()

    def stop(self) -> None:
        """Stop all runs; a second signal does not wait for their batches."""
        # Beside the thread that catches signals.
        stopping = [
            threading.Thread(target=run.stop, name="headwater stop", daemon=True) for run in self.running
        ]
        for each in stopping:
            each.start()
        while any(each.is_alive() for each in stopping) and not self._signals.forced:
            stopping[0].join(_LOOK_SECONDS) if stopping[0].is_alive() else stopping.pop(0)
        if self._signals.forced:
            for run in self.running:
                run.kill()


def _named(pipeline: str, emit: Emit) -> Emit:
    """Show the queries of one of several pipelines with its name."""

    def named(event: Event) -> None:
        emit(of_pipeline(event, pipeline))

    return named
