"""Positions in user code: lines of the project, not of an environment inside its directory."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType, TracebackType

# The position of a declaration: a file, a line, a column.


@dataclass(frozen=True, order=True)
class Position:
    """A position in a user's file; lines and columns start at 1."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class TextPosition:
    """The start of a longer text (SQL), and whether its lines match the lines of the file.

    In a YAML block scalar (`|`), line n of the text is a line of the file, shifted by the indentation. In any
    other YAML form, only the position of the first line is known (`exact`), in Python only that of the call.
    """

    start: Position
    follows_lines: bool = False
    exact: bool = True

    def at(self, line: int, column: int = 1) -> Position:
        """The position in the file of a line and column (from 1) of the text."""
        if not self.exact or (line > 1 and not self.follows_lines):
            return self.start
        return Position(self.start.file, self.start.line + line - 1, self.start.column + column - 1)


PACKAGE_PREFIX = "hw_"
"""The prefix of the packages under which the modules of a project are sent to the executors."""


_INSTALLED = {"site-packages", "dist-packages"}


def user_line(trace: TracebackType | None, root: Path) -> Position | None:
    """The deepest line of a traceback in the user's project."""
    files = [(frame.f_code.co_filename, line) for frame, line in walk_tb(trace)]
    return next((Position(file, line) for file, line in reversed(files) if is_users(file, root)), None)


def is_users(file: str, root: Path) -> bool:
    """Whether a file belongs to the project and not to an environment inside its directory."""
    return Path(file).is_relative_to(root) and not _INSTALLED & set(Path(file).parts)


# User code in a running program: not an installed package, the standard library or Spark.

# With the separator, so that a neighbor such as `headwater_jobs` does not match.
_HEADWATER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def caller() -> Position:
    """The nearest line outside Headwater."""
    frames = [frame for frame, _ in walk_stack(sys._getframe(1))]
    frame = next((each for each in frames if not _path(each).startswith(_HEADWATER)), frames[-1])
    file = frame.f_code.co_filename
    return Position(os.path.abspath(file) if os.path.exists(file) else file, frame.f_lineno)


def own_place(frame: FrameType | None) -> Position | None:
    """The innermost line of user code on a stack."""
    return next(own_places(frame), None)


def own_places(frame: FrameType | None) -> Iterator[Position]:
    """The lines of user code on a stack, innermost first."""
    for each, line in walk_stack(frame) if frame else ():
        if is_own_code(each.f_code.co_filename):
            yield Position(_path(each), line)


def raising_place(trace: TracebackType | None) -> Position | None:
    """The deepest line of user code in a traceback."""
    steps = reversed(list(walk_tb(trace)))
    return next((Position(_path(f), line) for f, line in steps if is_own_code(f.f_code.co_filename)), None)


def fails_in_headwater(trace: TracebackType | None) -> bool:
    """Whether the deepest line of a traceback is in Headwater, which means a bug in Headwater."""
    steps = list(walk_tb(trace))
    return bool(steps) and _path(steps[-1][0]).startswith(_HEADWATER)


def is_own_code(file: str) -> bool:
    """Whether a file is user code."""
    path = os.path.abspath(file)
    if file.startswith("<") or _INSTALLED & set(path.split(os.sep)):
        return False
    return not path.startswith((_HEADWATER, _standard_library(), *_spark_folders()))


def spark_asks(frame: FrameType | None) -> bool:
    """Whether PySpark or Headwater called the standard library here."""
    for each, _ in walk_stack(frame) if frame else ():
        path = _path(each)
        if path.startswith((_HEADWATER, *_spark_folders())):
            return True
        installed = _INSTALLED & set(path.split(os.sep))
        if not each.f_code.co_filename.startswith("<") and (
            installed or not path.startswith(_standard_library())
        ):
            return False
    return False


def _path(frame: FrameType) -> str:
    return os.path.abspath(frame.f_code.co_filename)


@cache
def _standard_library() -> str:
    return os.path.join(os.path.abspath(sysconfig.get_path("stdlib")), "")


def _spark_folders() -> Iterator[str]:
    """The directories of PySpark and Py4J, which a Spark distribution has outside any environment."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in ("pyspark", "py4j"))
    return (os.path.join(os.path.dirname(os.path.abspath(file)), "") for file in files if file)
