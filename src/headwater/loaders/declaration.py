"""A pipeline as it was written, in either form: plain values, and where each of them stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headwater.values import Position, TextPosition

Route = tuple[str | int, ...]
"""The way to a value: `("sources", "clicks", "path")`."""


class Places(Protocol):
    """Finds the place of a key or a value in the user's file."""

    def of_key(self, route: Route) -> Position: ...

    def of_value(self, route: Route) -> Position: ...

    def of_text(self, route: Route) -> TextPosition: ...


@dataclass(frozen=True)
class Declaration:
    """What was written, before it is judged."""

    values: Mapping[str, Any]
    places: Places
    root: Path
    file: str
