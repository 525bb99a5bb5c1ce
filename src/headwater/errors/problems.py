"""An entry of the catalogue, and a problem: one entry filled in at one place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


class Place(Protocol):
    """Where something was declared; `headwater.values.Position` is one."""

    @property
    def file(self) -> str: ...

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


@dataclass(frozen=True)
class Entry:
    """One thing that can go wrong: its code, its sentence, what to do about it.

    `sentence` and `remedy` are `str.format` templates over the parameters of the problem.
    `retry` says whether the same thing may succeed when it is simply tried again.
    """

    code: str
    sentence: str
    remedy: str
    retry: bool = False

    def at(self, place: Place | None = None, /, **params: object) -> Problem:
        """Fill the entry in for one place."""
        return Problem(self, params, place)


@dataclass(frozen=True)
class Problem:
    """An entry of the catalogue with its parameters, at the user's own line.

    `detail` is text from elsewhere (a Java stack, a user's traceback). It goes to the log file and to
    `--verbose`, and is never the message.
    """

    entry: Entry
    params: Mapping[str, object] = field(default_factory=dict)
    place: Place | None = None
    detail: str = field(default="", compare=False)

    @property
    def code(self) -> str:
        return self.entry.code

    @property
    def sentence(self) -> str:
        return self.entry.sentence.format(**self.params)

    @property
    def remedy(self) -> str:
        return self.entry.remedy.format(**self.params)

    @property
    def file(self) -> str:
        """The file of the place as it is shown, or an empty string."""
        return shown_file(self.place.file) if self.place else ""

    @property
    def where(self) -> str:
        """`file:line:column`, or an empty string where no line of the user's is to blame."""
        return f"{self.file}:{self.place.line}:{self.place.column}" if self.place else ""

    def __str__(self) -> str:
        head = f"{self.where}: " if self.place else ""
        return f"{head}{self.code}: {self.sentence} {self.remedy}"

    def to_json(self) -> dict[str, Any]:
        """The form that every command prints with `--json`."""
        place = self.place
        return {
            "code": self.code,
            "sentence": self.sentence,
            "remedy": self.remedy,
            "retry": self.entry.retry,
            "file": self.file if place else None,
            "line": place.line if place else None,
            "column": place.column if place else None,
        }


def shown_file(file: str) -> str:
    """A path from the current folder where it lies below, whichever way it was found out."""
    try:
        here = os.getcwd()
    except OSError:
        # The folder in which the command was typed may be gone.
        return file
    return str(Path(file).relative_to(here)) if Path(file).is_relative_to(here) else file
