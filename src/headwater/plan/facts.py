"""QueryFacts: what Spark does for one sink, as plain versioned data, stored with its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from headwater.plan.operators import Expression, Kind, Operator, PythonFunction
from headwater.plan.state_layout import StateLayout

VERSION = 3


@dataclass(frozen=True)
class SourceFacts:
    """A source as a query reads it; never contains secrets."""

    name: str
    connector: str
    places: tuple[str, ...] = ()
    streaming: bool = True
    replayable: bool = True
    """Whether a batch can be re-read with the same rows."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The relevant declared options; a secret is `***`."""
    reads: int = 1
    """How often the query reads it."""
    known: bool = True
    """Whether its connector and so its properties are known; a plain program can read anything."""
    made_while_running: bool = False
    """Its rows arrive only while a query reads; a first start finds none."""
    continuous: bool = False
    """Whether it supports continuous queries; true if unknown."""
    real_time: bool = False
    """The same for real time."""
    slots: int = 0
    """The tasks that it occupies permanently in such a query; 0 if unknown."""
    idle_options: tuple[str, ...] = ()
    """The declared options that have no effect in such a query."""
    switches: bool = False
    """Whether a query can switch between continuous and batches on the same checkpoint."""
    own_code: bool = False
    """Its rows come from a user's class, which alone decides whether a batch can be re-read."""


@dataclass(frozen=True)
class Refusal:
    """Why Spark's streaming checker rejects the query: its condition and its message."""

    condition: str
    says: str


@dataclass(frozen=True)
class QueryFacts:
    """Everything about a query that a rule checks, or that a later start must be able to compare."""

    sink: str
    connector: str
    mode: str
    root: str
    timezone: str
    sources: tuple[SourceFacts, ...]
    output_schema: Mapping[str, str]
    """The columns and types that the sink receives."""
    places: tuple[str, ...] = ()
    """The locations that the sink writes to; never contains secrets."""
    fixed_options: Mapping[str, str] = field(default_factory=dict)
    """The declared options of the sink that cannot change for a checkpoint; a secret is `***`."""
    group: str = ""
    """The group of the sink, whose query it shares; empty if it has its own."""
    delivery: str = ""
    """What the sink does with a retried batch: the name of a `Delivery`; empty if unknown."""
    modes: tuple[str, ...] = ()
    """The modes that the sink supports; empty if unknown."""
    trigger: str = "default"
    cores: int = 1
    """The cores of the configured cluster."""
    operators: tuple[Operator, ...] = ()
    """The steps of the query, from the sources up."""
    state: tuple[StateLayout, ...] | None = None
    """The state layouts of its stateful operators, from the sources up; None if unknown."""
    state_unknown: str = ""
    """Why they are unknown."""
    non_deterministic: tuple[Expression, ...] = ()
    """Expressions that can return a different value when Spark retries a batch."""
    python_functions: tuple[PythonFunction, ...] = ()
    beyond_rows: tuple[Expression, ...] = ()
    """The steps that do not process each row separately, by the names that users know."""
    clock_reads: tuple[Expression, ...] = ()
    """The expressions that read the current time or date."""
    inputs: tuple[str, ...] = ()
    """The sources in Spark's order, by the user's names; replayed rows are a separate source."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the quarantine rules of the sources and tables that it reads; those without a
    quarantine are not in it."""
    repeated_streams: tuple[str, ...] = ()
    """The streams that it reads several times, shared or not."""
    sink_continuous: bool = False
    """Whether the sink supports continuous queries; true if unknown."""
    sink_real_time: bool = False
    """The same for real time."""
    refusal: Refusal | None = None
    """Why Spark rejects the query in this mode; None if it does not."""
    trigger_refusal: Refusal | None = None
    """Why Spark rejects a valid query with a continuous trigger; with a real-time trigger, the unsupported
    join."""
    held_schema: Mapping[str, str] = field(default_factory=dict)
    """The columns and types that the sink's location already contains, if known."""
    held_batch: int | None = None
    """The newest batch recorded at the sink's location: the sink skips this batch and all before it."""
    held_outside: str = ""
    """A file outside the sink's location that its metadata lists, such as after a move."""
    held_unreadable: str = ""
    """Why the content of the sink's location is unknown."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings that the first start fixed."""
    passed_over: Mapping[str, str] = field(default_factory=dict)
    """The user's current settings that differ from those of the first start."""
    spark_version: str = ""
    version: int = VERSION

    @property
    def stateful(self) -> tuple[Operator, ...]:
        """The stateful operators, from the sources up."""
        return tuple(each for each in self.operators if each.is_stateful)

    def refused_for(self, words: str) -> bool:
        """Whether Spark rejects the query with a message that contains these words."""
        return self.refusal is not None and words in self.refusal.says

    def steps(self, *kinds: Kind) -> Iterator[Operator]:
        """The operators of some kinds that a stream reaches, from the sources up."""
        return (each for each in self.operators if each.kind in kinds and each.streams)

    def inputs_of(self, step: Operator) -> list[Operator]:
        """The operators whose rows reach an operator directly."""
        return [self.operators[each] for each in step.inputs]

    def above(self, step: Operator) -> list[Operator]:
        """All operators downstream of an operator, nearest first."""
        reached = [step]
        for operator in self.operators:
            if any(each is one for each in self.inputs_of(operator) for one in reached):
                reached.append(operator)
        return reached[1:]

    def below(self, step: Operator) -> list[Operator]:
        """All operators upstream of an operator, from the sources up."""
        needed = set(step.inputs)
        for place in range(max(needed, default=-1), -1, -1):
            if place in needed:
                needed |= set(self.operators[place].inputs)
        return [self.operators[each] for each in sorted(needed)]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> QueryFacts:
        """Stored facts; raises ValueError for a version that this Headwater does not support.

        Version 1 had no operators: fields derived from them are empty. Version 2 had no state layouts.
        """
        stored: dict[str, Any] = json.loads(text)
        if not isinstance(stored, dict):
            raise ValueError("not query metadata")
        if stored.get("version") not in (1, 2, VERSION):
            raise ValueError(f"version {stored.get('version')}")
        return _stored().validate_python(stored)


_CHANGES = {
    "connector": "connector",
    "mode": "mode",
    "trigger": "trigger",
    "timezone": "time zone",
    "sources": "sources",
    "operators": "operations",
    "state": "state",
    "output_schema": "output columns",
    "places": "location",
    "fixed_options": "sink options",
    "spark_version": "Spark version",
}
"""What a user can change about a query, by field."""


_LONG = ("sources", "operators", "state")
"""Fields whose values are too long for an event."""


@dataclass(frozen=True)
class Change:
    """A property of a query that differs from its last start."""

    what: str
    """The field of `QueryFacts`."""
    words: str
    before: object
    after: object

    def to_json(self) -> dict[str, Any]:
        """The values of most properties; others are too long, and null."""
        short = self.what not in _LONG
        return {
            "what": self.what,
            "before": self.before if short else None,
            "after": self.after if short else None,
        }


def changes_between(before: QueryFacts, now: QueryFacts) -> tuple[Change, ...]:
    """What has changed since the last start of a query."""
    pairs = ((name, words, getattr(before, name), getattr(now, name)) for name, words in _CHANGES.items())
    return tuple(Change(*each) for each in pairs if each[2] != each[3])


@cache
def _stored() -> TypeAdapter[QueryFacts]:
    # Built when it is first used: that takes longer than loading the module.
    return TypeAdapter(QueryFacts)
