"""The keys of a pipeline file, and a declaration before it is validated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import BaseModel, BeforeValidator, Field

from headwater.errors import PipelineError, Problem
from headwater.spec import ConnectorOptions, Declared, PipelineSpec
from headwater.spec.connector import OF_TABLES
from headwater.spec.pipeline import ExpectationKeys, OneOrMore, PipelineSettings, Suppression, WatermarkField
from headwater.spec.references import FunctionField
from headwater.values import Position, TextPosition, nearest
from headwater.values.renamed import renamed

Model = TypeVar("Model", bound=BaseModel)
NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
"""The pattern for names of declared objects and expectations."""


Things = Annotated[dict[str, Any], BeforeValidator(lambda written: {} if written is None else written)]


class PipelineKeys(PipelineSettings):
    """The top level of a pipeline file."""

    functions: Things = Field(default_factory=dict, description="SQL functions, by name.")
    sources: Things = Field(default_factory=dict, description="Inputs, by name.")
    tables: Things = Field(
        default_factory=dict, description="Transformations of sources and other tables, by name."
    )
    sinks: Things = Field(
        default_factory=dict,
        description="Outputs, by name. Each sink, or group of sinks, runs as one streaming query.",
    )


def _expectations(written: object) -> object:
    """A string is a condition that only warns."""
    if not isinstance(written, Mapping):
        return written
    return {name: {"condition": each} if isinstance(each, str) else each for name, each in written.items()}


Expectations = Annotated[dict[str, ExpectationKeys], BeforeValidator(_expectations)]


class TableKeys(Declared):
    """The keys of a table that is not only a SQL string."""

    also_called = OF_TABLES

    sql: str | None = Field(default=None, description="A SELECT over sources and tables of the pipeline.")
    python: FunctionField | None = Field(
        default=None,
        description='A function that returns a DataFrame, as `"file.py:function"`. Its parameters name the '
        "sources and tables it reads.",
    )
    deduplicate: Annotated[tuple[str, ...], *OneOrMore] = Field(
        default=(),
        description="The columns that identify a row. Of rows with equal values, only the first is emitted.",
    )
    reads: str | None = Field(default=None, description="With `deduplicate`: the source or table to read.")
    within: Literal["watermark"] | None = Field(
        default=None,
        description="With `deduplicate`: `watermark` drops only duplicates that arrive within the delay of "
        "the watermark. By default, duplicates are dropped forever or, if the event-time column is one of the "
        "columns, until the watermark passes it.",
    )
    watermark: WatermarkField = Field(
        default=None, description="The event-time column that this table computes, and its delay."
    )
    expect: Expectations = Field(
        default_factory=dict,
        description="Conditions that every row should meet, by name. `{paid: cost >= 0}` counts violations and "
        "warns. `{paid: {condition: cost >= 0, on_violation: drop}}` sets the action: `warn`, `drop`, `fail` "
        "or `quarantine`.",
    )
    suppress: Suppression = Field(
        default_factory=dict,
        description="Findings to suppress in this table, by code, each with a reason.",
    )


# A pipeline as declared in YAML or Python: plain values and their positions.

Route = tuple[str | int, ...]
"""The path to a value: `("sources", "clicks", "path")`."""


class Places(Protocol):
    """Finds the position of a key or a value in the user's file."""

    def of_key(self, route: Route) -> Position: ...

    def of_value(self, route: Route) -> Position: ...

    def of_text(self, route: Route) -> TextPosition: ...


def value_places(places: Places, written: Mapping[str, Any], route: Route) -> dict[Route, Position]:
    """The positions of the values of an object's keys, and of the keys one level below.

    A suppressed code is a key, so its problems are reported at the key.
    """
    inside = [(key, inner) for key, value in written.items() if isinstance(value, Mapping) for inner in value]
    return {
        way: (places.of_key if way[0] == "suppress" else places.of_value)((*route, *way))
        for way in (*((key,) for key in written), *inside)
    }


@dataclass(frozen=True)
class Declaration:
    """A pipeline as written, before validation."""

    values: Mapping[str, Any]
    places: Places
    root: Path
    file: str


@dataclass(frozen=True)
class Part:
    """The keys and values of one part of a declaration, such as a source."""

    values: Mapping[str, Any]
    declaration: Declaration
    route: Route
    where: str
    """The object that has the keys, in words: "the source `orders`"."""

    def of_key(self, *way: str | int) -> Position:
        """The position of a key, or else of the object."""
        return self.declaration.places.of_key((*self.route, *way))

    def of_value(self, *way: str | int) -> Position:
        """The position of a value."""
        return self.declaration.places.of_value((*self.route, *way))


class Refused(PipelineError):
    """A declaration with problems; it also carries the parts that are valid."""

    def __init__(
        self, *problems: Problem, sound: PipelineSpec | None = None, besides: Iterable[str] = ()
    ) -> None:
        super().__init__(*problems)
        self.sound = sound
        """The valid sources, tables and sinks; None if some names are unknown."""
        self.besides = tuple(besides)
        """The names of all declared sources and tables, valid or not."""


# The keys that are valid in one part of a file, and which one an unknown word means.

_ELSEWHERE = re.compile(r"^(?:kafka|properties|cloudFiles)\.(?=.)")
"""Prefixes that Spark, Flink and Auto Loader use for the settings of a connector."""
_OPTION = re.compile(r"\w+\.\w|[a-z][A-Z]")
"""Names of Spark options contain a dot or a capital letter; keys do not."""


@dataclass(frozen=True)
class KnownKeys:
    """Keys, with the names that other tools use for them."""

    keys: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """Keys by the names of other tools, normalized by `plain`; some are top-level keys of the file."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    def meant(self, word: str) -> str | None:
        """The key that a word most likely means; None if there is none."""
        new = renamed(word, self.keys)
        if new:
            return new.partition(".")[0]
        found = self._named(word)
        return found if found in self.keys else nearest(word, self.keys) if found is None else None

    def hint(self, word: str) -> str:
        """The hint for an unknown key."""
        meant = self.meant(word)
        if meant:
            return f"Did you mean `{meant}`?"
        top = self._named(word)
        if top:
            return f"Did you mean `{top}`, at the top level of the file?"
        listed = ", ".join(sorted(self.keys))
        if "options" in self.keys and _OPTION.search(word):
            return f"Set Spark options under `options`. Accepted keys: {listed}."
        return f"Use one of these keys: {listed}."

    def _named(self, word: str) -> str | None:
        for spelling in (plain(word), plain(_ELSEWHERE.sub("", word))):
            found = self.names.get(spelling) or next(
                (key for key in self.keys if plain(key) == spelling), None
            )
            if found:
                return found
        return None


def known_keys(*models: type[BaseModel]) -> KnownKeys:
    """The keys that users can write for these models together."""
    keys = tuple(key for model in models for key in _keys(model))
    bases = [base for model in models for base in reversed(model.__mro__)]
    names = {plain(name): key for base in bases for name, key in vars(base).get("also_called", {}).items()}
    return KnownKeys(keys, names)


def plain(word: str) -> str:
    """A word without case and punctuation, so that `maxFileAge` equals `max_file_age`."""
    return re.sub(r"[^a-z0-9]", "", word.lower())


def _keys(model: type[BaseModel]) -> Iterator[str]:
    hidden = model.where_only if issubclass(model, Declared) else frozenset[str]()
    if issubclass(model, ConnectorOptions) and not model.takes_options:
        hidden |= {"options"}
    return (field.alias or name for name, field in model.model_fields.items() if name not in hidden)
