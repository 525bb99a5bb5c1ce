"""A pipeline as it was written, in either form: plain values, and where each of them stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headwater.errors import PipelineError, Problem
from headwater.spec import PipelineSpec
from headwater.values import Position, TextPosition

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
