"""What is to be done between batches, beside the queries: tasks, and when a run calls them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Moment:
    """When a task is called."""

    committed: frozenset[str]
    """Queries that may have committed a batch since the last call; all at the first call and the last."""
    last: bool = False
    """Every query has ended, and the locks are given back after this call."""
    sound: bool = True
    """No query has failed, and nobody wants to wait no longer: there is time for what is not urgent."""


@dataclass(frozen=True)
class Reader:
    """A query: where its checkpoint is, and the path of each of its sources."""

    query: str
    checkpoint: Path
    places: tuple[str, ...]
    """As Spark's plan has them, in its order: patterns, with a backslash before what is none; empty for a
    source that reads no files."""


class Task(Protocol):
    """Something to do between batches; it is called at every look and does nothing when nothing is due.

    It runs in the run's own thread while queries may be in a batch, must not take long, and has to be right
    after a kill at any point of it. What goes wrong is raised as an error of the catalogue: it is said, the
    run goes on, and the next committed batch tries again.
    """

    def __call__(self, moment: Moment) -> None: ...
