"""How often a row takes effect in a sink: the weakest of source, query and sink, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
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
_INSTEAD_OF_ORDER = {
    **dict.fromkeys(("first", "firstvalue"), "Say which row by a column: `min_by(x, at)`."),
    **dict.fromkeys(("last", "lastvalue"), "Say which row by a column: `max_by(x, at)`."),
    "anyvalue": "Take one that is always the same, such as `min(x)`.",
    **dict.fromkeys(("listagg", "stringagg"), "Say the order: `listagg(x) WITHIN GROUP (ORDER BY at)`."),
}


class Cause(StrEnum):
    """Why something comes out differently."""

    RANDOM = "random"
    CLOCK = "clock"
    TASKS = "tasks"
    OWN = "own"
    ORDER = "order"


@dataclass(frozen=True)
class UnstablePart:
    """A part of a query that may give another value when a batch runs again."""

    cause: Cause
    what: str
    """As users wrote it, for a sentence."""
    why: str
    instead: str
    """What to write instead, as a sentence."""
    step: Expression | Operator


def unstable_parts(facts: QueryFacts) -> tuple[UnstablePart, ...]:
    """All such parts of a query, from the sources up as far as that is known."""
    marked = {each.name for each in facts.python_functions if not each.deterministic}
    expressions = (_expression(each, marked) for each in facts.non_deterministic)
    found = [each for each in expressions if each]
    for step in facts.steps(Kind.LIMIT, Kind.AGGREGATION):
        if step.kind is Kind.LIMIT and not any(each.kind is Kind.SORT for each in facts.inputs_of(step)):
            why = "which rows come first depends on which task is faster"
            found.append(
                UnstablePart(Cause.ORDER, f"`{step.name}`", why, "Filter by a column instead.", step)
            )
        for each in step.aggregates if step.kind is Kind.AGGREGATION else ():
            plain = each.function.replace("_", "").lower()
            # Of a list only the order of its items depends on that of the rows.
            if plain in _INSTEAD_OF_ORDER and "WITHIN GROUP" not in each.sql.upper():
                why, instead = "the order of rows is not fixed", _INSTEAD_OF_ORDER[plain]
                found.append(UnstablePart(Cause.ORDER, f"`{call_of(each)}`", why, instead, step))
    shown = {_name(each.what) for each in found}
    found += [_own(Expression(f"{name}(…)")) for name in sorted(marked) if name.lower() not in shown]
    return tuple(found)


def _expression(expression: Expression, marked: set[str]) -> UnstablePart | None:
    name = _name(expression.sql)
    if name in _SAME:
        return None
    if name in _CLOCK:
        why = "it looks at the clock anew"
        instead = "Write `current_timestamp()`, which is noted with the batch and stays the same."
        return UnstablePart(Cause.CLOCK, f"`{name}()`", why, instead, expression)
    if name in _TASKS:
        why = "it tells how rows are divided among tasks, which changes with cores and settings"
        instead = "Use a column that tells rows apart, or a hash of several: `xxhash64(id, at)`."
        return UnstablePart(Cause.TASKS, f"`{name}()`", why, instead, expression)
    if name not in _RANDOM or name in {each.lower() for each in marked}:
        return _own(expression)
    why = "Spark draws anew in each attempt, with a given seed, too"
    instead = (
        "Compute it from the row, which gives the same each time: `pmod(xxhash64(id), 100)` is in 0 … 99."
    )
    if name == "uuid":
        instead = "Make the id from columns that tell rows apart: `sha2(concat_ws('|', a, b), 256)`."
    written = _DRAWN_SEED.sub(r"\1)", expression.sql)
    return UnstablePart(Cause.RANDOM, f"`{written}`", why, instead, expression)


def _own(expression: Expression) -> UnstablePart:
    why = "it is marked as non-deterministic"
    instead = (
        "If it gives the same for the same row, leave `asNondeterministic()` out or accept this; if not, "
        "let it compute from the row alone."
    )
    if _name(expression.sql) in _JAVA:
        why = "Spark can't know what a method of Java gives"
        instead = "Use a function of Spark's; or accept this, if the method always gives the same."
    return UnstablePart(Cause.OWN, f"`{expression.sql}`", why, instead, expression)


def call_of(aggregate: Aggregate) -> str:
    """The call alone, without the name that its value gets."""
    return _ALIAS.sub("", aggregate.sql)


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
class GuaranteeReason:
    """What one part gives, why, and what would raise it."""

    part: Part
    level: Level
    why: str
    raised_by: str = ""
    """Empty where nothing is to be raised."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "raised_by": self.raised_by or None}


