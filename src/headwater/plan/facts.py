"""QueryFacts: what Spark will do for one sink, as plain versioned data, stored beside its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 1


@dataclass(frozen=True)
class SourceFacts:
    """A source as a query reads it; secrets never get here."""

    name: str
    connector: str
    places: tuple[str, ...] = ()
    streaming: bool = True


@dataclass(frozen=True)
class QueryFacts:
    """Everything about a query that a later start must be able to compare."""

    sink: str
    connector: str
    mode: str
    root: str
    timezone: str
    sources: tuple[SourceFacts, ...]
    output_schema: Mapping[str, str]
    """Columns and types that the sink gets."""
    places: tuple[str, ...] = ()
    """The places that the sink writes; secrets never get here."""
    held_schema: Mapping[str, str] = field(default_factory=dict)
    """Columns and types that the sink's place holds already, where that can be told."""
    held_batch: int | None = None
    """The newest batch that the sink's place has noted: it passes over this one and all before it."""
    held_outside: str = ""
    """A file elsewhere that the sink's place names as its own, as it does after a move."""
    held_unreadable: str = ""
    """Why it can't be told what the sink's place holds."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What froze at the first start."""
    passed_over: Mapping[str, str] = field(default_factory=dict)
    """What the user sets now, where the first start decided otherwise."""
    spark_version: str = ""
    version: int = VERSION

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> QueryFacts:
        """Facts as they were stored; ValueError for a version that this Headwater does not know."""
        stored: dict[str, Any] = json.loads(text)
        if not isinstance(stored, dict):
            raise ValueError("these are no facts")
        if stored.get("version") != VERSION:
            raise ValueError(f"version {stored.get('version')}")
        sources = tuple(
            SourceFacts(**{**source, "places": tuple(source["places"])}) for source in stored.pop("sources")
        )
        places = tuple(stored.pop("places", ()))
        return cls(sources=sources, places=places, **stored)
