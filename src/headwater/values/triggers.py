"""When a query starts its next batch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Any, TypeAlias

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from headwater.values.durations import Duration
from headwater.values.nearest import nearest

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
