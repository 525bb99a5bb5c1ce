"""`run`: start a pipeline and show what it does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import Conf, File, Json, Master, Verbose, duration, settings
from headwater.errors import UsageProblem
from headwater.errors.catalogue.programs import OPTION_NEEDS_BATCH, OPTIONS_CONFLICT_BATCH


def run(
    file: File,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when nothing is left to read.")
    ] = False,
    limit: Annotated[str | None, typer.Option("--for", help="End after this time, such as 60s.")] = None,
    batch: Annotated[bool, typer.Option("--batch", help="Run once over what the sources hold now.")] = False,
    into: Annotated[
        Path | None, typer.Option("--into", help="With --batch: the folder for stored results.")
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="With --batch: add to topics that the stream writes, too.")
    ] = False,
    master: Master = None,
    conf: Conf = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop all queries when one fails.")] = False,
    stop_timeout: Annotated[
        str | None, typer.Option("--stop-timeout", help="Longest wait for running batches: 60s if not said.")
    ] = None,
    spark_ui: Annotated[bool, typer.Option("--spark-ui", help="Switch Spark's own web page on.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Start every sink of a pipeline, and go on until stopped."""
    from headwater.cli.foreground import run_batch, run_stream
    from headwater.runtime import RunOptions

    # Options that would be passed over in silence; a forgotten `--batch` would start the real stream.
    for option, given in (("--into", into is not None), ("--append", append)):
        if given and not batch:
            raise UsageProblem(OPTION_NEEDS_BATCH.at(None, option=option))
    if batch and (until_idle or fail_fast or limit is not None or stop_timeout is not None):
        raise UsageProblem(OPTIONS_CONFLICT_BATCH.at(None))
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
