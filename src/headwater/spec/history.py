"""Where the events of a run go: `history: {max_age: 30 days, max_size: 500 MB}`, and `webhook: …`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from headwater.spec.connector import Declared
from headwater.spec.paths import ProjectPath, is_uri
from headwater.values import Duration, Secret
from headwater.values.sizes import Size

_SHORTEST = Duration.parse("1 hour")
_SMALLEST = 10 << 20


def _long_enough(age: Duration) -> Duration:
    if age < _SHORTEST:
        raise ValueError(f"`{age}` is too short; write at least `1 hour`")
    return age


def _large_enough(size: int) -> int:
    if size < _SMALLEST:
        raise ValueError("the size is too small; write at least `10 MB`")
    return size


class HistoryKeys(Declared):
    """How much of the history of runs is kept."""

    max_age: Annotated[Duration, AfterValidator(_long_enough)] = Field(
        default=Duration.parse("30 days"),
        description="How long events and batches are kept, at least `1 hour`.",
    )
    max_size: Annotated[Size, AfterValidator(_large_enough)] = Field(
        default=500 << 20,
        description="The maximum size of the history, at least `10 MB`. If it is reached, old batches are "
        "summarized, then deleted. Default: `500 MB`.",
    )


def _local(path: str) -> str:
    if is_uri(path):
        raise ValueError("expected a local file; write a path relative to the pipeline file")
    return path


EventLogPath = Annotated[ProjectPath, AfterValidator(_local)]


def _web_address(written: object) -> object:
    # The address is not in the message: it most likely contains a token.
    if isinstance(written, str) and not written.startswith(("http://", "https://")):
        raise ValueError("expected a URL; write one that starts with `https://` or `http://`")
    return written


WebAddress = Annotated[
    str | Secret,
    BeforeValidator(_web_address),
    WithJsonSchema({"type": "string", "examples": ["${secret:WEBHOOK_URL}"]}),
]
"""A URL, or a secret with one."""
