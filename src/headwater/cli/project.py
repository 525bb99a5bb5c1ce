"""`init` and `doctor`: create a project, and check the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import Json, Verbose


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Directory of the new project")],
    template: Annotated[
        str,
        typer.Option(
            "--template", metavar="NAME", help="Sample project to create: word-count, kafka or postgres"
        ),
    ] = "word-count",
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Create a sample project."""
    from headwater.api.project import init as make_project
    from headwater.cli.json_output import print_json

    result = make_project(folder, template)
    if as_json:
        print_json(result.to_json())
        return
    for file in result.files:
        typer.echo(f"Created {file}")
    typer.echo(f"\nNext step:\n  {result.next_command}")


def doctor(
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Project directory")] = Path(),
    jars: Annotated[bool, typer.Option("--jars", help="List the jars that connectors need")] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Start Spark and check every part of it that Headwater uses")
    ] = False,
    class_data: Annotated[
        bool,
        typer.Option("--class-data", help="Create the archive of Spark's classes now, for faster starts"),
    ] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Check that this machine meets the requirements."""
    from headwater.api.project import doctor as examine_machine
    from headwater.cli.json_output import print_json

    result = examine_machine(folder, jars=jars, spark=spark, class_data=class_data)
    if as_json:
        print_json(result.to_json())
        raise typer.Exit(result.exit_code)
    for check in result.checks:
        typer.echo(f"{check.status:8} {check.name}: {check.message}")
        if check.hint:
            typer.echo(f"         {check.hint}")
    raise typer.Exit(result.exit_code)
