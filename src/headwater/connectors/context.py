"""What the engine hands to a connector's `spark` module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headwater.errors import Place
from headwater.spec import FunctionRef
from headwater.values import BadRows


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
    at: Callable[..., Place | None]
    """The place of the value of a key, such as `at("path")`; for errors."""
    batch: bool
    """Whether everything is read and written as finished data (`run --batch`)."""
    bad_rows: BadRows = BadRows.FAIL
    """What becomes of the rows of a source that can't be read."""
    starts: bool = False
    """A run is about to start, so that a folder in the run folder may be made; else nothing may."""
    ends_when_idle: bool = False
    """The run ends when nothing is left to read, so that no row may be held back for later ones."""
    goes_on: bool = False
    """Every query that reads the source goes on from its checkpoint: keys that count at a first start only
    count no more. It is told to sources that have such keys."""
    metadata: bool = False
    """Some table names `_metadata`: rows of files come with one more column, which holds it."""


class Unreadable(Exception):
    """A static source can't be read now; the message says why, without a full stop."""


class StaticRows(Protocol):
    """What a run keeps of a static source besides its DataFrame."""

    def start(self) -> None:
        """The run starts: take in what is there now; Unreadable where that can't be."""

    def again(self, query: str) -> None:
        """A batch of the query with this id failed over a file that is gone, and will run again."""

    def outdated(self, query: str) -> bool:
        """Whether what the last batch of this query read was changed under it."""

    def news(self) -> str | None:
        """What was changed under the run and is read as it is now; told once."""

    def trouble(self, query: str) -> str | None:
        """Why the source could not be read for a batch of this query; None where it was not the reason."""

    def close(self) -> None:
        """The run is over."""
