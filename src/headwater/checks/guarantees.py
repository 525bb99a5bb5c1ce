"""How often a row takes effect in a sink: the weakest of source, query and sink, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headwater.connectors import Sink, all_connectors, source_side
from headwater.connectors.connector import ForgetsBatches
from headwater.plan import Graph, QueryFacts, SourceFacts
from headwater.plan.operators import Aggregate, Expression, Kind, Operator
from headwater.spec import Delivery, PipelineSpec, SinkSpec, SourceSpec
from headwater.values import Never

# What in a query may come out differently when a batch runs again over the same rows.
#
# All of it was tried by running a batch again: Spark gives `rand(42)`, `uuid()` and their like a new seed
# in each attempt, whatever the query says; `current_timestamp()` and `current_date()` come from the record
# of the batch, while `now()` and `current_time()` look at the clock again; the name of a file stays what it
# was.

_CALL = re.compile(r"[`\w.]+(?=\()")
# PySpark gives `rand()` and its like a seed of its own, which nobody wrote.
_DRAWN_SEED = re.compile(
    r"\b((?:rand|randn|random|randstr|uniform|shuffle|uuid)\([^()]*?)(?:, )?-?\d{10,}L?\)"
)
_ALIAS = re.compile(r" AS (`[^`]*`|\w+)$")
_SAME = frozenset({"input_file_name", "input_file_block_start", "input_file_block_length"})
_CLOCK = frozenset({"now", "current_time"})
_TASKS = frozenset({"spark_partition_id", "monotonically_increasing_id"})
_JAVA = frozenset({"reflect", "java_method", "try_reflect"})
_RANDOM = frozenset({"rand", "random", "randn", "randstr", "uniform", "shuffle", "uuid"})
_ORDERED = {
    "first": "min_by",
    "firstvalue": "min_by",
    "last": "max_by",
    "lastvalue": "max_by",
    "anyvalue": "min",
    "listagg": "",
    "stringagg": "",
}


class Sort(StrEnum):
    """Why something comes out differently."""

    RANDOM = "random"
    CLOCK = "clock"
    TASKS = "tasks"
    OWN = "own"
    ORDER = "order"


@dataclass(frozen=True)
class Differs:
    """A part of a query that may give another value when a batch runs again."""

    sort: Sort
    what: str
    """As users wrote it, for a sentence."""
    why: str
    instead: str
    """What to write instead, as a sentence."""
    step: Expression | Operator


def differing(facts: QueryFacts) -> tuple[Differs, ...]:
    """All such parts of a query, from the sources up as far as that is known."""
    marked = {each.name for each in facts.python_functions if not each.deterministic}
    expressions = [_expression(each, marked) for each in facts.non_deterministic]
    steps = [each for operator in facts.operators if operator.streams for each in _step(facts, operator)]
    found = [*(each for each in expressions if each), *steps]
    shown = {_name(each.what) for each in found}
    found += [_own(Expression(f"{name}(…)")) for name in sorted(marked) if name.lower() not in shown]
    return tuple(found)


def _expression(expression: Expression, marked: set[str]) -> Differs | None:
    name = _name(expression.sql)
    if name in _SAME:
        return None
    if name in _CLOCK:
        return Differs(
            Sort.CLOCK,
            f"`{name}()`",
            "it looks at the clock anew",
            "Write `current_timestamp()`, which is noted with the batch and stays the same.",
            expression,
        )
    if name in _TASKS:
        return Differs(
            Sort.TASKS,
            f"`{name}()`",
            "it tells how rows are divided among tasks, which changes with cores and settings",
            "Use a column that tells rows apart, or a hash of several: `xxhash64(id, at)`.",
            expression,
        )
    if name in _JAVA or name not in _RANDOM or name in {each.lower() for each in marked}:
        return _own(expression)
    return Differs(
        Sort.RANDOM,
        f"`{_as_written(expression.sql)}`",
        "Spark draws anew in each attempt, with a given seed, too",
        _instead_of_chance(name),
        expression,
    )


def _as_written(sql: str) -> str:
    """A call of chance without the seed that PySpark drew for it."""
    return _DRAWN_SEED.sub(r"\1)", sql)


def _instead_of_chance(name: str) -> str:
    if name == "uuid":
        return "Make the id from columns that tell rows apart: `sha2(concat_ws('|', a, b), 256)`."
    return "Compute it from the row, which gives the same each time: `pmod(xxhash64(id), 100)` is in 0 … 99."


def _own(expression: Expression) -> Differs:
    name = _name(expression.sql)
    if name in _JAVA:
        why = "Spark can't know what a method of Java gives"
        instead = "Use a function of Spark's; or accept this, if the method always gives the same."
    else:
        why = "it is marked as non-deterministic"
        instead = (
            "If it gives the same for the same row, leave `asNondeterministic()` out or accept this; if not, "
            "let it compute from the row alone."
        )
    return Differs(Sort.OWN, f"`{expression.sql}`", why, instead, expression)


def _step(facts: QueryFacts, operator: Operator) -> Iterator[Differs]:
    ordered = any(facts.operators[each].kind is Kind.SORT for each in operator.inputs)
    if operator.kind is Kind.LIMIT and not ordered:
        why = "which rows come first depends on which task is faster"
        yield Differs(Sort.ORDER, f"`{operator.name}`", why, "Filter by a column instead.", operator)
    if operator.kind is Kind.AGGREGATION:
        yield from (_ordered(operator, each) for each in operator.aggregates if depends_on_order(each))


def depends_on_order(aggregate: Aggregate) -> bool:
    """Whether another order of the rows gives another value; of lists only the order of their items."""
    plain = aggregate.function.replace("_", "").lower()
    return plain in _ORDERED and "WITHIN GROUP" not in aggregate.sql.upper()


def call_of(aggregate: Aggregate) -> str:
    """The call alone, without the name that its value gets."""
    return _ALIAS.sub("", aggregate.sql)


def _ordered(operator: Operator, aggregate: Aggregate) -> Differs:
    plain = aggregate.function.replace("_", "").lower()
    better = _ORDERED[plain]
    if not better:
        instead = "Say the order: `listagg(x) WITHIN GROUP (ORDER BY at)`."
    elif better == "min":
        instead = "Take one that is always the same, such as `min(x)`."
    else:
        instead = f"Say which row by a column: `{better}(x, at)`."
    return Differs(Sort.ORDER, f"`{call_of(aggregate)}`", "the order of rows is not fixed", instead, operator)


def _name(sql: str) -> str:
    """The function that an expression calls first."""
    found = _CALL.search(sql)
    return found[0].strip("`").lower() if found else sql.strip("`").lower()


class Level(StrEnum):
    """How often a row takes effect, whatever crashes."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"
    AT_MOST_ONCE = "at most once"
    UNKNOWN = "unknown"


