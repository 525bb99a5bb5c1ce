"""`test`: run the tests of pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import Conf, Json, duration, settings

Paths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[PATH...]", help="Test files or directories [default: current directory]"),
]
Names = Annotated[
    str | None,
    typer.Option("-k", metavar="EXPR", help="Only run tests whose names match, such as 'late and not slow'"),
]
Junit = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit report to this file")
]
FailFast = Annotated[bool, typer.Option("-x", "--fail-fast", help="Stop after the first test that fails")]
Shuffle = Annotated[
    int,
    typer.Option("--shuffle", metavar="N", min=0, help="Run each test N more times with shuffled rows"),
]
Crashes = Annotated[
    bool, typer.Option("--crash", help="Run each test once more with a crash after every feed")
]
Draw = Annotated[
    Path | None,
    typer.Option(
        "--diagram", metavar="PATH", help="Draw one test as an .svg file, or all tests into a directory"
    ),
]
Limit = Annotated[
    str | None,
    typer.Option(
        "--batch-timeout", metavar="DURATION", help="How long a batch can take [default: 2 minutes]"
    ),
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Show every step with its batches")]


def run_tests_command(
    paths: Paths = None,
    k: Names = None,
    junit: Junit = None,
    fail_fast: FailFast = False,
    shuffle: Shuffle = 0,
    crash: Crashes = False,
    draw: Draw = None,
    limit: Limit = None,
    conf: Conf = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Test pipelines batch by batch on test streams."""
    from headwater.api.test import run_tests
    from headwater.cli.test_views import view_of_tests, write_junit

    longest = duration("--batch-timeout", limit)
    with view_of_tests(as_json=as_json, verbose=verbose) as view:
        result = run_tests(
            paths or [Path()],
            k=k,
            conf=settings(conf),
            limit=longest.seconds if longest else None,
            stop_at_first=fail_fast,
            shuffle=shuffle,
            crash=crash,
            draw=draw,
            emit=view.event,
        )
    if junit is not None:
        write_junit(result, junit)
    view.end(result)
    raise typer.Exit(result.exit_code)
