"""Catalogue entries, problems (an entry with its parameters and position), and the error classes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


class Place(Protocol):
    """The position of a declaration, such as a `headwater.values.Position`."""

    @property
    def file(self) -> str: ...

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


@dataclass(frozen=True)
class Entry:
    """One kind of problem: its message, hint and code.

    `message` and `hint` are `str.format` templates over the parameters of the problem.
    An entry without a hint is a notice: no action is needed.
    `retryable` means that a retry without any change can succeed.
    The code comes from the name of the constant, see `name_entries`; any other entry sets its `code`.
    """

    message: str
    hint: str = ""
    retryable: bool = field(default=False, kw_only=True)
    code: str = field(default="", kw_only=True)

    def at(self, place: Place | None = None, /, **params: object) -> Problem:
        """A problem with these parameters at one position."""
        return Problem(self, params, place)


def name_entries(constants: Mapping[str, object]) -> dict[str, Entry]:
    """The entries among the constants of a module; the code of `SQL_SYNTAX` is HW-SQL-SYNTAX."""
    entries = {name: value for name, value in constants.items() if isinstance(value, Entry)}
    for name, entry in entries.items():
        object.__setattr__(entry, "code", entry.code or f"HW-{name.replace('_', '-')}")
    return entries


@dataclass(frozen=True)
class Problem:
    """An entry of the catalogue with its parameters and position.

    `detail` is foreign text, such as a Java stack trace or a user's traceback. It appears in the log file
    and with `--verbose`, but never in the message.
    """

    entry: Entry
    params: Mapping[str, object] = field(default_factory=dict)
    place: Place | None = None
    detail: str = field(default="", compare=False)

    @property
    def code(self) -> str:
        return self.entry.code

    @property
    def message(self) -> str:
        return self.entry.message.format(**self.params)

    @property
    def hint(self) -> str:
        return self.entry.hint.format(**self.params)

    @property
    def file(self) -> str:
        """The file as shown to the user, or an empty string."""
        return shown_file(self.place.file) if self.place else ""

    @property
    def location(self) -> str:
        """`file:line:column`, or an empty string if no line of the user causes the problem."""
        return f"{self.file}:{self.place.line}:{self.place.column}" if self.place else ""

    def __str__(self) -> str:
        head = f"{self.location}: " if self.place else ""
        return f"{head}{self.code}: {self.message} {self.hint}"

    def to_json(self) -> dict[str, Any]:
        """The form that every command prints with `--json`."""
        place = self.place
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "retryable": self.entry.retryable,
            "file": self.file if place else None,
            "line": place.line if place else None,
            "column": place.column if place else None,
        }


def shown_file(file: str) -> str:
    """The path relative to the current directory, if it is inside."""
    try:
        here = os.getcwd()
    except OSError:
        # The current directory may have been deleted.
        return file
    return str(Path(file).relative_to(here)) if Path(file).is_relative_to(here) else file


# The error tree; every error carries problems of the catalogue and the exit code of the command.
#
# HeadwaterError
# ├── QueryFailedError             1  a query failed, was interrupted, or a test failed
# ├── UsageError                   2  invalid command line or call
# │   └── QueryNotFoundError          the run has no such query; also a KeyError
# ├── PipelineError                3  the pipeline is invalid
# ├── CheckpointError              4  the checkpoint is incompatible or unreadable
# │   └── CheckpointLockedError       another run holds the lock
# ├── SetupError                   5  the machine does not meet the requirements
# └── ForcedStopError            130  a second interrupt forced the run to exit


class HeadwaterError(Exception):
    """The base class of all Headwater errors. `problems` has the code, message, hint and position of each."""

    exit_code = 1

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> HeadwaterError:
        """One error for several problems, reported together."""
        return cls(*problems)

    @property
    def retryable(self) -> bool:
        """Whether a retry without any change can succeed."""
        return bool(self.problems) and all(problem.entry.retryable for problem in self.problems)


class UsageError(HeadwaterError):
    """The command line or a Python call is invalid."""

    exit_code = 2


class QueryNotFoundError(UsageError, KeyError):
    """The run has no query with this name."""

    def __str__(self) -> str:
        # KeyError would show the message in quotes.
        return "\n".join(str(problem) for problem in self.problems)


class PipelineError(HeadwaterError):
    """A check found an error: the pipeline, script or test file is invalid, or does not match its checkpoint."""

    exit_code = 3


class CheckpointError(HeadwaterError):
    """A checkpoint is locked or could not be read, or the run directory belongs to another pipeline."""

    exit_code = 4


class CheckpointLockedError(CheckpointError):
    """Another run has locked the checkpoint."""


class SetupError(HeadwaterError):
    """Java, Spark, Python or the machine does not meet the requirements."""

    exit_code = 5


class QueryFailedError(HeadwaterError):
    """A query failed, was interrupted because its batch took too long to stop, or a test failed."""

    exit_code = 1


class ForcedStopError(HeadwaterError):
    """A second interrupt forced the run to exit; the current batch may not be committed."""

    exit_code = 130