class Part(StrEnum):
    """What a guarantee stands on."""

    SOURCE = "source"
    QUERY = "query"
    SINK = "sink"


@dataclass(frozen=True)
class Reason:
    """What one part gives, why, and what would raise it."""

    part: Part
    level: Level
    why: str
    raised_by: str = ""
    """Empty where nothing is to be raised."""

    def to_json(self) -> dict[str, Any]:
        return {
            "part": self.part.value,
            "level": self.level.value,
            "why": self.why,
            "raised_by": self.raised_by or None,
        }


@dataclass(frozen=True)
class Guarantee:
    """What a sink gives, and on what that stands."""

    level: Level
    reasons: tuple[Reason, ...]

    @classmethod
    def of(cls, reasons: Iterable[Reason]) -> Guarantee:
        """The weakest of all parts."""
        told = tuple(reasons)
        return cls(_weakest(told), told)

    @property
    def lowering(self) -> tuple[Reason, ...]:
        """The reasons for which it is not exactly once."""
        return tuple(each for each in self.reasons if each.level is not Level.EXACTLY_ONCE)

    def to_json(self) -> dict[str, Any]:
        return {"level": self.level.value, "reasons": [each.to_json() for each in self.reasons]}

    def line(self) -> str:
        """For people, in a line: the level, and what lowers it or else what it stands on."""
        told = "; ".join(f"{each.part.value}: {each.why}" for each in self.lowering or self.reasons)
        return f"{self.level.value} ({told})"

    def lines(self) -> list[str]:
        """For people: the level, then what lowers it and what would raise it, or all that it stands on."""
        told = [self.level.value]
        for each in self.lowering or self.reasons:
            told.append(f"  {each.part.value}: {each.why}")
            if each.raised_by:
                told.append(f"    to raise it: {each.raised_by}")
        return told


