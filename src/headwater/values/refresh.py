"""When a static source looks for changed files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from headwater.values.durations import Duration
from headwater.values.nearest import nearest
from headwater.values.triggers import Every

_ACCEPTED = 'write "never", "every batch" or "every 10 minutes"'


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
    raise ValueError(f'"{text}" says no time to refresh: {_hint(text)}')


def _every(interval: Duration, text: str) -> Every:
    if not interval.milliseconds:
        raise ValueError(f'"{text}" is no interval: write "every batch".')
    return Every(interval)


def _hint(text: str) -> str:
    try:
        return f'did you mean "every {Duration.parse(text)}"?'
    except ValueError:
        close = nearest(text.replace("_", " ").replace("-", " "), ["never", "every batch"])
        return f'did you mean "{close}"?' if close else f"{_ACCEPTED}."


class _RefreshSchema:
    """How pydantic reads and writes a refresh."""

    @staticmethod
    def validate(value: object) -> Refresh:
        if isinstance(value, str):
            return parse_refresh(value)
        if isinstance(value, Never | EveryBatch | Every):
            return value
        raise ValueError(f"a refresh is text: {_ACCEPTED}.")

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
