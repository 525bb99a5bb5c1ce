"""Base classes of a connector: typed options, and capabilities that other code reads as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from headwater.spec.declared import Declared, FunctionRef
from headwater.values import Secret


def _option_text(value: object) -> object:
    """Spark's options are text: numbers and switches are written the way Spark reads them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


OptionValue = Annotated[str | Secret, BeforeValidator(_option_text)]


class ConnectorOptions(Declared):
    """The keys that stand beside `connector:`; `options` goes to Spark word for word."""

    options: dict[str, OptionValue] = Field(
        default_factory=dict, description="Anything else Spark takes, passed word for word."
    )


class SourceOptions(ConnectorOptions):
    """Typed keys of a source."""


class SinkOptions(ConnectorOptions):
    """Typed keys of a sink."""


class Delivery(StrEnum):
    """What a sink does with a batch that comes a second time."""

    IDEMPOTENT = "a replayed batch changes nothing"
    REPEATS = "a replayed batch is written again"
    USER = "depends on the user's function"


def _no_places(_: Any) -> tuple[str, ...]:
    return ()


def _no_functions(_: Any) -> tuple[FunctionRef, ...]:
    return ()


@dataclass(frozen=True)
class SourceSide:
    """What a connector can do as a source."""

    options: type[SourceOptions]
    replayable: bool
    """A batch can be read again with the same rows after a crash."""
    streaming: bool = True
    batch: bool = True
    """What it holds now can be read as a finished data set (`static: true`, `run --batch`)."""
    places: Callable[[Any], tuple[str, ...]] = field(default=_no_places)
    """The absolute paths or addresses it reads; a change of them does not fit an old checkpoint."""
    functions: Callable[[Any], tuple[FunctionRef, ...]] = field(default=_no_functions)


@dataclass(frozen=True)
class SinkSide:
    """What a connector can do as a sink."""

    options: type[SinkOptions]
    modes: frozenset[str]
    delivery: Delivery
    batch: bool = True
    stores: bool = False
    """Rows stay where it writes, so `run --batch` must not write beside the stream without `--into`."""
    passes_over: bool = False
    """A batch that it has already is not computed a second time; its spark module has a `forget_batch`."""
    places: Callable[[Any], tuple[str, ...]] = field(default=_no_places)
    """The places it writes; two sinks on one place are refused."""
    functions: Callable[[Any], tuple[FunctionRef, ...]] = field(default=_no_functions)


@dataclass(frozen=True)
class Connector:
    """A connector as others see it; `spark` names the module that talks to Spark, loaded when needed."""

    name: str
    summary: str
    spark: str
    source: SourceSide | None = None
    sink: SinkSide | None = None
