"""The process of Spark that all pipelines of this Python share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.engine.launch import Launch, launch_spark
from headwater.errors import PipelineError, SetupError
from headwater.errors.catalogue.environment import JVM_START_FAILED
from headwater.errors.catalogue.pipelines import PIPELINE_NAME_CONFLICT
from headwater.events import Emit
from headwater.run_directory import RunDirectory
from headwater.runtime.scope import RunOptions
from headwater.spec import PipelineSpec
from headwater.values import scrub

if TYPE_CHECKING:
    from headwater.engine.session import PipelineSession
    from headwater.spark.jvm import Jvm


class Application:
    """Starts Spark for the first pipeline, gives each pipeline a session, and starts Spark again if it dies.

    The class path and the settings of a process are fixed when it starts, so those of all pipelines that run or
    will run in it are given then.
    """

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self._records = threading.Lock()
        """Guards `_running` and `_opened`; a run that ends does not wait for Spark to start."""
        self._expected: tuple[PipelineSpec, ...] = ()
        self._running: dict[Path, PipelineSpec] = {}
        """The pipelines whose run has not ended, by run directory."""
        self._process: Jvm | None = None
        self._generation = 0
        self._opened: dict[Path, int] = {}
        """The process that each of them uses."""

    def expect(self, specs: Sequence[PipelineSpec]) -> None:
        """These pipelines will run together."""
        self._expected = tuple(specs)

    @property
    def can_restart(self) -> bool:
        """Whether Headwater has started the process, and can do so again."""
        return self._process is not None

    def lives(self, spec: PipelineSpec) -> bool:
        """Whether the process in which this pipeline was last opened is alive, and Spark in it."""
        return self._opened.get(spec.run_dir) == self._generation and not self._is_dead

    @property
    def _is_dead(self) -> bool:
        return self._process is not None and not self._process.works

    def open(
        self, spec: PipelineSpec, options: RunOptions, emit: Emit, stdout: Callable[[str], None]
    ) -> PipelineSession:
        """The session of a pipeline; the first one starts the process.

        PipelineError if a pipeline with the same name runs: both would have the same scheduler pools and metrics.
        """
        with self._turn:
            self._refuse_name_of_another(spec)
            launched = launch_spark(
                spec,
                master=options.master,
                conf=options.conf,
                spark_ui=options.spark_ui,
                stdout=stdout,
                emit=emit,
                besides=self._besides(spec),
            )
            session = _connected(spec, launched, stdout)
            if session.jvm.owned:
                self._process = session.jvm
            elif self._is_dead:
                # Since then, other code has started a process.
                self._process = None
            with self._records:
                self._opened[spec.run_dir] = self._generation
                self._running[spec.run_dir] = spec
            return session

    def _besides(self, spec: PipelineSpec) -> list[PipelineSpec]:
        with self._records:
            others = {each.run_dir: each for each in self._expected} | self._running
        return [each for directory, each in others.items() if directory != spec.run_dir]

    def _refuse_name_of_another(self, spec: PipelineSpec) -> None:
        with self._records:
            others = [each for each in self._running.values() if each.run_dir != spec.run_dir]
        for other in others:
            if other.name == spec.name:
                what = f"the pipeline that runs in this process with the run directory {other.run_dir}"
                raise PipelineError(PIPELINE_NAME_CONFLICT.at(spec.position, name=spec.name, other=what))

    def ended(self, spec: PipelineSpec) -> None:
        """The run of a pipeline has ended; it still holds its locks, so no other run has its directory yet."""
        with self._records:
            self._running.pop(spec.run_dir, None)
            self._opened.pop(spec.run_dir, None)

    def reopen(
        self, spec: PipelineSpec, options: RunOptions, emit: Emit, stdout: Callable[[str], None]
    ) -> PipelineSession:
        """A session in a new process, after the old one died; the first pipeline that asks starts it.

        A pipeline that could not start its queries asks again. If others run in the new process, it gets another
        session there. If none does, the process is replaced, because it may be what keeps the pipeline from
        starting.
        """
        with self._turn:
            with self._records:
                self._opened.pop(spec.run_dir, None)
                is_used = self._generation in self._opened.values()
            if self._is_dead or not is_used:
                if self._process is not None:
                    self._process.kill()
                    self._process = None
                self._generation += 1
            return self.open(spec, options, emit, stdout)

    def stop(self, seconds: float | None = None) -> None:
        """Stop the process, if it is ours; it is killed if that takes longer."""
        with self._turn:
            if self._process is not None:
                self._process.stop() if seconds is None else self._process.stop(seconds)
                self._process = None

    def kill(self) -> None:
        """Kill the process, if it is ours; running batches are not committed."""
        jvm = self._process
        if jvm is not None:
            jvm.kill()


def _connected(spec: PipelineSpec, launched: Launch, stdout: Callable[[str], None]) -> PipelineSession:
    try:
        # PySpark and all that uses it: a good half second of work, while the JVM starts.
        import headwater.runtime.start_queries  # noqa: F401 - loaded here, used later
        from headwater.engine.builder import SPARK_ERRORS
        from headwater.engine.session import connect
        from headwater.spark.errors import condition_of
    except BaseException:
        launched.abandon()
        raise
    try:
        return connect(spec, launched, stdout)
    except (*SPARK_ERRORS, OSError) as error:
        if condition_of(error):
            raise
        # PySpark could not reach the process that it had just connected to.
        raise died_at_start(spec, error) from error


def died_at_start(spec: PipelineSpec, error: BaseException) -> SetupError:
    """Spark's process exited before the queries ran; whatever needed it then says something else."""
    log = RunDirectory(spec.run_dir).spark_log
    problem = JVM_START_FAILED.at(reason="it was killed or ran out of memory", log=str(log))
    return SetupError(replace(problem, detail=scrub(f"{type(error).__name__}: {error}")))


APPLICATION = Application()
"""The one of this Python process, which has one process of Spark."""
