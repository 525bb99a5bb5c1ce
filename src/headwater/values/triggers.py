"""When a query starts its next batch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Annotated, Any, TypeAlias

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from headwater.values.durations import Duration
from headwater.values.words import nearest

_ACCEPTED = (
    'write "every 10 seconds", "available now", "once", "continuous 1 second" or "real time 5 minutes"'
)


@dataclass(frozen=True)
class Every:
    """A batch at a fixed pace, aligned to the interval."""

    interval: Duration

    def __str__(self) -> str:
        return f"every {self.interval}"


@dataclass(frozen=True)
class Once:
    """One batch over everything that is there, then the end."""

    def __str__(self) -> str:
        return "once"


@dataclass(frozen=True)
class AvailableNow:
    """As many batches as what is there now needs, then the end."""

    def __str__(self) -> str:
        return "available now"


@dataclass(frozen=True)
class Unpaced:
    """No trigger was given: the next batch starts as soon as the last one ends."""

    def __str__(self) -> str:
        return "unpaced"


@dataclass(frozen=True)
class Continuous:
    """No batches: rows go through one by one, and what was read is noted at this interval."""

    interval: Duration

    def __str__(self) -> str:
        return f"continuous {self.interval}"


@dataclass(frozen=True)
class RealTime:
    """Batches as long as the interval, out of which each row comes at once."""

    interval: Duration

    def __str__(self) -> str:
        return f"real time {self.interval}"


Trigger: TypeAlias = Every | Once | AvailableNow | Continuous | RealTime | Unpaced

_PACED: dict[str, type[Every | Continuous | RealTime]] = {
    "every": Every,
    "continuous": Continuous,
    "real time": RealTime,
}
_USUAL = {"every": "10 seconds", "continuous": "1 second", "real time": "5 minutes"}


def parse_trigger(text: str) -> Trigger:
    """Read a written trigger; ValueError says what is accepted."""
    words = " ".join(text.lower().split())
    if words == "once":
        return Once()
    if words == "available now":
        return AvailableNow()
    for name, kind in _PACED.items():
        if words == name or words.startswith(f"{name} "):
            return kind(_interval(name, words.removeprefix(name).strip()))
    raise ValueError(f'"{text}" is not a trigger: {_hint(text)}')


def _interval(name: str, text: str) -> Duration:
    if not text:
        raise ValueError(f'"{name}" needs an interval: write "{name} {_USUAL[name]}".')
    return Duration.parse(text)


def _hint(text: str) -> str:
    try:
        return f'did you mean "every {Duration.parse(text)}"?'
    except ValueError:
        pass
    plain = text.strip().replace("_", " ").replace("-", " ")
    # The interval begins at the first figure.
    name = "".join(takewhile(lambda letter: not letter.isdigit(), plain)).strip()
    paced = nearest(name, list(_PACED)) if name != plain else None
    if paced:
        return f'did you mean "{paced} {plain[len(name) :].strip()}"?'
    close = nearest(plain, ["once", "available now"])
    return f'did you mean "{close}"?' if close else f"{_ACCEPTED}."


class _TriggerSchema:
    """How pydantic reads and writes a trigger; no trigger is null."""

    @staticmethod
    def validate(value: object) -> Trigger:
        if value is None:
            return Unpaced()
        if isinstance(value, str):
            return parse_trigger(value)
        if isinstance(value, Every | Once | AvailableNow | Continuous | RealTime | Unpaced):
            return value
        raise ValueError(f"a trigger is text: {_ACCEPTED}.")

    @staticmethod
    def serialize(value: Trigger) -> str | None:
        return None if isinstance(value, Unpaced) else str(value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.validate,
            serialization=core_schema.plain_serializer_function_ser_schema(cls.serialize),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {
            "type": "string",
            "examples": [
                "every 10 seconds",
                "available now",
                "once",
                "continuous 1 second",
                "real time 5 minutes",
            ],
        }


TriggerField = Annotated[Trigger, _TriggerSchema]


# When a static source looks for changed files.

_ACCEPTED_REFRESH = 'write "never", "every batch" or "every 10 minutes"'


@dataclass(frozen=True)
class Never:
    """The files that are there when the run starts count for the whole run."""

    def __str__(self) -> str:
        return "never"


@dataclass(frozen=True)
class EveryBatch:
    """Each batch looks anew."""

    def __str__(self) -> str:
        return "every batch"


Refresh: TypeAlias = Never | EveryBatch | Every


def parse_refresh(text: str) -> Refresh:
    """Read a written refresh; ValueError says what is accepted."""
    words = text.lower().split()
    if words == ["never"]:
        return Never()
    if words == ["every", "batch"]:
        return EveryBatch()
    if words[:1] == ["every"] and len(words) > 1:
        return _every(Duration.parse(" ".join(words[1:])), text)
    raise ValueError(f'"{text}" says no time to refresh: {_refresh_hint(text)}')


def _every(interval: Duration, text: str) -> Every:
    if not interval.milliseconds:
        raise ValueError(f'"{text}" is no interval: write "every batch".')
    return Every(interval)


def _refresh_hint(text: str) -> str:
    try:
        return f'did you mean "every {Duration.parse(text)}"?'
    except ValueError:
        close = nearest(text.replace("_", " ").replace("-", " "), ["never", "every batch"])
        return f'did you mean "{close}"?' if close else f"{_ACCEPTED_REFRESH}."


class _RefreshSchema:
    """How pydantic reads and writes a refresh."""

    @staticmethod
    def validate(value: object) -> Refresh:
        if isinstance(value, str):
            return parse_refresh(value)
        if isinstance(value, Never | EveryBatch | Every):
            return value
        raise ValueError(f"a refresh is text: {_ACCEPTED_REFRESH}.")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.validate, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "examples": ["never", "every batch", "every 10 minutes"]}


RefreshField = Annotated[Refresh, _RefreshSchema]


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
