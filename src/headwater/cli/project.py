"""`init` and `doctor`: a new project, and a look at the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import Json, Verbose


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The new project's folder.")],
    template: Annotated[
        str, typer.Option("--template", metavar="NAME", help="What to make: word-count or kafka.")
    ] = "word-count",
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Make a new project that runs at once."""
    from headwater.api.project import init as make_project
    from headwater.cli.render import print_json

    result = make_project(folder, template)
    if as_json:
        print_json(result.to_json())
        return
    for file in result.files:
        typer.echo(f"made {file}")
    typer.echo(f"\nTry it:\n  {result.next_command}")


def doctor(
    folder: Annotated[Path, typer.Option("--folder", help="The project to look at.")] = Path(),
    jars: Annotated[bool, typer.Option("--jars", help="List the jars that connectors may need.")] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Start Spark, and look for every part that Headwater needs of it.")
    ] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Look whether this machine has what a run needs."""
    from headwater.api.project import doctor as examine_machine
    from headwater.cli.render import print_json

    result = examine_machine(folder, jars=jars, spark=spark)
    if as_json:
        print_json(result.to_json())
        raise typer.Exit(result.exit_code)
    for check in result.checks:
        typer.echo(f"{check.status:8} {check.name}: {check.says}")
        if check.remedy:
            typer.echo(f"         {check.remedy}")
    raise typer.Exit(result.exit_code)
