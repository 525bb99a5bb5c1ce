"""Which lines are the user's own: those of the project, not of an environment inside its folder."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from headwater.values.positions import Position


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