def guarantee_of(facts: QueryFacts) -> Guarantee:
    """The guarantee of one sink, from what Spark will do for it."""
    sources = [_source(each) for each in facts.sources]
    return Guarantee.of([*sources, *_query(facts), _sink(facts.connector, facts.delivery)])


def guarantee_offline(spec: PipelineSpec, graph: Graph, sink: SinkSpec) -> Guarantee:
    """What is known without Spark; the query is unknown, so this says exactly once never."""
    side = known_sink(sink.connector)
    paced = list(_paced(str(sink.trigger)))
    unknown = Reason(Part.QUERY, Level.UNKNOWN, "only Spark can tell what it computes", "a check with Spark")
    return Guarantee.of(
        [
            *_sources_offline(spec, graph, sink),
            *(paced or [unknown]),
            _sink(sink.connector, side.delivers(sink.options).name if side else ""),
        ]
    )


def is_kept(facts: QueryFacts) -> bool:
    """Whether what a sink got outlives a crash, and each row would count once, but for the query and sink."""
    side = known_sink(facts.connector)
    if side is None:
        keeps = bool(facts.connector)
    else:
        # Where the user's own code puts the rows nobody knows; most keep them.
        keeps = (side.stores or side.delivery is Delivery.USER) and not side.in_process
    others = [*map(_source, facts.sources), *_paced(facts.trigger)]
    return keeps and not any(each.level in (Level.AT_MOST_ONCE, Level.AT_LEAST_ONCE) for each in others)


def is_kept_once(facts: QueryFacts) -> bool:
    """Whether a sink keeps rows and would have each once, if only the query gave the same rows again."""
    # Readers tell repeats by what is in the rows, so the rows of a second attempt have to be the same.
    return is_kept(facts) and facts.delivery in (Delivery.IDEMPOTENT.name, Delivery.MARKED.name)


def _weakest(reasons: tuple[Reason, ...]) -> Level:
    levels = {each.level for each in reasons}
    if Level.AT_MOST_ONCE in levels:
        return Level.AT_MOST_ONCE
    # An unknown source or sink may lose rows; an unknown query can only repeat them.
    if any(each.level is Level.UNKNOWN and each.part is not Part.QUERY for each in reasons):
        return Level.UNKNOWN
    if Level.AT_LEAST_ONCE in levels:
        return Level.AT_LEAST_ONCE
    return Level.UNKNOWN if Level.UNKNOWN in levels else Level.EXACTLY_ONCE


def _source(source: SourceFacts) -> Reason:
    name = f"`{source.name}` ({source.connector})"
    if not source.streaming:
        return _static(name, source.options.get("refresh", str(Never())) != str(Never()))
    if not source.known:
        why = f"whether a batch of {name} can be read again is not known"
        return Reason(Part.SOURCE, Level.UNKNOWN, why, "the word of whoever wrote that source")
    if source.own_code:
        return _by_own_class(name)
    return _streaming(name, source.replayable)


def _streaming(name: str, replayable: bool) -> Reason:
    if replayable:
        return Reason(Part.SOURCE, Level.EXACTLY_ONCE, f"a batch of {name} can be read again")
    return Reason(
        Part.SOURCE,
        Level.AT_MOST_ONCE,
        f"{name} can't be read again: what a failing batch had taken is lost",
        "a source that keeps its rows, such as `files`",
    )


def _by_own_class(name: str) -> Reason:
    return Reason(
        Part.SOURCE,
        Level.UNKNOWN,
        f"your class decides for {name}: the same offsets must give the same rows, also in a new process",
        "a class that reads them from where they are kept; Headwater can't see that it does",
    )


def _static(name: str, refreshes: bool) -> Reason:
    if not refreshes:
        why = f"{name} is read anew at each start: exactly once as long as its rows stay the same"
        return Reason(Part.SOURCE, Level.EXACTLY_ONCE, why)
    return Reason(
        Part.SOURCE,
        Level.AT_LEAST_ONCE,
        f"{name} refreshes: a batch that runs again may meet other static rows and give other results",
        "`refresh: never`, and static rows that do not change",
    )


