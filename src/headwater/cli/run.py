"""`run`: run a pipeline and show its progress."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import Conf, Json, Master, Verbose, duration, settings
from headwater.errors import UsageError
from headwater.errors.catalogue.programs import (
    BATCH_NEEDS_ONE_FILE,
    OPTION_NEEDS_BATCH,
    OPTIONS_CONFLICT_BATCH,
)

UntilIdle = Annotated[bool, typer.Option("--until-idle", help="Exit once all available data is processed")]
For = Annotated[
    str | None, typer.Option("--for", metavar="DURATION", help="Exit after this time, such as 60s")
]
Batch = Annotated[
    bool, typer.Option("--batch", help="Run once, as a batch job, over the data that the sources contain now")
]
OutputDir = Annotated[
    Path | None,
    typer.Option("--output-dir", metavar="DIR", help="With --batch: write file results to this directory"),
]
Append = Annotated[
    bool, typer.Option("--append", help="With --batch: allow appending to topics that the stream also writes")
]
FailFast = Annotated[
    bool,
    typer.Option("--fail-fast", help="Stop all queries when one fails for good, as `on_failure: stop` does"),
]
NoRestart = Annotated[
    bool,
    typer.Option(
        "--no-restart", help="Restart neither failed queries nor Spark, whatever `restart` says in the file"
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="[ADDRESS]",
        help="Serve metrics for Prometheus and health checks, at PORT (default: 9464) or HOST:PORT",
    ),
]
Files = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="Pipeline files (.yml, .yaml or .py), run in one Spark")
]
StopTimeout = Annotated[
    str | None,
    typer.Option(
        "--stop-timeout",
        metavar="DURATION",
        help="How long to wait for running batches on shutdown [default: 60s]",
    ),
]
SparkUi = Annotated[bool, typer.Option("--spark-ui", help="Enable the Spark UI")]


def run(
    files: Files,
    until_idle: UntilIdle = False,
    limit: For = None,
    batch: Batch = False,
    into: OutputDir = None,
    append: Append = False,
    master: Master = None,
    conf: Conf = None,
    fail_fast: FailFast = False,
    no_restart: NoRestart = False,
    stop_timeout: StopTimeout = None,
    metrics: Metrics = None,
    spark_ui: SparkUi = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Run pipelines until they are stopped."""
    from headwater.cli.foreground import run_batch, run_stream
    from headwater.runtime import RunOptions

    # These options would be silently ignored, and a forgotten `--batch` would start the stream.
    for option, given in (("--output-dir", into is not None), ("--append", append)):
        if given and not batch:
            raise UsageError(OPTION_NEEDS_BATCH.at(None, option=option))
    of_streams = (limit, stop_timeout, metrics)
    if batch and (until_idle or fail_fast or no_restart or any(each is not None for each in of_streams)):
        raise UsageError(OPTIONS_CONFLICT_BATCH.at(None))
    if batch and len(files) > 1:
        raise UsageError(BATCH_NEEDS_ONE_FILE.at(None))
    wait = duration("--stop-timeout", stop_timeout)
    options = RunOptions(
        master=master,
        conf=settings(conf),
        fail_fast=fail_fast,
        restarts=not no_restart,
        until_idle=until_idle,
        spark_ui=spark_ui,
        metrics=metrics,
        stop_seconds=wait.seconds if wait else RunOptions.stop_seconds,
    )
    if batch:
        raise typer.Exit(run_batch(files[0], options, into, append=append, as_json=as_json))
    raise typer.Exit(run_stream(files, options, duration("--for", limit), as_json=as_json, verbose=verbose))
