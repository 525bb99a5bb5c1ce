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


PARAMETERS = {
    "advice": "hint",
    "all": "total",
    "before": "old value",
    "cast": "expression",
    "class_name": "class",
    "closing": "character",
    "does": "operation",
    "done": "action",
    "ending": "extension",
    "enough": "value",
    "folder": "directory",
    "following": "trigger",
    "form": "syntax",
    "found": "actual",
    "free_at": "time",
    "given": "mode of the function",
    "got": "value",
    "has": "keys",
    "held": "last batch",
    "how": "status",
    "instead": "alternative",
    "java_class": "class",
    "kept": "stored value",
    "lacking": "missing",
    "least": "minimum",
    "lost": "effect",
    "meant": "suggestion",
    "most": "maximum",
    "need": "artifact",
    "needed": "needed cores",
    "needs": "arguments",
    "now": "new value",
    "opened": "bracket",
    "passed": "arguments",
    "pieces": "count",
    "place": "location",
    "reached": "progress",
    "reads": "table",
    "returned": "type",
    "says": "details",
    "seen": "heartbeat",
    "short": "name",
    "since": "start",
    "slots": "occupied cores",
    "stands": "position",
    "starved": "queries",
    "taken": "type",
    "takes": "parameters",
    "then": "effect",
    "use": "subject",
    "waiting": "backlog",
    "wanted": "expected",
    "what": "item",
    "where": "location",
    "why": "reason",
    "word": "name",
    "written": "value",
}
"""How the pages name a parameter of a message, if its name in the code says too little."""


def parameter(name: str) -> str:
    """A parameter of a message as the pages show it."""
    return f"<{PARAMETERS.get(name, name.replace('_', ' '))}>"


def template(words: str) -> str:
    """A message template as users read it: `<name>` for each parameter, single braces."""
    parts = (
        literal + (parameter(field) if field is not None else "")
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
