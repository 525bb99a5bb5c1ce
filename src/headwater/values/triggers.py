"""When a query starts its next batch, when a static source looks again, and what becomes of bad rows."""

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
    'write "every 10 seconds", "available now", "once", "continuous 1 second" or "real time 5 minutes"'
)


@dataclass(frozen=True)
class _Word:
    """What is written as one word or two."""

    word: ClassVar[str]

    def __str__(self) -> str:
        return self.word


@dataclass(frozen=True)
class _Paced(_Word):
    """What is written as a word and an interval."""

    interval: Duration

    def __str__(self) -> str:
        return f"{self.word} {self.interval}"


class Every(_Paced):
    """A batch at a fixed pace, aligned to the interval."""

    word = "every"


class Once(_Word):
    """One batch over everything that is there, then the end."""

    word = "once"


class AvailableNow(_Word):
    """As many batches as what is there now needs, then the end."""

    word = "available now"


class Unpaced(_Word):
    """No trigger was given: the next batch starts as soon as the last one ends."""

    word = "unpaced"


class Continuous(_Paced):
    """No batches: rows go through one by one, and what was read is noted at this interval."""

    word = "continuous"


class RealTime(_Paced):
    """Batches as long as the interval, out of which each row comes at once."""

    word = "real time"


Trigger: TypeAlias = Every | Once | AvailableNow | Continuous | RealTime | Unpaced

_PACED = {kind.word: kind for kind in (Every, Continuous, RealTime)}


def parse_trigger(text: str) -> Trigger:
    """Read a written trigger; ValueError says what is accepted."""
    words = " ".join(text.lower().split())
    if words == Once.word:
        return Once()
    if words == AvailableNow.word:
        return AvailableNow()
    for name, kind in _PACED.items():
        if words == name:
            usual = next(each for each in _TRIGGERS if each.startswith(name))
            raise ValueError(f'"{name}" needs an interval: write "{usual}".')
        if words.startswith(f"{name} "):
            return kind(Duration.parse(words.removeprefix(name).strip()))
    raise ValueError(f'"{text}" is not a trigger: {_hint(text, _likely_trigger, _ACCEPTED)}')


def _likely_trigger(text: str) -> str | None:
    # The interval begins at the first figure.
    name = "".join(takewhile(lambda letter: not letter.isdigit(), text)).strip()
    paced = nearest(name, _PACED) if name != text else None
    return f"{paced} {text[len(name) :].strip()}" if paced else nearest(text, ["once", "available now"])


def _hint(text: str, likely: Callable[[str], str | None], accepted: str) -> str:
    try:
        meant: str | None = f"every {Duration.parse(text)}"
    except ValueError:
        meant = likely(text.strip().replace("_", " ").replace("-", " "))
    return f'did you mean "{meant}"?' if meant else f"{accepted}."


def _trigger(value: object) -> Trigger:
    if isinstance(value, str):
        return parse_trigger(value)
    if isinstance(value, Trigger):
        return value
    raise ValueError(f"a trigger is text: {_ACCEPTED}.")


TriggerField = Annotated[
    Trigger,
    PlainValidator(lambda value: Unpaced() if value is None else _trigger(value)),
    PlainSerializer(lambda value: None if isinstance(value, Unpaced) else str(value)),
    WithJsonSchema({"type": "string", "examples": list(_TRIGGERS)}),
]


# When a static source looks for changed files.

_ACCEPTED_REFRESH = 'write "never", "every batch" or "every 10 minutes"'


class Never(_Word):
    """The files that are there when the run starts count for the whole run."""

    word = "never"


class EveryBatch(_Word):
    """Each batch looks anew."""

    word = "every batch"


Refresh: TypeAlias = Never | EveryBatch | Every


def parse_refresh(text: str) -> Refresh:
    """Read a written refresh; ValueError says what is accepted."""
    words = " ".join(text.lower().split())
    if words == Never.word:
        return Never()
    if words == EveryBatch.word:
        return EveryBatch()
    if words.startswith("every "):
        interval = Duration.parse(words.removeprefix("every "))
        if not interval.milliseconds:
            raise ValueError(f'"{text}" is no interval: write "every batch".')
        return Every(interval)
    hint = _hint(text, lambda plain: nearest(plain, ["never", "every batch"]), _ACCEPTED_REFRESH)
    raise ValueError(f'"{text}" says no time to refresh: {hint}')


def _refresh(value: object) -> Refresh:
    if isinstance(value, str):
        return parse_refresh(value)
    if isinstance(value, Refresh):
        return value
    raise ValueError(f"a refresh is text: {_ACCEPTED_REFRESH}.")


RefreshField = Annotated[
    Refresh,
    PlainValidator(_refresh),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": [Never.word, EveryBatch.word, "every 10 minutes"]}),
]


# What becomes of rows that can't be read, and of rows that fail an expectation.


class BadRows(StrEnum):
    """What a source does with a row that can't be read."""

    FAIL = "fail"
    DROP = "drop"
    KEEP = "keep"
    QUARANTINE = "quarantine"


class Otherwise(StrEnum):
    """What a table does with a row that fails an expectation."""

    WARN = "warn"
    DROP = "drop"
    FAIL = "fail"
    QUARANTINE = "quarantine"
