"""Triggers of queries, refresh intervals of static sources, and actions for bad rows and violations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Annotated, ClassVar, TypeAlias

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from headwater.values.durations import Duration
from headwater.values.words import nearest

_TRIGGERS = ("every 10 seconds", "available now", "once", "continuous 1 second", "real time 5 minutes")
_ACCEPTED = (
    "write `every 10 seconds`, `available now`, `once`, `continuous 1 second` or `real time 5 minutes`"
)


@dataclass(frozen=True)
class _Word:
    """A value that is written as words only."""

    word: ClassVar[str]

    def __str__(self) -> str:
        return self.word


@dataclass(frozen=True)
class _Paced(_Word):
    """A value that is written as words and an interval."""

    interval: Duration

    def __str__(self) -> str:
        return f"{self.word} {self.interval}"


class Every(_Paced):
    """Starts a batch at a fixed interval."""

    word = "every"


class Once(_Word):
    """Processes all available data in one batch, then stops."""

    word = "once"


class AvailableNow(_Word):
    """Processes all available data in as many batches as needed, then stops."""

    word = "available now"


class Unpaced(_Word):
    """The default: the next batch starts as soon as the previous one completes."""

    word = "default"


class Continuous(_Paced):
    """Processes rows continuously, without batches, and checkpoints progress at this interval."""

    word = "continuous"


class RealTime(_Paced):
    """Runs long batches of this interval, and emits each row immediately."""

    word = "real time"


Trigger: TypeAlias = Every | Once | AvailableNow | Continuous | RealTime | Unpaced

_PACED = {kind.word: kind for kind in (Every, Continuous, RealTime)}


def parse_trigger(text: str) -> Trigger:
    """Parse a trigger; raises ValueError with the accepted forms."""
    words = " ".join(text.lower().split())
    if words == Once.word:
        return Once()
    if words == AvailableNow.word:
        return AvailableNow()
    for name, kind in _PACED.items():
        if words == name:
            usual = next(each for each in _TRIGGERS if each.startswith(name))
            raise ValueError(f"`{name}` needs an interval; write `{usual}`.")
        if words.startswith(f"{name} "):
            return kind(Duration.parse(words.removeprefix(name).strip()))
    raise ValueError(f"`{text}` is not a trigger; {_hint(text, _likely_trigger, _ACCEPTED)}")


def _likely_trigger(text: str) -> str | None:
    # The interval starts at the first digit.
    name = "".join(takewhile(lambda letter: not letter.isdigit(), text)).strip()
    paced = nearest(name, _PACED) if name != text else None
    return f"{paced} {text[len(name) :].strip()}" if paced else nearest(text, ["once", "available now"])


def _hint(text: str, likely: Callable[[str], str | None], accepted: str) -> str:
    try:
        meant: str | None = f"every {Duration.parse(text)}"
    except ValueError:
        meant = likely(text.strip().replace("_", " ").replace("-", " "))
    return f"did you mean `{meant}`?" if meant else f"{accepted}."


def _trigger(value: object) -> Trigger:
    if isinstance(value, str):
        return parse_trigger(value)
    if isinstance(value, Trigger):
        return value
    raise ValueError(f"expected a string; {_ACCEPTED}.")


TriggerField = Annotated[
    Trigger,
    PlainValidator(lambda value: Unpaced() if value is None else _trigger(value)),
    PlainSerializer(lambda value: None if isinstance(value, Unpaced) else str(value)),
    WithJsonSchema({"type": "string", "examples": list(_TRIGGERS)}),
]


# When a static source checks for changed files.

_ACCEPTED_REFRESH = "write `never`, `every batch` or `every 10 minutes`"


class Never(_Word):
    """The run uses the files that exist at its start."""

    word = "never"


class EveryBatch(_Word):
    """Each batch checks for changed files."""

    word = "every batch"


Refresh: TypeAlias = Never | EveryBatch | Every


def parse_refresh(text: str) -> Refresh:
    """Parse a refresh interval; raises ValueError with the accepted forms."""
    words = " ".join(text.lower().split())
    if words == Never.word:
        return Never()
    if words == EveryBatch.word:
        return EveryBatch()
    if words.startswith("every "):
        interval = Duration.parse(words.removeprefix("every "))
        if not interval.milliseconds:
            raise ValueError(f"`{text}` is not a valid interval; write `every batch`.")
        return Every(interval)
    hint = _hint(text, lambda plain: nearest(plain, ["never", "every batch"]), _ACCEPTED_REFRESH)
    raise ValueError(f"`{text}` is not a refresh interval; {hint}")


def _refresh(value: object) -> Refresh:
    if isinstance(value, str):
        return parse_refresh(value)
    if isinstance(value, Refresh):
        return value
    raise ValueError(f"expected a string; {_ACCEPTED_REFRESH}.")


RefreshField = Annotated[
    Refresh,
    PlainValidator(_refresh),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": [Never.word, EveryBatch.word, "every 10 minutes"]}),
]


# What happens to bad rows, and to rows that violate an expectation.


class BadRows(StrEnum):
    """What a source does with a bad row."""

    FAIL = "fail"
    DROP = "drop"
    KEEP = "keep"
    QUARANTINE = "quarantine"


class OnViolation(StrEnum):
    """What a table does with a row that violates an expectation."""

    WARN = "warn"
    DROP = "drop"
    FAIL = "fail"
    QUARANTINE = "quarantine"
