"""An entry of the catalogue, and a problem: one entry filled in at one place."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
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
    """One thing that can go wrong: its sentence, what to do about it, its code.

    `sentence` and `remedy` are `str.format` templates over the parameters of the problem.
    An entry without a remedy is a notice: something to know, and nothing to do.
    `retry` says whether the same thing may succeed when it is simply tried again.
    The code is the name of the constant, see `name_entries`; an entry that is no constant names its `code`.
    """

    sentence: str
    remedy: str = ""
    retry: bool = field(default=False, kw_only=True)
    code: str = field(default="", kw_only=True)

    def at(self, place: Place | None = None, /, **params: object) -> Problem:
        """Fill the entry in for one place."""
        return Problem(self, params, place)


def name_entries(constants: Mapping[str, object]) -> dict[str, Entry]:
    """The entries among a module's constants, whose names become the codes: `SQL_SYNTAX` is HW-SQL-SYNTAX."""
    entries = {name: value for name, value in constants.items() if isinstance(value, Entry)}
    for name, entry in entries.items():
        object.__setattr__(entry, "code", entry.code or f"HW-{name.replace('_', '-')}")
    return entries


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


# The error tree; every error carries problems of the catalogue and the exit code of the command.
#
# HeadwaterError
# ├── UsageProblem         2  the command line or a call makes no sense
# │   └── UnknownQuery        a run has no query of this name; a KeyError too
# ├── PipelineError        3  the pipeline is refused before start
# ├── CheckpointError      4  the checkpoint does not fit or can't be read
# │   └── CheckpointHeld      another run holds the checkpoint
# ├── EnvironmentProblem   5  Java, Spark or the machine lacks something
# ├── QueryFailed          1  a query failed while it ran
# └── Interrupted        130  a second interrupt forced the end


class HeadwaterError(Exception):
    """Something that the catalogue has an entry for, once or several times."""

    exit_code = 1

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> HeadwaterError:
        """One error for several problems, reported together."""
        return cls(*problems)

    @property
    def retry(self) -> bool:
        """Whether trying the same again can help."""
        return bool(self.problems) and all(problem.entry.retry for problem in self.problems)


class UsageProblem(HeadwaterError):
    """The command line or a call makes no sense."""

    exit_code = 2


class UnknownQuery(UsageProblem, KeyError):
    """A run has no query of this name; a KeyError, too."""

    def __str__(self) -> str:
        # A KeyError shows its text in quotes, as if it were a key.
        return "\n".join(str(problem) for problem in self.problems)


class PipelineError(HeadwaterError):
    """The pipeline is refused before start."""

    exit_code = 3


class CheckpointError(HeadwaterError):
    """A checkpoint does not fit this pipeline or can't be read."""

    exit_code = 4


class CheckpointHeld(CheckpointError):
    """Another run holds the checkpoint."""


class EnvironmentProblem(HeadwaterError):
    """Java, Spark, Python or the machine lacks something."""

    exit_code = 5


class QueryFailed(HeadwaterError):
    """A query failed while it ran."""

    exit_code = 1


class Interrupted(HeadwaterError):
    """A second interrupt forced the end; the running batch may not have committed."""

    exit_code = 130
