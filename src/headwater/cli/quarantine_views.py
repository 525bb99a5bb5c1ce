"""How quarantines look on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from headwater.api.quarantine import Held, Replayed
from headwater.quarantine import SetAside
from headwater.values import scrub

_WIDTH = 200


def show_list(held: Sequence[Held]) -> None:
    """A line for each quarantine, and one for each reason."""
    if not held:
        typer.echo("Nothing was set aside.")
    for each in held:
        typer.echo(f"{each.name}: {each.rows} rows set aside, {each.waiting} wait")
        for reason, rows in each.reasons.items():
            typer.echo(f"  {rows} {reason}")
        if each.files:
            typer.echo(f"  {each.files} unreadable file: not fed, a mended file is read by itself")


def show_rows(rows: Sequence[SetAside], limit: int) -> None:
    """Three lines for each row."""
    if not rows:
        typer.echo("No such row waits.")
    for row in rows:
        why = f"{row.reason}: {row.detail}" if row.detail else row.reason
        typer.echo(_printable(f"{row.id}  {row.where}  {row.set_aside_at:%Y-%m-%d %H:%M:%S} UTC"))
        typer.echo(_printable(f"  {why}"))
        typer.echo(f"  {_text(row)}")
    if len(rows) == limit:
        typer.echo(f"(the first {limit}; --limit shows more, `quarantine export` writes all)")


def show_replayed(result: Replayed, file: str) -> None:
    """How many rows were fed, and what comes next."""
    would = "would be fed" if result.dry else "are fed"
    typer.echo(f"{result.rows} rows of {result.name} {would} again, {result.left} more wait.")
    for id_ in result.unknown:
        typer.echo(f"No row {id_} waits; it was not fed.", err=True)
    for id_ in result.unwanted:
        typer.echo(f"The row {id_} is not one of those asked for; it was not fed.", err=True)
    if result.passed_over:
        told = "they have no `text`, and their `value` is as it was"
        typer.echo(f"{result.passed_over} rows of the file were not fed: {told}.", err=True)
    if result.rows and not result.dry:
        typer.echo(
            f"They are read by the next start, or by a run that feeds rows already: headwater run {file}"
        )
    if result.unread:
        sinks = ", ".join(f"`{sink}`" for sink in result.behind)
        have = "has" if len(result.behind) == 1 else "have"
        run = f"headwater run {file} --until-idle"
        typer.echo(f"{result.unread} rows are left until {sinks} {have} read as far: {run}")
    if result.redefined:
        typer.echo(f"Run it with the definition from before the fix, or rows of {result.name} come twice.")


def _text(row: SetAside) -> str:
    if row.value is None:
        return "(no bytes)"
    one_line = _printable(row.text if row.text is not None else repr(row.value), _WIDTH + 1)
    return one_line if len(one_line) <= _WIDTH else f"{one_line[:_WIDTH]}… ({len(row.value)} bytes)"


def _printable(text: str, most: int | None = None) -> str:
    """What others have written must not move the cursor, ring, or hide a part of itself."""
    signs = scrub(text)[:most]
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in signs)