@dataclass(frozen=True)
class Guarantee:
    """What a sink gives, and on what that stands."""

    level: Level
    reasons: tuple[GuaranteeReason, ...]

    @classmethod
    def of(cls, reasons: Iterable[GuaranteeReason]) -> Guarantee:
        """The weakest of all parts."""
        every = tuple(reasons)
        levels = {each.level for each in every}
        # An unknown source or sink may lose rows; an unknown query can only repeat them.
        may_lose = any(each.level is Level.UNKNOWN and each.part is not Part.QUERY for each in every)
        weakest = (
            Level.AT_MOST_ONCE
            if Level.AT_MOST_ONCE in levels
            else Level.UNKNOWN
            if may_lose
            else Level.AT_LEAST_ONCE
            if Level.AT_LEAST_ONCE in levels
            else Level.UNKNOWN
            if Level.UNKNOWN in levels
            else Level.EXACTLY_ONCE
        )
        return cls(weakest, every)

    @property
    def lowering(self) -> tuple[GuaranteeReason, ...]:
        """The reasons for which it is not exactly once."""
        return tuple(each for each in self.reasons if each.level is not Level.EXACTLY_ONCE)

    def to_json(self) -> dict[str, Any]:
        return {"level": self.level.value, "reasons": [each.to_json() for each in self.reasons]}

    def line(self) -> str:
        """For people, in a line: the level, and what lowers it or else what it stands on."""
        why = "; ".join(f"{each.part.value}: {each.why}" for each in self.lowering or self.reasons)
        return f"{self.level.value} ({why})"

    def lines(self) -> list[str]:
        """For people: the level, then what lowers it and what would raise it, or all that it stands on."""
        lines = [self.level.value]
        for each in self.lowering or self.reasons:
            lines.append(f"  {each.part.value}: {each.why}")
            if each.raised_by:
                lines.append(f"    to raise it: {each.raised_by}")
        return lines


def guarantee_of(facts: QueryFacts) -> Guarantee:
    """The guarantee of one sink, from what Spark will do for it."""
    sources = [_source(each) for each in facts.sources]
    return Guarantee.of([*sources, *_query(facts), _sink(facts.connector, facts.delivery)])


def guarantee_offline(spec: PipelineSpec, graph: Graph, sink: SinkSpec) -> Guarantee:
    """What is known without Spark; the query is unknown, so this says exactly once never."""
    names = {name.lower(): name for name in spec.names}
    needed = graph.upstream(names[sink.reads.lower()]) if sink.reads.lower() in names else ()
    declared = {each.name: _declared(each) for each in spec.sources}
    reasons = [each for name, each in declared.items() if name in needed]
    known = needed and all(graph.reads.get(each) is not None for each in needed)
    possible = [each.level for name, each in declared.items() if name not in needed]
    if not known and not (needed and all(level is Level.EXACTLY_ONCE for level in possible)):
        why = "which sources it reads, only Spark can tell"
        reasons.append(GuaranteeReason(Part.SOURCE, Level.UNKNOWN, why, "a check with Spark"))
    unknown = GuaranteeReason(
        Part.QUERY, Level.UNKNOWN, "only Spark can tell what it computes", "a check with Spark"
    )
    side = known_sink(sink.connector)
    delivery = side.delivers(sink.options).name if side else ""
    return Guarantee.of(
        [*reasons, *(_paced(str(sink.trigger)) or [unknown]), _sink(sink.connector, delivery)]
    )


def is_kept(facts: QueryFacts) -> bool:
    """Whether what a sink got outlives a crash, and each row would count once, but for the query and sink."""
    side = known_sink(facts.connector)
    keeps = bool(facts.connector)
    if side:
        # Where the user's own code puts the rows nobody knows; most keep them.
        keeps = (side.stores or side.delivery is Delivery.USER) and not side.in_process
    others = [*map(_source, facts.sources), *_paced(facts.trigger)]
    return keeps and not any(each.level in (Level.AT_MOST_ONCE, Level.AT_LEAST_ONCE) for each in others)


def is_kept_once(facts: QueryFacts) -> bool:
    """Whether a sink keeps rows and would have each once, if only the query gave the same rows again."""
    # Readers tell repeats by what is in the rows, so the rows of a second attempt have to be the same.
    return is_kept(facts) and facts.delivery in (Delivery.IDEMPOTENT.name, Delivery.MARKED.name)


