"""Which inputs of a query hold its watermark back, because they bring no rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headwater.errors import Problem
from headwater.errors.catalogue.running import INPUT_IDLE

_BEGINNING = datetime.fromtimestamp(0, UTC)
"""Where Spark's watermark stands as long as there is none."""


@dataclass(frozen=True)
class QueryInputs:
    """What a query reads, in the user's names."""

    sources: tuple[str, ...] = ()
    """The name of each of Spark's sources, in the order in which its progress has them.

    Where Spark makes two sources of one that is read twice, its name stands here twice.
    """
    watermarks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Spark's id of each watermark of the query, and the sources whose rows pass it."""

    def rows_in(self, progress: Mapping[str, Any]) -> dict[str, int]:
        """The rows that each source brought to a batch, by name; without those that brought none.

        They are counted as Spark does: a query that reads a source twice counts its rows twice.
        """
        found: dict[str, int] = {}
        for name, source in zip(self.sources, progress["sources"], strict=False):
            rows = int(source.get("numInputRows") or 0)
            if rows > 0:
                found[name] = found.get(name, 0) + rows
        return found


@dataclass(frozen=True)
class InputMark:
    """One watermark of a query, and how far it has come by itself."""

    sources: tuple[str, ...]
    """The sources whose rows pass it: one, or several where it stands above a union."""
    reached: datetime | None
    """The newest time that passed it less its delay; None if no row has come since the query started."""


@dataclass(frozen=True)
class Idle:
    """An input for which the watermark of its query waits."""

    sources: tuple[str, ...]
    since: int | None
    """The newest batch to which it brought rows; None if there is none since the query started."""
    watermark: datetime | None
    """Where the watermark stays; None if there is none yet."""

    def problem(self, query: str) -> Problem:
        """What the user is told of it."""
        stays = f"the watermark stays at {_shown(self.watermark)}"
        return INPUT_IDLE.at(
            None,
            query=query,
            sources=" or ".join(self.sources),
            brought="it has brought" if len(self.sources) == 1 else "they have brought",
            since="the query started" if self.since is None else f"batch {self.since}",
            watermark=stays if self.watermark else "there is no watermark yet",
        )

    def to_json(self, query: str) -> dict[str, Any]:
        return {
            "sources": list(self.sources),
            "since_batch": self.since,
            "watermark": _shown(self.watermark),
            "sentence": self.problem(query).sentence,
        }


def idle_inputs(
    brought: Mapping[str, int], marks: Sequence[InputMark], watermark: datetime | None
) -> tuple[Idle, ...]:
    """The inputs that hold the watermark back by their silence.

    `brought` has the newest batch to which each source brought rows, `marks` every watermark of the query,
    `watermark` is the one that its next batch will use; all of it since the query was started, because Spark
    forgets at a restart how far each input had come.

    An input is idle when

    - some other input is ahead of the watermark, so that something waits,
    - it is not ahead itself, so that it is what the others wait for,
    - some other input has brought rows since it did, so that it is silent and not only slow.

    A batch whose rows are no newer than what was there leaves the watermark where it is, and nobody idle.
    With the policy `fastest` no input is ever ahead of the watermark, so nobody is.
    """
    behind = [mark for mark in marks if not _is_ahead(mark, watermark)]
    if len(behind) == len(marks):
        return ()
    newest = _newest(brought, (name for mark in marks for name in mark.sources))
    if newest is None:
        return ()
    found = [Idle(mark.sources, _newest(brought, mark.sources), watermark) for mark in behind]
    return tuple(dict.fromkeys(idle for idle in found if idle.since is None or idle.since < newest))


def idle_sources(
    brought: Mapping[str, int], marks: Sequence[InputMark], watermark: datetime | None
) -> tuple[str, ...]:
    """The names of the sources of all idle inputs, each once."""
    found = idle_inputs(brought, marks, watermark)
    return tuple(dict.fromkeys(name for idle in found for name in idle.sources))


def _shown(moment: datetime | None) -> str | None:
    """A time as Spark's progress has it, to the second where it has no parts of one."""
    if moment is None:
        return None
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds" if moment.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def _is_ahead(mark: InputMark, watermark: datetime | None) -> bool:
    return mark.reached is not None and mark.reached > (watermark or _BEGINNING)


def _newest(brought: Mapping[str, int], sources: Iterable[str]) -> int | None:
    return max((brought[name] for name in sources if name in brought), default=None)
