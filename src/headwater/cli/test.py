"""`test`: play the tests of pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import Conf, Json, duration, settings

Paths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="PATHS", help="Test files, and folders of them; else this folder."),
]
Names = Annotated[
    str | None,
    typer.Option("-k", metavar="EXPR", help="Only tests whose names fit, such as 'late and not slow'."),
]
Junit = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit report to this file.")
]
FailFast = Annotated[
    bool, typer.Option("-x", "--fail-fast", help="End with the first test that does not pass.")
]
Shuffle = Annotated[
    int,
    typer.Option("--shuffle", metavar="N", min=0, help="Play each test N more times, rows in other orders."),
]
Crashes = Annotated[
    bool, typer.Option("--crash", help="Play each test once more, with a crash after every feed.")
]
Draw = Annotated[
    Path | None,
    typer.Option("--draw", metavar="PATH", help="Draw one test to a .svg file, or all into a folder."),
]
Limit = Annotated[
    str | None, typer.Option("--limit", help="Longest time a batch may take: 2 minutes if not said.")
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Show every step with its batches.")]


def play(
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
    """Play tests of pipelines on scripted streams, batch by batch."""
    from headwater.api.test import run_tests
    from headwater.cli.test_views import view_of_tests, write_junit

    longest = duration("--limit", limit)
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
