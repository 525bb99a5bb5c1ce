"""How the rows of a test are read, and what is said about one that can't be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, tzinfo
from typing import Any

_LONGEST_SHOWN = 60


@dataclass(frozen=True)
class Reading:
    """The day and the zone of times that are written without them."""

    day: date
    zone: tzinfo


class BadRow(Exception):
    """A value that does not fit its column."""

    def __init__(self, says: str, column: str = "") -> None:
        super().__init__(f"{column}: {says}" if column else says)
        self.says = says
        """What is wrong and what is wanted: a sentence without its full stop."""
        self.column = column
        """`address.city`, `tags[0]`; empty where the row as a whole is meant."""


class Cell(str):
    """A text of which only its column tells the kind: a cell of a csv file, a key of a mapping in YAML."""


def written(value: Any) -> str:
    """A value as one would write it in a test, short enough for a sentence."""
    text = json.dumps(value, default=_other, ensure_ascii=False, skipkeys=True)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _other(value: Any) -> str:
    return str(value)
