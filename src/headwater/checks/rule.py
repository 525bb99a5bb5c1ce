"""What a rule is, and what it gets to see."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from headwater.checkpoint import Read
from headwater.checks.finding import Finding, Severity
from headwater.errors import Entry
from headwater.plan import Graph, QueryFacts
from headwater.plan.operators import Expression, Operator
from headwater.plan.state_layout import StateLayout
from headwater.spec import Named, PipelineSpec
from headwater.values import Position


def _unknown() -> Mapping[str, Read] | None:
    return None


@dataclass(frozen=True)
class Reached:
    """How far the query of an existing checkpoint has read, or was about to."""

    checkpoint: str
    """Its folder."""
    offsets: tuple[Any, ...]
    """The newest offset of each source, as Spark stores it; None for a source without one."""
    batch: int = -1
    """The newest batch that was planned."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What froze at the first start, as far as Spark wrote it down."""
    committed_any: bool = True
    """Whether a batch was committed; before that, nothing is stored for good."""
    committed: Callable[[], Mapping[str, Read] | None] = field(default=_unknown, compare=False)
    """What it has read of each source, up to the newest committed batch; looked up when it is asked for,
    None where that can't be told."""


@dataclass(frozen=True)
class Situation:
    """A pipeline before its start. Offline there are no facts; before the first start none are stored."""

    spec: PipelineSpec
    graph: Graph
    facts: Mapping[str, QueryFacts] = field(default_factory=dict)
    """What Spark would do now, by sink; empty offline."""
    stored: Mapping[str, QueryFacts] = field(default_factory=dict)
    """What the query of each existing checkpoint was at its last start."""
    reached: Mapping[str, Reached] = field(default_factory=dict)
    """How far each existing checkpoint has come."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    whole: bool = True
    """Whether the spec holds everything that was declared, and Spark has nothing against any of it."""

    @property
    def sound(self) -> bool:
        """Whether nothing stands against the pipeline as a whole so far."""
        return self.whole and not self.graph.problems


class Rule(ABC):
    """One thing that can be said; the docstring of a rule tells what and why."""

    entries: ClassVar[Mapping[Entry, Severity]] = {}
    """What it can say, each with the gravest severity that it says it with; only this can be accepted."""
    example: ClassVar[str] = ""
    """A few lines of a pipeline, or of a session on a terminal, of which it has something to say; they may
    be indented like a docstring."""
    lasting: ClassVar[bool] = True
    """Whether the pipeline file alone decides; what hangs on a checkpoint or on the environment may come
    and go, so that to accept it in advance is no mistake."""
    asks_parts: ClassVar[bool] = False
    """It looks at each declared thing (or its facts) by itself, so that what is wrong elsewhere, or even
    left out for being wrong, does not mislead it."""

    @abstractmethod
    def findings(self, situation: Situation) -> Iterator[Finding]:
        """Everything this rule has to say."""


@dataclass(frozen=True)
class Query:
    """The query of one sink as a rule sees it: its facts, and where its parts stand in the user's files."""

    facts: QueryFacts
    at: Callable[..., Position | None] = lambda *key: None
    """Where the value of a key of the sink stands, or else the sink itself."""
    source_at: Callable[..., Position | None] = lambda name, *key: None
    """Where the value of a key of a source stands, or else the source itself."""
    where: Callable[[Operator | Expression | StateLayout], Position | None] = lambda step: None
    """Where a step of the query stands: in its table's text, at the table, or at the sink."""
    text: Callable[[str], str] = lambda table: ""
    """The SQL of a table; empty for one of Python."""


class QueryRule(Rule):
    """A rule over the facts of one query, which a pipeline or a plain program may have made."""

    asks_parts = True

    @abstractmethod
    def about(self, query: Query) -> Iterator[Finding]:
        """Everything this rule has to say about one query."""

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for facts in situation.facts.values():
            yield from self.about(query_of(situation.spec, facts))


def query_of(spec: PipelineSpec, facts: QueryFacts) -> Query:
    """A declared sink's query with its places."""
    sink = next(each for each in spec.sinks if each.name == facts.sink)
    named: dict[str, Named] = {each.name: each for each in spec.readable}
    tables = {each.name: each for each in spec.tables}

    def source_at(name: str, *key: str | int) -> Position | None:
        return named[name].at(*key) if name in named else sink.position

    def where(step: Operator | Expression | StateLayout) -> Position | None:
        table = tables.get(step.table)
        if table is None:
            return named[step.table].position if step.table in named else sink.position
        return table.text.at(step.line, step.column) if table.text and step.line else table.position

    def text(table: str) -> str:
        return tables[table].sql or "" if table in tables else ""

    return Query(facts, sink.at, source_at, where, text)
