"""What is to be done between batches, beside the queries: tasks, and when a run calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from headwater.errors import HeadwaterError, Problem


@dataclass(frozen=True)
class Moment:
    """When a task is called."""

    committed: frozenset[str]
    """Queries that may have committed a batch since the last call; all at the first call and the last."""
    last: bool = False
    """Every query has ended, and the locks are given back after this call."""
    sound: bool = True
    """No query has failed, and nobody wants to wait no longer: there is time for what is not urgent."""
    progress: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    """What Spark said of each batch that was committed since the last call, by query."""


@dataclass(frozen=True)
class Reader:
    """A query: where its checkpoint is, and the path of each of its sources."""

    query: str
    checkpoint: Path
    places: tuple[str, ...]
    """As Spark's plan has them, in its order: patterns, with a backslash before what is none; empty for a
    source that reads no files."""
    sources: tuple[str, ...] = ()
    """The names of its sources, in the same order."""
    most_partitions: int | None = None
    """Of the source that is looked after: a query that keeps a core for each has no cores for more; None
    for one that takes any number."""


class Ended(HeadwaterError):
    """Queries that must not go on, each with the reason."""

    def __init__(self, queries: Mapping[str, Problem]) -> None:
        super().__init__(*queries.values())
        self.queries = queries


class Task(Protocol):
    """Something to do between batches; it is called at every look and does nothing when nothing is due.

    It runs in the run's own thread while queries may be in a batch, must not take long, and has to be right
    after a kill at any point of it. What goes wrong is raised as an error of the catalogue: it is said, the
    run goes on, and the next committed batch tries again. `Ended` stops the queries that it names.
    """

    def __call__(self, moment: Moment) -> None: ...


class SourceTask(Task, Protocol):
    """A task that looks after what a source reads, and has a word before each query starts."""

    def begin(self, query: str, backup: Path) -> list[Problem]:
        """What is to be said before a query starts; its checkpoint may be changed, with a copy in `backup`.

        CheckpointError where it must not start.
        """

    def close(self) -> None:
        """The run could not start, and the task is called no more; else its last call is the end."""


class Admission(Task, Protocol):
    """The task of a source that opens new input before a batch takes it."""

    def start(
        self,
        say: Callable[[str], None],
        go_on: Callable[[], None],
        counted: Callable[[int, int], None],
    ) -> None:
        """Take in all that is there now; called before the queries start.

        What is waited for is said; while it waits it calls `go_on`, which may raise to end the start.
        `counted` hears how many of how many are taken in.
        """

    def catch_up(self) -> int | None:
        """Look now: how often something new was found so far, None where something is not decided yet."""

    def hindrance(self) -> Problem | None:
        """What has kept it from taking in all that is there, for longer than the end of a run may wait."""
