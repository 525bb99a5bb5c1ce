"""`quarantine`: list, show, export and replay quarantined rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import Command, File, Json, Verbose
from headwater.errors import UsageError
from headwater.errors.catalogue.running import EXPORT_FILE_UNWRITABLE
from headwater.values import count_of

Source = Annotated[str, typer.Argument(metavar="NAME", help="Source or table that quarantined the rows")]
Why = Annotated[
    str | None,
    typer.Option("--reason", metavar="REASON", help="Only rows with this reason, such as malformed"),
]
Ids = Annotated[
    list[str] | None, typer.Option("--id", metavar="ID", help="Only rows with this ID (repeatable)")
]
All = Annotated[bool, typer.Option("--all", help="Include replayed rows")]

commands = typer.Typer(no_args_is_help=True, help="Inspect and replay quarantined rows.")


@commands.command("ls", hidden=True, cls=Command)
@commands.command("list", cls=Command)
def list_(file: File, as_json: Json = False, verbose: Verbose = False) -> None:
    """List the quarantines of a pipeline with their row counts and reasons."""
    from headwater.api.quarantine import list_quarantines
    from headwater.cli.json_output import print_json
    from headwater.cli.views import show_list

    held = list_quarantines(file)
    if as_json:
        print_json([each.to_json() for each in held])
    else:
        show_list(held)


@commands.command(cls=Command)
def show(
    file: File,
    name: Source,
    reason: Why = None,
    ids: Ids = None,
    everything: All = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="Maximum number of rows to show")
    ] = 20,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show pending rows with their position, reason and text."""
    from headwater.api.quarantine import show as shown
    from headwater.cli.json_output import print_json
    from headwater.cli.views import show_rows

    rows = shown(file, name, reason=reason, ids=tuple(ids or ()), everything=everything, limit=limit)
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        show_rows(rows, limit)


@commands.command(cls=Command)
def export(
    file: File,
    name: Source,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File to write [default: standard output]"),
    ] = None,
    reason: Why = None,
    ids: Ids = None,
    everything: All = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Export pending rows as JSON Lines, with their bytes in base64."""
    from headwater.api.quarantine import export as exported
    from headwater.cli.json_output import print_json

    lines: list[str] = []
    count = exported(file, name, lines.append, reason=reason, ids=tuple(ids or ()), everything=everything)
    # Written last: a typo in the name must not empty a file of corrected rows.
    if output is None:
        sys.stdout.writelines(lines)
        return
    _write(output, lines)
    if as_json:
        print_json({"rows": count, "file": str(output)})
    else:
        typer.echo(f"Wrote {count_of(count, 'row')} to {output}.")


def _write(to: Path, lines: Iterable[str]) -> None:
    try:
        with to.open("w", encoding="utf-8") as out:
            out.writelines(lines)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(EXPORT_FILE_UNWRITABLE.at(None, file=str(to), reason=reason)) from error


@commands.command(cls=Command)
def replay(
    file: File,
    name: Source,
    reason: Why = None,
    ids: Ids = None,
    corrected: Annotated[
        Path | None,
        typer.Option(
            "--file", metavar="PATH", help="Replay the corrected rows in this file (see `quarantine export`)"
        ),
    ] = None,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be replayed, change nothing")
    ] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Replay pending quarantined rows. Each row is replayed once; the next run reads them along with the source."""
    from headwater.api.quarantine import replay as replayed
    from headwater.cli.json_output import print_json
    from headwater.cli.views import show_replayed

    result = replayed(file, name, reason=reason, ids=tuple(ids or ()), corrected=corrected, dry=dry)
    if as_json:
        print_json(result.to_json())
    else:
        show_replayed(result, file)
    raise typer.Exit(1 if result.unknown else 0)
