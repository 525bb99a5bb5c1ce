"""Optional abilities of connectors for `headwater prove`, checked with `isinstance` as those in `connector.py`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headwater.connectors.contract import Context, Held, Scratch, Snapshot
from headwater.spec import FunctionRef, SinkOptions, SourceOptions


@runtime_checkable
class HasReadFunction(Protocol):
    """A sink whose rows only the user's code can read back."""

    def read_function(self, options: Any) -> FunctionRef | None:
        """The function from a Spark session to the rows; None if there is none."""


@runtime_checkable
class MakesScratch(Protocol):
    """A sink that can write to a scratch copy of its target, for `headwater prove`."""

    def scratch(self, options: Any, scratch: Scratch) -> SinkOptions:
        """Options that write the same rows there; NoScratch if that is not possible."""

    def discard(self, options: Any, context: Context) -> None:
        """Remove what was written with these options, outside of the directory; no effect if there is nothing."""


@runtime_checkable
class ShowsContents(Protocol):
    """A sink whose store has the rows and the number of the newest batch, both readable without Spark."""

    ledgers: bool
    """Whether `hold` works: the store has a lock that each commit takes."""
    connections: bool
    """Whether the commits use connections to a server."""

    def newest_batch(self, options: Any, context: Context) -> int | None:
        """The newest batch that is committed."""

    def snapshot(self, options: Any, context: Context) -> Snapshot | None:
        """Its rows and batch at one moment; None if they cannot be read now."""

    def hold(self, options: Any, context: Context) -> AbstractContextManager[Held | None]:
        """Let commits wait inside the block; None if that is not possible now. HoldLost if they wait no longer."""


@runtime_checkable
class FreezesInput(Protocol):
    """A source that can read its current data again and again, for `headwater prove`."""

    def frozen(self, options: Any, directory: Path, batches: int) -> SourceOptions:
        """Options that read all current data without an effect on other readers, if possible a copy in the directory.

        Without a limit per batch, they read it in about this number of batches.
        """


@runtime_checkable
class ReadsGivenFiles(Protocol):
    """A source that can read given files, for `headwater prove --input`."""

    def of_files(self, options: Any, paths: tuple[str, ...]) -> SourceOptions:
        """The same options for other files."""
