"""What the engine hands to a connector's `spark` module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.errors import Place
from headwater.spec import FunctionRef


@dataclass(frozen=True)
class Context:
    """The declared thing's name and place, the run folder, and the way to the user's functions.

    `keep` is true for a real start: only then may anything be written into the run folder.
    """

    name: str
    place: Place | None
    root: Path
    """The project root."""
    folder: Path
    """The run folder."""
    load: Callable[[FunctionRef], Callable[..., Any]]
    keep: bool = False
