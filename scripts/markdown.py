"""Markdown for the generated pages: text, tables, anchors, and message templates."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from string import Formatter


def text(words: str) -> str:
    """Text in which only code between backticks is markup."""
    parts = words.split("`")
    outside = [part if index % 2 else part.replace("<", "&lt;") for index, part in enumerate(parts)]
    return "`".join(outside)


def template(words: str) -> str:
    """A message template as users read it: `<name>` for each parameter, single braces."""
    parts = (
        literal + (f"<{field}>" if field is not None else "")
        for literal, field, _, _ in Formatter().parse(words.removeprefix("{hint} "))
    )
    return text("".join(parts))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table and the empty line after it; nothing if there are no rows."""
    lines = [
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows
    ]
    if lines:
        yield "| " + " | ".join(head) + " |"
        yield "|" + "---|" * len(head)
        yield from (*(re.sub(r"  +\|", " |", line) for line in lines), "")


def anchor(heading: str) -> str:
    """The anchor that MkDocs gives a heading."""
    plain = re.sub(r"[^\w\s-]", "", heading).strip().lower()
    return re.sub(r"[-\s]+", "-", plain)


def first_line(thing: object) -> str:
    """The first line of a docstring."""
    return text((inspect.getdoc(thing) or "").partition("\n")[0])


def paragraph(thing: object) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def sentence(words: str) -> str:
    """Text that ends with a period."""
    return words if not words or words.endswith((".", "?", "!", "…")) else f"{words}."
