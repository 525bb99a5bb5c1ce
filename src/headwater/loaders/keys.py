"""The keys of a pipeline file that are not yet what the spec holds, and a declaration before it is judged."""

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
from headwater.spec.pipeline import (
    Accept,
    ExpectationKeys,
    FunctionField,
    OneOrMore,
    PipelineSettings,
    WatermarkField,
)
from headwater.values import Position, TextPosition, nearest

Model = TypeVar("Model", bound=BaseModel)
NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
"""What declared things and expectations may be called."""


Things = Annotated[dict[str, Any], BeforeValidator(lambda written: {} if written is None else written)]


class PipelineKeys(PipelineSettings):
    """The top level of a pipeline file."""

    functions: Things = Field(default_factory=dict, description="Functions that SQL can call by name.")
    sources: Things = Field(default_factory=dict, description="Where rows come from.")
    tables: Things = Field(default_factory=dict, description="Rows worked out from sources and other tables.")
    sinks: Things = Field(default_factory=dict, description="Where the rows of a table go.")


def _expectations(written: object) -> object:
    """A condition alone is one that warns."""
    if not isinstance(written, Mapping):
        return written
    return {name: {"check": each} if isinstance(each, str) else each for name, each in written.items()}


Expectations = Annotated[dict[str, ExpectationKeys], BeforeValidator(_expectations)]


class TableKeys(Declared):
    """Keys of a table that is not written as SQL alone."""

    also_called = OF_TABLES

    sql: str | None = Field(default=None, description="A SELECT over sources and tables.")
    python: FunctionField | None = Field(
        default=None, description='A function from DataFrames to a DataFrame, as `"file.py:function"`.'
    )
    distinct: Annotated[tuple[str, ...], *OneOrMore] = Field(
        default=(), description="Columns; one row of each combination is kept, the first that comes."
    )
    reads: str | None = Field(default=None, description="With `distinct`: the source or table that it reads.")
    within: Literal["watermark"] | None = Field(
        default=None,
        description="With `distinct`: a repeat is dropped only while it is not later than the watermark's "
        "delay. Else for ever; with the event-time column among the columns, until the watermark passes it.",
    )
    watermark: WatermarkField = Field(default=None, description="An event-time column made by this table.")
    expect: Expectations = Field(
        default_factory=dict,
        description="Conditions that rows should fulfil, by name: `{paid: cost >= 0}` counts the others and "
        "warns; `{paid: {check: cost >= 0, else: drop}}` does more: `drop`, `fail`, `quarantine`.",
    )
    accept: Accept = Field(
        default_factory=dict,
        description="Codes of findings in this table that are all right, each with the reason.",
    )


# A pipeline as it was written, in either form: plain values, and where each of them stands.

Route = tuple[str | int, ...]
"""The way to a value: `("sources", "clicks", "path")`."""


class Places(Protocol):
    """Finds the place of a key or a value in the user's file."""

    def of_key(self, route: Route) -> Position: ...

    def of_value(self, route: Route) -> Position: ...

    def of_text(self, route: Route) -> TextPosition: ...


def value_places(places: Places, written: Mapping[str, Any], route: Route) -> dict[Route, Position]:
    """Where the values of a thing's keys stand, and of the keys one step inside.

    A code that is accepted is a key, and what is wrong with it stands there.
    """
    inside = [(key, inner) for key, value in written.items() if isinstance(value, Mapping) for inner in value]
    return {
        way: (places.of_key if way[0] == "accept" else places.of_value)((*route, *way))
        for way in (*((key,) for key in written), *inside)
    }


@dataclass(frozen=True)
class Declaration:
    """What was written, before it is judged."""

    values: Mapping[str, Any]
    places: Places
    root: Path
    file: str


@dataclass(frozen=True)
class Part:
    """The keys and values at one place of a declaration, such as those of a source."""

    values: Mapping[str, Any]
    declaration: Declaration
    route: Route
    where: str
    """Whose keys they are, in words."""

    def of_key(self, *way: str | int) -> Position:
        """Where a key stands, or else the thing itself."""
        return self.declaration.places.of_key((*self.route, *way))

    def of_value(self, *way: str | int) -> Position:
        """Where a value stands."""
        return self.declaration.places.of_value((*self.route, *way))


class Refused(PipelineError):
    """A declaration that is wrong somewhere, with what else can be said: the parts of it that are right."""

    def __init__(
        self, *problems: Problem, sound: PipelineSpec | None = None, besides: Iterable[str] = ()
    ) -> None:
        super().__init__(*problems)
        self.sound = sound
        """The sources, tables and sinks with which nothing is wrong; None where names are not certain."""
        self.besides = tuple(besides)
        """All names of sources and tables that were declared, rightly or not."""


# The keys that can be written at one place, and which of them is meant by another word.

_ELSEWHERE = re.compile(r"^(?:kafka|properties|cloudFiles)\.(?=.)")
"""What Spark, Flink and Auto Loader put before the names of a connector's own settings."""
_OPTION = re.compile(r"\w+\.\w|[a-z][A-Z]")
"""How options of Spark are written, and no key is."""


@dataclass(frozen=True)
class KnownKeys:
    """Keys, with the names under which people know them from elsewhere."""

    keys: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """Keys by such names, which are plain; keys at the top of the file may be among them."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    def meant(self, word: str) -> str | None:
        """The key that a word most likely stands for; None where none is likely."""
        found = self._named(word)
        return found if found in self.keys else nearest(word, self.keys) if found is None else None

    def hint(self, word: str) -> str:
        """What to write in place of an unknown key."""
        meant = self.meant(word)
        if meant:
            return f"Did you mean `{meant}`?"
        top = self._named(word)
        if top:
            return f"Did you mean `{top}`, at the top of the file?"
        listed = ", ".join(sorted(self.keys))
        if "options" in self.keys and _OPTION.search(word):
            return f"Write an option of Spark under `options`. The keys are: {listed}."
        return f"It takes: {listed}."

    def _named(self, word: str) -> str | None:
        for spelling in (plain(word), plain(_ELSEWHERE.sub("", word))):
            found = self.names.get(spelling) or next(
                (key for key in self.keys if plain(key) == spelling), None
            )
            if found:
                return found
        return None


def known_keys(*models: type[BaseModel]) -> KnownKeys:
    """The keys a user can write where these models stand together."""
    keys = tuple(key for model in models for key in _keys(model))
    bases = [base for model in models for base in reversed(model.__mro__)]
    names = {plain(name): key for base in bases for name, key in vars(base).get("also_called", {}).items()}
    return KnownKeys(keys, names)


def plain(word: str) -> str:
    """A word without case and punctuation: `maxFileAge` and `max_file_age` are one."""
    return re.sub(r"[^a-z0-9]", "", word.lower())


def _keys(model: type[BaseModel]) -> Iterator[str]:
    hidden = model.where_only if issubclass(model, Declared) else frozenset[str]()
    if issubclass(model, ConnectorOptions) and not model.takes_options:
        hidden |= {"options"}
    return (field.alias or name for name, field in model.model_fields.items() if name not in hidden)