def _query(facts: QueryFacts) -> Iterator[Reason]:
    paced = list(_paced(facts.trigger))
    yield from paced
    found = differing(facts)
    for each in found:
        why = f"{each.what} may give another value when a batch runs again: {each.why}"
        yield Reason(Part.QUERY, Level.AT_LEAST_ONCE, why, each.instead)
    if not paced and not found:
        yield Reason(Part.QUERY, Level.EXACTLY_ONCE, "it gives the same rows for the same input")


def _paced(trigger: str) -> Iterator[Reason]:
    """What the trigger takes away; batches take nothing."""
    why = ""
    if trigger.startswith("continuous"):
        why = "continuous processing hands rows on before it notes how far it has come"
    if trigger.startswith("real time"):
        why = "in real time rows go out while their batch still runs"
    if why:
        yield Reason(Part.QUERY, Level.AT_LEAST_ONCE, why, "a trigger of batches, such as `every 1 second`")


def _sink(connector: str, delivery: str) -> Reason:
    if delivery not in Delivery.__members__:
        why = f"what {connector or 'the sink'} does with a batch that comes again is not known"
        return Reason(Part.SINK, Level.UNKNOWN, why, "the word of whoever wrote that sink")
    kind, side = Delivery[delivery], known_sink(connector)
    if kind is Delivery.IDEMPOTENT:
        return Reason(Part.SINK, Level.EXACTLY_ONCE, _kept_how(connector, side))
    if kind is not Delivery.USER:
        return _repeating(connector, kind, side)
    return Reason(
        Part.SINK,
        Level.AT_LEAST_ONCE,
        "your code gets a batch that runs again a second time, with the same number and rows",
        "code that a second call does not change: replace what that number wrote, note the number in the "
        "transaction that writes the rows, or write by key",
    )


def _repeating(connector: str, kind: Delivery, side: Sink[Any] | None) -> Reason:
    again = f"{connector} writes a batch that runs again a second time"
    if kind is Delivery.UNCONFIRMED:
        why = f"{connector} is not asked whether it has a row for good, so rows may be lost; {again}"
        return Reason(Part.SINK, Level.UNKNOWN, why, "`acks: all`")
    if kind is Delivery.MARKED:
        why = f"{again}, with marks by which readers tell it"
        return Reason(Part.SINK, Level.AT_LEAST_ONCE, why, "readers that drop what they have by these marks")
    passes_over = "a sink that passes over what it has, such as `files`"
    raised = side.raised_by if side and side.raised_by else passes_over
    return Reason(Part.SINK, Level.AT_LEAST_ONCE, again, raised)


def _kept_how(connector: str, side: Sink[Any] | None) -> str:
    if side and side.in_process:
        return f"{connector} lives as long as the process, and begins anew with its query"
    if side and isinstance(side, ForgetsBatches):
        return f"{connector} holds a batch that runs again once: who reads by its log sees each row once"
    return f"a batch that runs again changes nothing in {connector}"


def known_sink(connector: str) -> Sink[Any] | None:
    """What a connector says of itself; what a plain program writes to may be none of ours."""
    known = all_connectors().get(connector)
    return known.sink if known else None


def _sources_offline(spec: PipelineSpec, graph: Graph, sink: SinkSpec) -> list[Reason]:
    names = {name.lower(): name for name in spec.names}
    needed = graph.upstream(names[sink.reads.lower()]) if sink.reads.lower() in names else ()
    certain = [_declared(each) for each in spec.sources if each.name in needed]
    if needed and all(graph.reads.get(each) is not None for each in needed):
        return certain
    possible = [_declared(each) for each in spec.sources if each.name not in needed]
    if needed and all(each.level is Level.EXACTLY_ONCE for each in possible):
        return certain
    why = "which sources it reads, only Spark can tell"
    return [*certain, Reason(Part.SOURCE, Level.UNKNOWN, why, "a check with Spark")]


def _declared(source: SourceSpec) -> Reason:
    side, name = source_side(source.connector), f"`{source.name}` ({source.connector})"
    if source.static:
        return _static(name, not isinstance(source.refresh, Never))
    return _by_own_class(name) if side.functions(source.options) else _streaming(name, side.replayable)
