"""`quarantine`: look at rows that were set aside, write them out, feed them again."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import File, Json, Verbose
from headwater.errors import UsageProblem
from headwater.errors.catalogue.running import EXPORT_FILE_UNWRITABLE

Source = Annotated[str, typer.Argument(metavar="NAME", help="The source or table that set the rows aside.")]
Why = Annotated[str | None, typer.Option("--reason", help="Only rows with this reason, such as malformed.")]
Ids = Annotated[list[str] | None, typer.Option("--id", help="Only the row with this id; may be repeated.")]
All = Annotated[bool, typer.Option("--all", help="Also rows that were fed again.")]

commands = typer.Typer(no_args_is_help=True, help="Look at rows that were set aside, and feed them again.")


@commands.command()
def ls(file: File, as_json: Json = False, verbose: Verbose = False) -> None:
    """List the quarantines of a pipeline: how many rows, how many wait, and why."""
    from headwater.api.quarantine import ls as listed
    from headwater.cli.render import print_json
    from headwater.cli.views import show_list

    held = listed(file)
    if as_json:
        print_json([each.to_json() for each in held])
    else:
        show_list(held)


@commands.command()
def show(
    file: File,
    name: Source,
    reason: Why = None,
    ids: Ids = None,
    everything: All = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many rows.")] = 20,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show rows that wait: where each stood, why it was set aside, and its text."""
    from headwater.api.quarantine import show as shown
    from headwater.cli.render import print_json
    from headwater.cli.views import show_rows

    rows = shown(file, name, reason=reason, ids=tuple(ids or ()), everything=everything, limit=limit)
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        show_rows(rows, limit)


@commands.command()
def export(
    file: File,
    name: Source,
    to: Annotated[Path | None, typer.Option("--to", help="A file to write; else standard output.")] = None,
    reason: Why = None,
    ids: Ids = None,
    everything: All = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Write the rows that wait as JSON, one in a line, with their bytes in base64."""
    from headwater.api.quarantine import export as exported
    from headwater.cli.render import print_json

    lines: list[str] = []
    count = exported(file, name, lines.append, reason=reason, ids=tuple(ids or ()), everything=everything)
    # Written only now: a slip in the name must not empty a file of mended rows.
    if to is None:
        sys.stdout.writelines(lines)
        return
    _write(to, lines)
    if as_json:
        print_json({"rows": count, "file": str(to)})
    else:
        typer.echo(f"{count} rows written to {to}.")


def _write(to: Path, lines: Iterable[str]) -> None:
    try:
        with to.open("w", encoding="utf-8") as out:
            out.writelines(lines)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageProblem(EXPORT_FILE_UNWRITABLE.at(None, file=str(to), reason=reason)) from error


@commands.command()
def replay(
    file: File,
    name: Source,
    reason: Why = None,
    ids: Ids = None,
    mended: Annotated[
        Path | None, typer.Option("--from", help="Exported rows that were mended; only these are fed.")
    ] = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Only say how many it would be.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Feed rows that wait again, each once: they are read beside the source from the next start on."""
    from headwater.api.quarantine import replay as replayed
    from headwater.cli.render import print_json
    from headwater.cli.views import show_replayed

    result = replayed(file, name, reason=reason, ids=tuple(ids or ()), mended=mended, dry=dry)
    if as_json:
        print_json(result.to_json())
    else:
        show_replayed(result, file)
    raise typer.Exit(1 if result.unknown else 0)
