"""What every rule of health has in common: the query it watches, its thresholds and what it measures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from headwater.errors import Entry
from headwater.events import Event, QueryDetails
from headwater.spec.alerts import AlertKeys
from headwater.values import Duration

Limits = TypeVar("Limits", bound=AlertKeys)


class DiskUsage(Protocol):
    """The size of a disk, as `shutil.disk_usage` returns it."""

    @property
    def total(self) -> int: ...

    @property
    def free(self) -> int: ...


@dataclass(frozen=True)
class Watched:
    """A query, as its rules see it."""

    name: str
    details: QueryDetails
    disk: Callable[[str], DiskUsage]

    @property
    def is_bounded(self) -> bool:
        """Whether it only catches up and then ends."""
        return self.details.trigger in ("available now", "once")

    def source(self, number: int, report: Mapping[str, Any]) -> str:
        """The name of a source of a progress report."""
        names = self.details.sources
        return names[number] if number < len(names) else str(report.get("description") or number)


@dataclass(frozen=True)
class Reading:
    """What a rule measures: the value in relation to each threshold, so that 1 reaches it."""

    entry: Entry
    params: Mapping[str, Any]
    warning: float
    critical: float = 0.0
    subject: str = ""


class Rule(ABC, Generic[Limits]):
    """One rule for one query."""

    name: ClassVar[str]
    lasts: ClassVar[bool] = True
    """Whether its measurements continue after a restart of the query; else they start from scratch."""
    ends_immediately: ClassVar[bool] = False
    """Whether its alert ends without a delay, because it cannot start again soon."""

    def __init__(self, limits: Limits, query: Watched) -> None:
        self.limits = limits
        self.query = query

    @classmethod
    def applies(cls, query: Watched) -> bool:
        """Whether the rule has a meaning for a query with this trigger."""
        return True

    def take(self, event: Event, now: float) -> None:
        """Take in an event of the query."""

    @abstractmethod
    def readings(self, now: float) -> Iterator[Reading]:
        """What the rule measures now; nothing for a subject that is certainly healthy."""


def seconds_of(time: object) -> float | None:
    """A time in Spark's format, in seconds since 1970; None if it is none."""
    try:
        moment = datetime.fromisoformat(str(time))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def lasting(seconds: float) -> str:
    """A period as users read it: in seconds if it is short, else in minutes, hours or days."""
    unit = next((unit for unit in (86_400, 3_600, 60) if seconds >= 2 * unit), 1)
    lower = {86_400: 3_600, 3_600: 60}.get(unit, unit)
    return str(Duration(int(seconds // lower) * lower * 1_000))
