"""Idle inputs: sources without new rows that block the watermark of a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headwater.errors import Problem
from headwater.errors.catalogue.running import INPUT_IDLE
from headwater.values import quoted

_BEGINNING = datetime.fromtimestamp(0, UTC)
"""The value of Spark's watermark before there is one."""


@dataclass(frozen=True)
class QueryInputs:
    """What a query reads, by the names in the pipeline."""

    sources: tuple[str, ...] = ()
    """The name of each Spark source, in the order of Spark's progress.

    If Spark creates two sources for one that is read twice, its name appears twice.
    """
    watermarks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Spark's ID of each watermark of the query, and the sources whose rows pass it."""

    def rows_in(self, progress: Mapping[str, Any]) -> dict[str, int]:
        """The rows that each source delivered to a batch, by name; without sources that delivered none.

        Rows are counted as Spark does: if a query reads a source twice, its rows count twice.
        """
        found: dict[str, int] = {}
        for name, source in zip(self.sources, progress["sources"], strict=False):
            rows = int(source.get("numInputRows") or 0)
            if rows > 0:
                found[name] = found.get(name, 0) + rows
        return found


@dataclass(frozen=True)
class InputMark:
    """One watermark of a query, and how far it would have advanced alone."""

    sources: tuple[str, ...]
    """The sources whose rows pass it: one, or several if it is above a union."""
    reached: datetime | None
    """The newest time that passed it, minus its delay; None without rows since the query started."""


@dataclass(frozen=True)
class Idle:
    """An input that blocks the watermark of its query."""

    sources: tuple[str, ...]
    since: int | None
    """The newest batch in which it delivered rows; None if there is none since the query started."""
    watermark: datetime | None
    """The current watermark; None if there is none yet."""

    def problem(self, query: str) -> Problem:
        """The notice to the user."""
        names, many = quoted(self.sources, last=" and "), len(self.sources) > 1
        return INPUT_IDLE.at(
            None,
            query=query,
            inputs=f"inputs {names} block" if many else f"input {names} blocks",
            since="the query started" if self.since is None else f"batch {self.since}",
            watermark=f"watermark at {_shown(self.watermark)}" if self.watermark else "no watermark yet",
        )

    def to_json(self, query: str) -> dict[str, Any]:
        return {
            "sources": list(self.sources),
            "since_batch": self.since,
            "watermark": _shown(self.watermark),
            "message": self.problem(query).message,
        }


def idle_inputs(
    delivered: Mapping[str, int], marks: Sequence[InputMark], watermark: datetime | None
) -> tuple[Idle, ...]:
    """The idle inputs that block the watermark.

    `delivered` has the newest batch in which each source delivered rows. `marks` are all watermarks of the
    query, and `watermark` is the one that its next batch will use. All values date from the start of the
    query, because Spark does not remember the progress of each input across a restart.

    An input is idle if

    - some other input is ahead of the watermark, so that something is blocked,
    - it is not ahead itself, so that it is the one that blocks,
    - some other input has delivered rows since it did, so that it is idle and not just slow.

    A batch whose rows are not newer than before leaves the watermark unchanged, and no input idle. With the
    policy `fastest`, no input is ever ahead of the watermark, so none is idle.
    """
    behind = [mark for mark in marks if not _is_ahead(mark, watermark)]
    if len(behind) == len(marks):
        return ()
    newest = _newest(delivered, (name for mark in marks for name in mark.sources))
    if newest is None:
        return ()
    found = [Idle(mark.sources, _newest(delivered, mark.sources), watermark) for mark in behind]
    return tuple(dict.fromkeys(idle for idle in found if idle.since is None or idle.since < newest))


def held_back_by(marks: Sequence[InputMark], watermark: datetime | None) -> tuple[str, ...]:
    """The sources that hold back the watermark, idle or not, while others are ahead of it; none if no other is."""
    behind = [mark for mark in marks if not _is_ahead(mark, watermark)]
    if len(behind) == len(marks):
        return ()
    return tuple(dict.fromkeys(name for mark in behind for name in mark.sources))


def idle_sources(
    delivered: Mapping[str, int], marks: Sequence[InputMark], watermark: datetime | None
) -> tuple[str, ...]:
    """The names of the sources of all idle inputs, each once."""
    found = idle_inputs(delivered, marks, watermark)
    return tuple(dict.fromkeys(name for idle in found for name in idle.sources))


def _shown(moment: datetime | None) -> str | None:
    """A time as in Spark's progress, to the second if it has no fraction."""
    if moment is None:
        return None
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds" if moment.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def _is_ahead(mark: InputMark, watermark: datetime | None) -> bool:
    return mark.reached is not None and mark.reached > (watermark or _BEGINNING)


def _newest(delivered: Mapping[str, int], sources: Iterable[str]) -> int | None:
    return max((delivered[name] for name in sources if name in delivered), default=None)
