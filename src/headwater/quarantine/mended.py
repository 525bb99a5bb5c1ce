"""Rows that a user has mended, in the form in which they are written out: a JSON object in each line."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.errors import UsageProblem
from headwater.errors.catalogue.quarantine import MENDED_NO_FILE, MENDED_UNREADABLE
from headwater.quarantine.rows import SetAside


@dataclass(frozen=True)
class Mended:
    """What a line says of its row: the bytes of `text`, and those that `value` has in base64."""

    text: bytes | None = None
    value: bytes | None = None

    def bytes_of(self, row: SetAside) -> bytes | None:
        """What the row is fed with: what was changed, else its text; None where it has none."""
        changed = (each for each in (self.text, self.value) if each not in (None, row.value))
        return next(changed, self.text)


def read_mended(file: Path) -> dict[str, list[Mended]]:
    """The lines of a file by the ids of their rows; rows that are equal share one."""
    found: dict[str, list[Mended]] = {}
    for id_, mended in _lines(file):
        found.setdefault(id_, []).append(mended)
    return found


def _lines(file: Path) -> Iterator[tuple[str, Mended]]:
    try:
        # Not by splitlines(): a text may hold signs that it takes for the end of a line.
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageProblem(MENDED_NO_FILE.at(None, file=str(file), reason=reason)) from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _parsed(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            problem = MENDED_UNREADABLE.at(None, file=str(file), line=number, reason=reason)
            raise UsageProblem(problem) from error


def _parsed(row: Any) -> tuple[str, Mended]:
    id_, text, value = row["id"], row["text"], row.get("value")
    if not isinstance(id_, str) or not all(isinstance(each, str | None) for each in (text, value)):
        raise TypeError("`id` is a text; `text` and `value` are texts, or null")
    return id_, Mended(
        None if text is None else text.encode(),
        None if value is None else base64.b64decode(value, validate=True),
    )
