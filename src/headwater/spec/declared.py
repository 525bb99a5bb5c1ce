"""What every declared thing has: immutability, a place in the user's file, equality by content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from headwater.values import Position


class Declared(BaseModel):
    """An immutable thing that was declared somewhere.

    Where it was declared is no part of what it is: the YAML and the Python form of one pipeline are equal.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True)

    where_only: ClassVar[frozenset[str]] = frozenset({"position"})
    """Fields that tell where something stands, and no more."""

    also_called: ClassVar[Mapping[str, str]] = {}
    """Keys by the names that Spark, Kafka and others have for them; written, they suggest the key."""

    position: Position | None = Field(default=None, exclude=True, repr=False)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(self._content()))))

    def _content(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self.where_only}


@dataclass(frozen=True)
class FunctionRef:
    """A user's Python function: the file it stands in and its name there.

    `function` is there when the pipeline was declared in Python and the object is at hand.
    """

    file: str
    name: str
    parameters: tuple[str, ...] = field(default=(), compare=False)
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    place: Position | None = field(default=None, compare=False, repr=False)
    """Where the pipeline names it."""
    defined: Position | None = field(default=None, compare=False, repr=False)
    """Where its `def` stands."""
    optional: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """Those of its parameters that have a default."""

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"


@dataclass(frozen=True)
class ClassRef(FunctionRef):
    """A user's Python class, named in the same way; `function` is the class when it is at hand."""
