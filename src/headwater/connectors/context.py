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

    Nothing is written while a pipeline is looked at; `keep` is the way to leave something for a start.
    """

    name: str
    place: Place | None
    root: Path
    """The project root."""
    folder: Path
    """The run folder."""
    load: Callable[[FunctionRef], Callable[..., Any]]
    keep: Callable[[Path, str], None]
    """Leaves a text for the run folder; it is written only if the run really starts."""
