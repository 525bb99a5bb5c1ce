"""Sizes as users write them: `512 MB`, or a number of bytes."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

_SIZE = re.compile(r"(\d+)\s*(b|kb|mb|gb|tb)?$", re.IGNORECASE)
_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}


def _bytes(value: object) -> object:
    if not isinstance(value, str):
        return value
    match = _SIZE.match(value.strip())
    if match is None:
        raise ValueError(f"expected a size, got `{value}`; write a size such as 512 MB or a number of bytes")
    return int(match[1]) * _UNITS[(match[2] or "b").lower()]


Size = Annotated[
    int,
    BeforeValidator(_bytes),
    Field(gt=0),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}], "examples": ["512 MB"]}),
]
