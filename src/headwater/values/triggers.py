"""When a query starts its next batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from headwater.values.durations import Duration
from headwater.values.nearest import nearest

_ACCEPTED = 'write "every 10 seconds", "once" or "available now"'


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


Trigger: TypeAlias = Every | Once | AvailableNow | Unpaced


def parse_trigger(text: str) -> Trigger:
    """Read a written trigger; ValueError says what is accepted."""
    words = text.lower().split()
    if words == ["once"]:
        return Once()
    if words == ["available", "now"]:
        return AvailableNow()
    if words[:1] == ["every"]:
        return Every(_interval(" ".join(words[1:])))
    raise ValueError(f'"{text}" is not a trigger: {_hint(text)}')


def _interval(text: str) -> Duration:
    if not text:
        raise ValueError('"every" needs an interval: write "every 10 seconds".')
    return Duration.parse(text)


def _hint(text: str) -> str:
    try:
        return f'did you mean "every {Duration.parse(text)}"?'
    except ValueError:
        pass
    first, _, rest = text.strip().partition(" ")
    if rest and nearest(first, ["every"]):
        return f'did you mean "every {rest.strip()}"?'
    close = nearest(text.replace("_", " ").replace("-", " "), ["once", "available now"])
    return f'did you mean "{close}"?' if close else f"{_ACCEPTED}."


class _TriggerSchema:
    """How pydantic reads and writes a trigger; no trigger is null."""

    @staticmethod
    def validate(value: object) -> Trigger:
        if value is None:
            return Unpaced()
        if isinstance(value, str):
            return parse_trigger(value)
        if isinstance(value, Every | Once | AvailableNow | Unpaced):
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
        return {"type": "string", "examples": ["every 10 seconds", "once", "available now"]}


TriggerField = Annotated[Trigger, _TriggerSchema]
