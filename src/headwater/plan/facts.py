"""QueryFacts: what Spark will do for one sink, as plain versioned data, stored beside its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import TypeAdapter

from headwater.plan.operators import Expression, Kind, Operator, PythonFunction
from headwater.plan.state_layout import StateLayout

VERSION = 3


@dataclass(frozen=True)
class SourceFacts:
    """A source as a query reads it; secrets never get here."""

    name: str
    connector: str
    places: tuple[str, ...] = ()
    streaming: bool = True
    replayable: bool = True
    """Whether a batch can be read again with the same rows."""
    options: Mapping[str, str] = field(default_factory=dict)
    """What was declared for it and matters; a secret is `***`."""
    reads: int = 1
    """How many times over the query reads it."""
    known: bool = True
    """Whether its connector says what it can do; what a plain program reads may be anything."""
    made_while_running: bool = False
    """Its rows come only while a query reads; a first start finds none."""
    continuous: bool = False
    """Whether it can feed a continuous query; true where that is not known."""
    real_time: bool = False
    """The same for real time."""
    slots: int = 0
    """The tasks that it keeps busy for good in such a query; 0 where that is not known."""
    idle_options: tuple[str, ...] = ()
    """What was declared for it and does nothing in such a query."""
    switches: bool = False
    """Whether a checkpoint goes on from a continuous query to one with batches, and back."""
    own_code: bool = False
    """Its rows come from a class of the user's, which alone decides whether a batch can be read again."""


@dataclass(frozen=True)
class Refusal:
    """What Spark's streaming checker has against the query: its condition, and its sentence."""

    condition: str
    says: str


@dataclass(frozen=True)
class QueryFacts:
    """Everything about a query that a rule judges, or that a later start must be able to compare."""

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
    fixed_options: Mapping[str, str] = field(default_factory=dict)
    """What was declared for the sink and can't change while the checkpoint is kept; a secret is `***`."""
    delivery: str = ""
    """What the sink does with a batch that comes again: the name of a `Delivery`; empty if unknown."""
    modes: tuple[str, ...] = ()
    """The modes that the sink takes; empty if unknown."""
    trigger: str = "unpaced"
    cores: int = 1
    """The cores of the configured cluster."""
    operators: tuple[Operator, ...] = ()
    """What is done with the rows, from the sources up."""
    state: tuple[StateLayout, ...] | None = None
    """What its stateful operators store, from the sources up; None where that is not known."""
    state_unknown: str = ""
    """Why it is not known."""
    non_deterministic: tuple[Expression, ...] = ()
    """Expressions that may give another value when a batch runs again."""
    python_functions: tuple[PythonFunction, ...] = ()
    beyond_rows: tuple[Expression, ...] = ()
    """The steps that do more than take each row by itself, by the names that users give them."""
    clock_reads: tuple[Expression, ...] = ()
    """Where it asks for the current time or date."""
    inputs: tuple[str, ...] = ()
    """Spark's sources in its order, by the user's names; rows that are replayed have one of their own."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """By what the sources and tables that it reads quarantine rows, as short texts to compare; a source or
    table that quarantines none is not in it."""
    repeated_streams: tuple[str, ...] = ()
    """The streams that stand in it several times, shared or not."""
    sink_continuous: bool = False
    """Whether the sink takes rows one by one from a continuous query; true where that is not known."""
    sink_real_time: bool = False
    """The same for real time."""
    refusal: Refusal | None = None
    """Spark's own verdict on query and mode; None where it has nothing against them."""
    trigger_refusal: Refusal | None = None
    """Spark's verdict on the query under a continuous trigger, where the query alone is all right; in real
    time the join that can't run so."""
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

    @property
    def stateful(self) -> tuple[Operator, ...]:
        """The operators that keep something between batches, from the sources up."""
        return tuple(each for each in self.operators if each.is_stateful)

    def refused_for(self, words: str) -> bool:
        """Whether Spark refuses the query with these words."""
        return self.refusal is not None and words in self.refusal.says

    def steps(self, *kinds: Kind) -> Iterator[Operator]:
        """The operators of some kinds that a stream reaches, from the sources up."""
        return (each for each in self.operators if each.kind in kinds and each.streams)

    def inputs_of(self, step: Operator) -> list[Operator]:
        """The operators whose rows reach one with no other between."""
        return [self.operators[each] for each in step.inputs]

    def above(self, step: Operator) -> list[Operator]:
        """All operators that the rows of one reach afterwards, nearest first."""
        reached = [step]
        for operator in self.operators:
            if any(each is one for each in self.inputs_of(operator) for one in reached):
                reached.append(operator)
        return reached[1:]

    def below(self, step: Operator) -> list[Operator]:
        """All operators whose rows reach one, from the sources up."""
        needed = set(step.inputs)
        for place in range(max(needed, default=-1), -1, -1):
            if place in needed:
                needed |= set(self.operators[place].inputs)
        return [self.operators[each] for each in sorted(needed)]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> QueryFacts:
        """Facts as they were stored; ValueError for a version that this Headwater does not know.

        Version 1 had no operators: what only they tell has the value for "none" in it. Version 2 did not say
        what the operators store.
        """
        stored: dict[str, Any] = json.loads(text)
        if not isinstance(stored, dict):
            raise ValueError("these are no facts")
        if stored.get("version") not in (1, 2, VERSION):
            raise ValueError(f"version {stored.get('version')}")
        return _STORED.validate_python(stored)


_STORED = TypeAdapter(QueryFacts)
