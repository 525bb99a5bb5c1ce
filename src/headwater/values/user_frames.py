"""Which lines are the user's own: those of the project, not of an environment inside its folder."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType

# Where something was declared: a file, a line, a column.


@dataclass(frozen=True, order=True)
class Position:
    """A place in a user's file; lines and columns count from 1."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class TextPosition:
    """Where a longer text (SQL) begins, and whether its lines follow the file's lines.

    In a YAML block scalar (`|`) line n of the text is a line of the file, shifted by the indent. In every
    other YAML form only its first line can be told (`exact`), in Python only the call.
    """

    start: Position
    follows_lines: bool = False
    exact: bool = True

    def at(self, line: int, column: int = 1) -> Position:
        """The place in the file of a line and column (from 1) of the text."""
        if not self.exact:
            return self.start
        if not self.follows_lines:
            if line == 1:
                return Position(self.start.file, self.start.line, self.start.column + column - 1)
            return self.start
        return Position(self.start.file, self.start.line + line - 1, self.start.column + column - 1)


PACKAGE_PREFIX = "hw_"
"""How the packages begin under whose names a project's modules reach the executors."""


def user_line(trace: TracebackType | None, root: Path) -> Position | None:
    """The deepest line of a traceback that stands in the user's project."""
    place = None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if is_users(file, root):
            place = Position(file, trace.tb_lineno)
        trace = trace.tb_next
    return place


def is_users(file: str, root: Path) -> bool:
    """Whether a file belongs to the project and not to an environment inside its folder."""
    return Path(file).is_relative_to(root) and not {"site-packages", "dist-packages"} & set(Path(file).parts)


# Which code of a running program is the user's own: no installed package, neither Python's nor Spark's.

_INSTALLED = {"site-packages", "dist-packages"}
# With the separator: a neighbour such as `headwater_jobs` is somebody else's.
_HEADWATER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_SPARK = ("pyspark", "py4j")


def own_place(frame: FrameType | None) -> Position | None:
    """The innermost line of the user's own that a thread has reached."""
    return next(own_places(frame), None)


def own_places(frame: FrameType | None) -> Iterator[Position]:
    """The lines of the user's own that a thread has reached, the innermost first."""
    while frame is not None:
        if is_own_code(frame.f_code.co_filename):
            yield Position(os.path.abspath(frame.f_code.co_filename), frame.f_lineno)
        frame = frame.f_back


def raising_place(trace: TracebackType | None) -> Position | None:
    """The deepest line of a traceback that is the user's own."""
    place = None
    for each in _steps(trace):
        if is_own_code(each.tb_frame.f_code.co_filename):
            place = Position(os.path.abspath(each.tb_frame.f_code.co_filename), each.tb_lineno)
    return place


def fails_in_headwater(trace: TracebackType | None) -> bool:
    """Whether the deepest line of a traceback is one of Headwater's, which then is to blame."""
    *_, deepest = (None, *_steps(trace))
    return deepest is not None and os.path.abspath(deepest.tb_frame.f_code.co_filename).startswith(_HEADWATER)


def is_own_code(file: str) -> bool:
    """Whether a file is of the user's own making."""
    if file.startswith("<"):
        return False
    path = os.path.abspath(file)
    if _INSTALLED & set(path.split(os.sep)):
        return False
    return not path.startswith((_HEADWATER, _standard_library(), *_spark_folders()))


def spark_asks(frame: FrameType | None) -> bool:
    """Whether the code that called Python's own is PySpark's or Headwater's."""
    while frame is not None:
        file = frame.f_code.co_filename
        path = os.path.abspath(file)
        if path.startswith((_HEADWATER, *_spark_folders())):
            return True
        installed = _INSTALLED & set(path.split(os.sep))
        if not file.startswith("<") and (installed or not path.startswith(_standard_library())):
            return False
        frame = frame.f_back
    return False


@cache
def _standard_library() -> str:
    return os.path.join(os.path.abspath(sysconfig.get_path("stdlib")), "")


def _spark_folders() -> Iterator[str]:
    """Where Spark's Python half lies: a distribution of Spark has it outside of any environment."""
    for name in _SPARK:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            yield os.path.join(os.path.dirname(os.path.abspath(file)), "")


def _steps(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next
