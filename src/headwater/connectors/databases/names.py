"""The name of a table as written in `into`."""

from __future__ import annotations

import re

_PART = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')


def table_name(into: str) -> tuple[str, str]:
    """Schema and table; the schema is empty if there is none. ValueError for others."""
    parts, at = [], 0
    while found := _PART.match(into, at):
        parts.append(found[1].replace('""', '"') if found[1] else found[2])
        at = found.end()
        if at == len(into) and len(parts) <= 2:
            return (parts[0], parts[1]) if len(parts) == 2 else ("", parts[0])
        if into[at : at + 1] != ".":
            break
        at += 1
    raise ValueError(
        f'`{into}` is not a table; write `table` or `schema.table`, and quote names with dots: `"a.b"`'
    )


def unquoted(identifier: str) -> str:
    """The name of an identifier in SQL."""
    return identifier[1:-1].replace('""', '"') if identifier.startswith('"') else identifier


def quoted(name: str, mark: str = '"') -> str:
    """An identifier in SQL, for every database here: between two marks, and those in the name doubled."""
    return f"{mark}{name.replace(mark, 2 * mark)}{mark}"
