"""The pipeline that users declare in Python, and the operations on it.

PySpark is imported when a pipeline is started or explained, not when it is declared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.api.check import check
from headwater.api.results import BatchResult, ExplainResult
from headwater.checks import Finding
from headwater.engine.pipeline_file import declared, judged
from headwater.errors import UsageError
from headwater.errors.catalogue.pipelines import PIPELINE_NO_SINKS, SOURCE_PATH_NOT_FOUND
from headwater.errors.catalogue.running import RUN_START_STOPPED
from headwater.events import Event
from headwater.loaders.python_form import Declarations
from headwater.loaders.yaml_form import YamlFile

if TYPE_CHECKING:
    from headwater.runtime.handles import Run


class Pipeline(Declarations):
    """Declare sources, tables and sinks; then check, explain or start them."""

    def start(
        self,
        *,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        fail_fast: bool = False,
        restarts: bool = True,
        until_idle: bool = False,
        spark_ui: bool = False,
        stop_timeout: float | None = None,
        metrics: str | None = None,
        on_event: Callable[[Event], None] = lambda event: None,
    ) -> Run:
        """Start every sink after a full check, and return immediately.

        With `until_idle` this returns when nothing is left to read and every query has stopped, as
        `headwater run --until-idle` does; the run then has its `exit_code`. The queries don't wait for their
        intervals. With `restarts=False`, failed queries are not restarted, whatever `restart` says. `metrics`
        is the address of an endpoint for Prometheus, such as `9464`. `stop_timeout` is how many seconds a stop
        waits for running batches (default: 60), unless the stop sets its own timeout.
        """
        from headwater.runtime import RunOptions, start
        from headwater.runtime.signals import StopRequested

        options = RunOptions(
            master=master,
            conf=conf or {},
            fail_fast=fail_fast,
            restarts=restarts,
            metrics=metrics,
            until_idle=until_idle,
            spark_ui=spark_ui,
            stop_seconds=RunOptions.stop_seconds if stop_timeout is None else stop_timeout,
        )
        spec = self.spec()
        try:
            run = start(spec, options, on_event, _to_stdout)
        except StopRequested as stopped:
            raise UsageError(RUN_START_STOPPED.at(spec.position, pipeline=spec.name)) from stopped
        if until_idle:
            run.stop_when_idle()
        return run

    def check(
        self, *, offline: bool = False, master: str | None = None, conf: Mapping[str, str] | None = None
    ) -> list[Finding]:
        """Check the pipeline and return the findings."""
        return list(check(self.spec(), offline=offline, master=master, conf=conf).findings)

    def explain(
        self,
        *,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        rates: Mapping[str, float] | None = None,
    ) -> ExplainResult:
        """Explain what Spark will run; `rates`, in rows per second by source, estimate the size of the state."""
        from headwater.api.explain import explain

        return explain(self.spec(), master=master, conf=conf, rates=rates)

    def run_batch(
        self,
        *,
        output_dir: str | Path | None = None,
        append: bool = False,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        spark_ui: bool = False,
    ) -> BatchResult:
        """Run the same tables once, as a batch job; `append` allows appending to topics."""
        from headwater.api.batch import run_batch
        from headwater.runtime import RunOptions

        options = RunOptions(master=master, conf=conf or {}, spark_ui=spark_ui)
        into = Path(output_dir) if output_dir else None
        return run_batch(self.spec(), options, into=into, append=append, stdout=_to_stdout)


def load(file: str | Path) -> Pipeline:
    """The pipeline of a file, as `headwater run` takes it: `pipeline.yml`, `pipeline.py`, `pipeline.py:name`.

    PipelineError has every problem of the file. A source whose path is missing, and a pipeline without a
    sink, are rejected only when the pipeline starts.
    """
    found = declared(file)
    if isinstance(found, YamlFile):
        pipeline = Pipeline.of_file(found)
    else:
        # Python loads a module once; each call gives a pipeline of its own.
        assert isinstance(found, Pipeline), "a program makes nothing else"
        pipeline = found.copied()
    judged(pipeline, (PIPELINE_NO_SINKS, SOURCE_PATH_NOT_FOUND))
    return pipeline


def _to_stdout(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
