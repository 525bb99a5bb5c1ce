"""Which lines are the user's own: those of the project, not of an environment inside its folder."""

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
        if not self.exact or (line > 1 and not self.follows_lines):
            return self.start
        return Position(self.start.file, self.start.line + line - 1, self.start.column + column - 1)


PACKAGE_PREFIX = "hw_"
"""How the packages begin under whose names a project's modules reach the executors."""


_INSTALLED = {"site-packages", "dist-packages"}


def user_line(trace: TracebackType | None, root: Path) -> Position | None:
    """The deepest line of a traceback that stands in the user's project."""
    files = [(frame.f_code.co_filename, line) for frame, line in walk_tb(trace)]
    return next((Position(file, line) for file, line in reversed(files) if is_users(file, root)), None)


def is_users(file: str, root: Path) -> bool:
    """Whether a file belongs to the project and not to an environment inside its folder."""
    return Path(file).is_relative_to(root) and not _INSTALLED & set(Path(file).parts)


# Which code of a running program is the user's own: no installed package, neither Python's nor Spark's.

# With the separator: a neighbor such as `headwater_jobs` is somebody else's.
_HEADWATER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def caller() -> Position:
    """The nearest line outside Headwater."""
    frames = [frame for frame, _ in walk_stack(sys._getframe(1))]
    frame = next((each for each in frames if not _path(each).startswith(_HEADWATER)), frames[-1])
    file = frame.f_code.co_filename
    return Position(os.path.abspath(file) if os.path.exists(file) else file, frame.f_lineno)


def own_place(frame: FrameType | None) -> Position | None:
    """The innermost line of the user's own that a thread has reached."""
    return next(own_places(frame), None)


def own_places(frame: FrameType | None) -> Iterator[Position]:
    """The lines of the user's own that a thread has reached, the innermost first."""
    for each, line in walk_stack(frame) if frame else ():
        if is_own_code(each.f_code.co_filename):
            yield Position(_path(each), line)


def raising_place(trace: TracebackType | None) -> Position | None:
    """The deepest line of a traceback that is the user's own."""
    steps = reversed(list(walk_tb(trace)))
    return next((Position(_path(f), line) for f, line in steps if is_own_code(f.f_code.co_filename)), None)


def fails_in_headwater(trace: TracebackType | None) -> bool:
    """Whether the deepest line of a traceback is one of Headwater's, which then is to blame."""
    steps = list(walk_tb(trace))
    return bool(steps) and _path(steps[-1][0]).startswith(_HEADWATER)


def is_own_code(file: str) -> bool:
    """Whether a file is of the user's own making."""
    path = os.path.abspath(file)
    if file.startswith("<") or _INSTALLED & set(path.split(os.sep)):
        return False
    return not path.startswith((_HEADWATER, _standard_library(), *_spark_folders()))


def spark_asks(frame: FrameType | None) -> bool:
    """Whether the code that called Python's own is PySpark's or Headwater's."""
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
    """Where Spark's Python half lies: a distribution of Spark has it outside of any environment."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in ("pyspark", "py4j"))
    return (os.path.join(os.path.dirname(os.path.abspath(file)), "") for file in files if file)
