"""`run`: run a pipeline and show its progress."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import Conf, File, Json, Master, Verbose, duration, settings
from headwater.errors import UsageError
from headwater.errors.catalogue.programs import OPTION_NEEDS_BATCH, OPTIONS_CONFLICT_BATCH

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
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Stop all queries when one fails")]
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
    file: File,
    until_idle: UntilIdle = False,
    limit: For = None,
    batch: Batch = False,
    into: OutputDir = None,
    append: Append = False,
    master: Master = None,
    conf: Conf = None,
    fail_fast: FailFast = False,
    stop_timeout: StopTimeout = None,
    spark_ui: SparkUi = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Run a pipeline until it is stopped."""
    from headwater.cli.foreground import run_batch, run_stream
    from headwater.runtime import RunOptions

    # These options would be silently ignored, and a forgotten `--batch` would start the stream.
    for option, given in (("--output-dir", into is not None), ("--append", append)):
        if given and not batch:
            raise UsageError(OPTION_NEEDS_BATCH.at(None, option=option))
    if batch and (until_idle or fail_fast or limit is not None or stop_timeout is not None):
        raise UsageError(OPTIONS_CONFLICT_BATCH.at(None))
    wait = duration("--stop-timeout", stop_timeout)
    options = RunOptions(
        master=master,
        conf=settings(conf),
        fail_fast=fail_fast,
        until_idle=until_idle,
        spark_ui=spark_ui,
        stop_seconds=wait.seconds if wait else RunOptions.stop_seconds,
    )
    if batch:
        raise typer.Exit(run_batch(file, options, into, append=append, as_json=as_json))
    raise typer.Exit(run_stream(file, options, duration("--for", limit), as_json=as_json, verbose=verbose))