def _source(source: SourceFacts) -> GuaranteeReason:
    name = f"`{source.name}` ({source.connector})"
    if not source.streaming and source.options.get("refresh", str(Never())) != str(Never()):
        level, raised_by = Level.AT_LEAST_ONCE, "`refresh: never`, and static rows that do not change"
        why = f"{name} refreshes: a batch that runs again may meet other static rows and give other results"
    elif not source.streaming:
        level, raised_by = Level.EXACTLY_ONCE, ""
        why = f"{name} is read anew at each start: exactly once as long as its rows stay the same"
    elif not source.known:
        level, raised_by = Level.UNKNOWN, "the word of whoever wrote that source"
        why = f"whether a batch of {name} can be read again is not known"
    elif source.own_code:
        level = Level.UNKNOWN
        why = (
            f"your class decides for {name}: the same offsets must give the same rows, also in a new process"
        )
        raised_by = "a class that reads them from where they are kept; Headwater can't see that it does"
    elif source.replayable:
        level, why, raised_by = Level.EXACTLY_ONCE, f"a batch of {name} can be read again", ""
    else:
        level, raised_by = Level.AT_MOST_ONCE, "a source that keeps its rows, such as `files`"
        why = f"{name} can't be read again: what a failing batch had taken is lost"
    return GuaranteeReason(Part.SOURCE, level, why, raised_by)


def _declared(source: SourceSpec) -> GuaranteeReason:
    """The same of a source as it was declared."""
    side = source_side(source.connector)
    return _source(
        SourceFacts(
            source.name,
            source.connector,
            streaming=not source.static,
            replayable=side.replayable,
            options={"refresh": str(source.refresh)},
            own_code=bool(side.functions(source.options)),
        )
    )


def _query(facts: QueryFacts) -> list[GuaranteeReason]:
    reasons = _paced(facts.trigger)
    for each in unstable_parts(facts):
        why = f"{each.what} may give another value when a batch runs again: {each.why}"
        reasons.append(GuaranteeReason(Part.QUERY, Level.AT_LEAST_ONCE, why, each.instead))
    same = GuaranteeReason(Part.QUERY, Level.EXACTLY_ONCE, "it gives the same rows for the same input")
    return reasons or [same]


def _paced(trigger: str) -> list[GuaranteeReason]:
    """What the trigger takes away; batches take nothing."""
    reasons = {
        "continuous": "continuous processing hands rows on before it notes how far it has come",
        "real time": "in real time rows go out while their batch still runs",
    }
    raised_by = "a trigger of batches, such as `every 1 second`"
    found = (why for start, why in reasons.items() if trigger.startswith(start))
    return [GuaranteeReason(Part.QUERY, Level.AT_LEAST_ONCE, why, raised_by) for why in found]


def _sink(connector: str, delivery: str) -> GuaranteeReason:
    side, level = known_sink(connector), Level.AT_LEAST_ONCE
    has_log = isinstance(side, ForgetsBatches)
    again = f"{connector} writes a batch that runs again a second time"
    match Delivery.__members__.get(delivery):
        case None:
            level, raised_by = Level.UNKNOWN, "the word of whoever wrote that sink"
            why = f"what {connector or 'the sink'} does with a batch that comes again is not known"
        case Delivery.IDEMPOTENT:
            level, raised_by = Level.EXACTLY_ONCE, ""
            why = f"a batch that runs again changes nothing in {connector}"
            if side and side.in_process:
                why = f"{connector} lives as long as the process, and begins anew with its query"
            elif has_log:
                why = (
                    f"{connector} holds a batch that runs again once: who reads by its log sees each row once"
                )
        case Delivery.UNCONFIRMED:
            level, raised_by = Level.UNKNOWN, "`acks: all`"
            why = f"{connector} is not asked whether it has a row for good, so rows may be lost; {again}"
        case Delivery.MARKED:
            why = f"{again}, with marks by which readers tell it"
            raised_by = "readers that drop what they have by these marks"
        case Delivery.USER:
            why = "your code gets a batch that runs again a second time, with the same number and rows"
            raised_by = (
                "code that a second call does not change: replace what that number wrote, note the number in "
                "the transaction that writes the rows, or write by key"
            )
        case _:
            why, raised_by = again, "a sink that passes over what it has, such as `files`"
            if side and side.raised_by:
                raised_by = side.raised_by
    return GuaranteeReason(Part.SINK, level, why, raised_by)


def known_sink(connector: str) -> Sink[Any] | None:
    """What a connector says of itself; what a plain program writes to may be none of ours."""
    known = all_connectors().get(connector)
    return known.sink if known else None
