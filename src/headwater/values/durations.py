"""Durations as users write them: `10 minutes`, `60s`, `1 hour 30 minutes`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from headwater.values.words import nearest

_WRITTEN_UNITS = (
    ("day", 86_400_000, "d"),
    ("hour", 3_600_000, "h hr hrs"),
    ("minute", 60_000, "m min mins"),
    ("second", 1_000, "s sec secs"),
    ("millisecond", 1, "ms"),
)
_UNITS = {
    word: length for name, length, short in _WRITTEN_UNITS for word in (name, f"{name}s", *short.split())
} | dict.fromkeys(("w", "week", "weeks"), 604_800_000)
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ]+)\s*")
_ACCEPTED = "write a number and a unit, such as `10 minutes`, `60s`, `500 ms` or `1 hour 30 minutes`"
# Spark counts microseconds in 64 bits.
_LONGEST = 2**63 // 1_000


@dataclass(frozen=True, order=True)
class Duration:
    """A duration in milliseconds; equal durations are equal in any spelling."""

    milliseconds: int

    def __post_init__(self) -> None:
        if self.milliseconds < 0:
            raise ValueError("A duration cannot be negative.")
        if self.milliseconds > _LONGEST:
            raise ValueError("This duration exceeds Spark's maximum.")

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Parse a duration; raises ValueError with the accepted forms."""
        stripped = text.strip()
        if not stripped:
            raise ValueError(f"the duration is empty; {_ACCEPTED}.")
        if stripped.startswith("-"):
            raise ValueError(f"`{text}` is negative; {_ACCEPTED}.")
        if re.fullmatch(r"[0-9.]+", stripped):
            raise ValueError(f"`{text}` has no unit; {_ACCEPTED}.")
        total, end = Decimal(0), 0
        while end < len(text):
            part = _PART.match(text, end)
            if part is None:
                raise ValueError(f"`{text}` is not a duration; {_ACCEPTED}.")
            total += Decimal(part[1]) * _unit(part[2], text)
            end = part.end()
        if total > _LONGEST:
            raise ValueError(f"`{text}` exceeds Spark's maximum.")
        if total != int(total):
            raise ValueError(
                f"`{text}` is not a multiple of 1 ms, the shortest duration that Spark supports."
            )
        return cls(int(total))

    @property
    def seconds(self) -> float:
        return self.milliseconds / 1_000

    def __str__(self) -> str:
        """The canonical form, which Spark parses as an interval."""
        rest, parts = self.milliseconds, []
        for name, length, _ in _WRITTEN_UNITS:
            number, rest = divmod(rest, length)
            if number:
                parts.append(f"{number} {name}" if number == 1 else f"{number} {name}s")
        return " ".join(parts) or "0 seconds"

    @classmethod
    def _validate(cls, value: object) -> Duration:
        if isinstance(value, Duration):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        raise ValueError(f"a duration needs a unit; {_ACCEPTED}.")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "examples": ["10 minutes", "60s", "1 hour 30 minutes"]}


def _unit(word: str, text: str) -> int:
    if word.lower() in _UNITS:
        return _UNITS[word.lower()]
    close = nearest(word, _UNITS) if len(word) > 2 else None
    hint = f"did you mean `{close}`?" if close else f"{_ACCEPTED}."
    raise ValueError(f"`{word}` in `{text}` is not a unit of time; {hint}")
