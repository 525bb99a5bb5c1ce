"""The delivery guarantee of a sink: the weakest of source, query and sink, each with its reason."""

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
from headwater.plan.predicates import delivery_of
from headwater.spec import Delivery, PipelineSpec, SinkSpec, SourceSpec
from headwater.values import Never

# The parts of a query whose results can differ when Spark retries a batch with the same rows.
#
# All of this was verified by retrying a batch: Spark seeds `rand(42)`, `uuid()` and similar functions again
# in each attempt, regardless of the seed in the query. `current_timestamp()` and `current_date()` are stored
# with the batch, but `now()` and `current_time()` read the clock again. File names do not change.

_CALL = re.compile(r"[`\w.]+(?=\()")
# PySpark adds a seed to `rand()` and similar functions.
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
    **dict.fromkeys(("first", "firstvalue"), "Select the row by a column: `min_by(x, at)`."),
    **dict.fromkeys(("last", "lastvalue"), "Select the row by a column: `max_by(x, at)`."),
    "anyvalue": "Use a deterministic aggregate, such as `min(x)`.",
    **dict.fromkeys(("listagg", "stringagg"), "Specify the order: `listagg(x) WITHIN GROUP (ORDER BY at)`."),
}


class Cause(StrEnum):
    """Why a result differs."""

    RANDOM = "random"
    CLOCK = "clock"
    TASKS = "tasks"
    OWN = "own"
    ORDER = "order"


@dataclass(frozen=True)
class UnstablePart:
    """A part of a query that can return a different value when Spark retries a batch."""

    cause: Cause
    what: str
    """The expression as in the query, in backticks."""
    why: str
    instead: str
    """What to write instead, as a hint."""
    step: Expression | Operator


def unstable_parts(facts: QueryFacts) -> tuple[UnstablePart, ...]:
    """All such parts of a query, from the sources to the sink if known."""
    marked = {each.name for each in facts.python_functions if not each.deterministic}
    expressions = (_expression(each, marked) for each in facts.non_deterministic)
    found = [each for each in expressions if each]
    for step in facts.steps(Kind.LIMIT, Kind.AGGREGATION):
        if step.kind is Kind.LIMIT and not any(each.kind is Kind.SORT for each in facts.inputs_of(step)):
            why = "which rows are first depends on which task is faster"
            found.append(
                UnstablePart(Cause.ORDER, f"`{step.name}`", why, "Filter by a column instead.", step)
            )
        for each in step.aggregates if step.kind is Kind.AGGREGATION else ():
            plain = each.function.replace("_", "").lower()
            # In a list, only the order of the items depends on the order of the rows.
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
        why = "it reads the clock again"
        instead = "Use `current_timestamp()`, which Spark stores with the batch."
        return UnstablePart(Cause.CLOCK, f"`{name}()`", why, instead, expression)
    if name in _TASKS:
        why = "it depends on how rows are distributed across tasks"
        instead = "Use a column that identifies the row, or a hash of several: `xxhash64(id, at)`."
        return UnstablePart(Cause.TASKS, f"`{name}()`", why, instead, expression)
    if name not in _RANDOM or name in {each.lower() for each in marked}:
        return _own(expression)
    why = "Spark draws new random values in each attempt, even with a fixed seed"
    instead = "Compute the value from the row: `pmod(xxhash64(id), 100)` returns a number from 0 to 99."
    if name == "uuid":
        instead = "Derive the ID from columns that identify the row: `sha2(concat_ws('|', a, b), 256)`."
    written = _DRAWN_SEED.sub(r"\1)", expression.sql)
    return UnstablePart(Cause.RANDOM, f"`{written}`", why, instead, expression)


def _own(expression: Expression) -> UnstablePart:
    why = "it is marked as nondeterministic"
    instead = (
        "Compute its result from the row alone. If it already is deterministic, remove "
        "`asNondeterministic()` or suppress this finding."
    )
    if _name(expression.sql) in _JAVA:
        why = "Spark cannot know what a Java method returns"
        instead = "Use a Spark function. If the method is deterministic, suppress this finding."
    return UnstablePart(Cause.OWN, f"`{expression.sql}`", why, instead, expression)


def call_of(aggregate: Aggregate) -> str:
    """The call without its alias."""
    return _ALIAS.sub("", aggregate.sql)


def _name(sql: str) -> str:
    """The function that an expression calls first."""
    found = _CALL.search(sql)
    return found[0].strip("`").lower() if found else sql.strip("`").lower()


class Level(StrEnum):
    """How often a row takes effect in the sink, including after a crash."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"
    UNKNOWN = "unknown"


class Part(StrEnum):
    """What a delivery guarantee depends on."""

    SOURCE = "source"
    QUERY = "query"
    SINK = "sink"


@dataclass(frozen=True)
class GuaranteeReason:
    """The guarantee of one part, the reason, and how to improve it."""

    part: Part
    level: Level
    why: str
    raised_by: str = ""
    """What to do, as a phrase without a period; empty if it cannot be improved."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "raised_by": self.raised_by or None}


@dataclass(frozen=True)
class Guarantee:
    """The delivery guarantee of a sink, with its reasons."""

    level: Level
    reasons: tuple[GuaranteeReason, ...]

    @classmethod
    def of(cls, reasons: Iterable[GuaranteeReason]) -> Guarantee:
        """The weakest of all parts."""
        every = tuple(reasons)
        levels = {each.level for each in every}
        # An unknown source or sink can lose rows; an unknown query can only duplicate them.
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
        """The reasons why it is not exactly-once."""
        return tuple(each for each in self.reasons if each.level is not Level.EXACTLY_ONCE)

    def to_json(self) -> dict[str, Any]:
        return {"level": self.level.value, "reasons": [each.to_json() for each in self.reasons]}

    def line(self) -> str:
        """One line of text: the level, and what lowers it, or else all reasons."""
        why = "; ".join(f"{each.part.value}: {each.why}" for each in self.lowering or self.reasons)
        return f"{self.level.value} ({why})"

    def lines(self) -> list[str]:
        """Several lines of text: the level, then what lowers it and how to improve it, or all reasons."""
        lines = [self.level.value]
        for each in self.lowering or self.reasons:
            lines.append(f"  {each.part.value}: {each.why}")
            if each.raised_by:
                lines.append(f"    to improve it: {each.raised_by}")
        return lines


def guarantee_of(facts: QueryFacts) -> Guarantee:
    """The guarantee of one sink, from the query that Spark will run."""
    sources = [_source(each) for each in facts.sources]
    return Guarantee.of([*sources, *_query(facts), _sink(facts.connector, facts.delivery, facts.group)])


def weakest(sinks: Iterable[QueryFacts]) -> Level:
    """The weakest guarantee of the sinks of a query."""
    return Guarantee.of(reason for each in sinks for reason in guarantee_of(each).reasons).level


def guarantee_offline(spec: PipelineSpec, graph: Graph, sink: SinkSpec) -> Guarantee:
    """The guarantee as far as it is known without Spark. The query is unknown, so it is never
    exactly-once."""
    names = {name.lower(): name for name in spec.names}
    needed = graph.upstream(names[sink.reads.lower()]) if sink.reads.lower() in names else ()
    declared = {each.name: _declared(each) for each in spec.sources}
    reasons = [each for name, each in declared.items() if name in needed]
    known = needed and all(graph.reads.get(each) is not None for each in needed)
    possible = [each.level for name, each in declared.items() if name not in needed]
    if not known and not (needed and all(level is Level.EXACTLY_ONCE for level in possible)):
        why = "only Spark can determine which sources it reads"
        reasons.append(GuaranteeReason(Part.SOURCE, Level.UNKNOWN, why, "a check without `--offline`"))
    unknown = GuaranteeReason(
        Part.QUERY,
        Level.UNKNOWN,
        "only Spark can determine what it computes",
        "a check without `--offline`",
    )
    delivery = delivery_of(sink).name if known_sink(sink.connector) else ""
    of_sink = _sink(sink.connector, delivery, sink.group or "")
    return Guarantee.of([*reasons, *(_paced(str(sink.trigger)) or [unknown]), of_sink])


def is_kept(facts: QueryFacts) -> bool:
    """Whether the output survives a crash and is exactly-once apart from the query and the sink."""
    side = known_sink(facts.connector)
    keeps = bool(facts.connector)
    if side:
        # Where user code writes the rows is unknown; most of it stores them.
        keeps = (side.stores or side.delivery is Delivery.USER) and not side.in_process
    others = [*map(_source, facts.sources), *_paced(facts.trigger)]
    return keeps and not any(each.level in (Level.AT_MOST_ONCE, Level.AT_LEAST_ONCE) for each in others)


def is_kept_once(facts: QueryFacts) -> bool:
    """Whether a sink stores rows and is exactly-once if the query returns the same rows on a retry."""
    # Readers recognize duplicates by their contents, so a retry must produce the same rows.
    return is_kept(facts) and facts.delivery in (Delivery.IDEMPOTENT.name, Delivery.MARKED.name)


def _source(source: SourceFacts) -> GuaranteeReason:
    name = f"`{source.name}` ({source.connector})"
    if not source.streaming and source.options.get("refresh", str(Never())) != str(Never()):
        level, raised_by = Level.AT_LEAST_ONCE, "set `refresh: never`, and do not change the static rows"
        why = f"{name} is refreshed: a retried batch can join different static rows and return other results"
    elif not source.streaming:
        level, raised_by = Level.EXACTLY_ONCE, ""
        why = f"{name} is static and read at each start: its rows must not change"
    elif not source.known:
        level, raised_by = Level.UNKNOWN, "use a source that Headwater knows, such as `files` or `kafka`"
        why = f"Headwater does not know whether {name} is replayable"
    elif source.own_code:
        level = Level.UNKNOWN
        why = (
            f"it depends on your class for {name}: the same offsets must return the same rows after a restart"
        )
        raised_by = "use a class that reads stored rows by offset (Headwater cannot verify this)"
    elif source.replayable:
        level, why, raised_by = Level.EXACTLY_ONCE, f"{name} is replayable", ""
    else:
        level, raised_by = Level.AT_MOST_ONCE, "use a replayable source, such as `files` or `kafka`"
        why = f"{name} is not replayable: the rows of a failed batch are lost"
    return GuaranteeReason(Part.SOURCE, level, why, raised_by)


def _declared(source: SourceSpec) -> GuaranteeReason:
    """The same for a declared source."""
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
        why = f"{each.what} can return a different value when Spark retries a batch: {each.why}"
        raised_by = each.instead[0].lower() + each.instead[1:].rstrip(".")
        reasons.append(GuaranteeReason(Part.QUERY, Level.AT_LEAST_ONCE, why, raised_by))
    same = GuaranteeReason(Part.QUERY, Level.EXACTLY_ONCE, "it is deterministic")
    return reasons or [same]


def _paced(trigger: str) -> list[GuaranteeReason]:
    """The reasons of a trigger without micro-batches; micro-batches do not lower the guarantee."""
    reasons = {
        "continuous": "continuous processing emits rows before it commits their offsets",
        "real time": "in real-time mode, rows are emitted before their batch is committed",
    }
    raised_by = "use a micro-batch trigger, such as `every 1 second`"
    found = (why for start, why in reasons.items() if trigger.startswith(start))
    return [GuaranteeReason(Part.QUERY, Level.AT_LEAST_ONCE, why, raised_by) for why in found]


def _sink(connector: str, delivery: str, group: str) -> GuaranteeReason:
    side, level = known_sink(connector), Level.AT_LEAST_ONCE
    has_log = _has_log(connector)
    again = f"{connector} writes a retried batch again"
    match Delivery.__members__.get(delivery):
        case None:
            level, raised_by = Level.UNKNOWN, "use a sink that Headwater knows, such as `files`"
            why = f"Headwater does not know how {connector or 'the sink'} handles a retried batch"
        case Delivery.IDEMPOTENT:
            level, raised_by = Level.EXACTLY_ONCE, ""
            why = f"{connector} is idempotent: a retried batch changes nothing"
            if side and side.in_process:
                why = f"{connector} lives only as long as the process, and each query starts it empty"
            elif has_log and group:
                why = f"{connector} replaces the directory of a retried batch of group `{group}`"
            elif has_log:
                why = f"{connector} records each batch in its log: readers of the log see each row once"
        case Delivery.UNCONFIRMED:
            level, raised_by = Level.UNKNOWN, "set `acks: all`"
            why = f"{connector} does not confirm that it stored a row, so rows can be lost; {again}"
        case Delivery.MARKED:
            why = f"{again}, with headers that identify duplicates"
            raised_by = "drop duplicates by these headers in consumers"
        case Delivery.USER:
            why = "your code receives a retried batch again, with the same batch ID and rows"
            raised_by = (
                "use idempotent writes: overwrite the output of the same batch ID, store the batch ID in the "
                "same transaction as the rows, or upsert by key (Headwater cannot verify this)"
            )
        case _:
            why, raised_by = again, "use an idempotent sink, such as `files`"
            if side and side.raised_by:
                raised_by = side.raised_by
    return GuaranteeReason(Part.SINK, level, why, raised_by)


def after_suspension(facts: QueryFacts) -> str:
    """What the sink contains after another run has taken over from a process that was suspended.

    The lock does not stop a suspended process: it ends when it continues, and may first complete its batch. Spark's
    logs accept each batch once, so it is only this one.
    """
    side, twice = known_sink(facts.connector), "the batch in progress can be written twice"
    has_log = _has_log(facts.connector)
    if side and side.in_process:
        return "each process has its own rows"
    if side and side.fences:
        return "the database rejects the batches of the suspended process: each row is written once"
    if facts.group and has_log:
        return "the directory names the newest run, so a suspended process changes nothing: each row is written once"
    match Delivery.__members__.get(facts.delivery):
        case None:
            return f"unknown: Headwater does not know how {facts.connector or 'the sink'} handles a retried batch"
        case Delivery.IDEMPOTENT if has_log:
            return "readers of the log see each row once; the directory can contain files that the log does not list"
        case Delivery.IDEMPOTENT:
            return f"{twice}, which changes nothing if the sink identifies it by its ID"
        case Delivery.MARKED:
            return f"{twice}, also after later batches; its headers identify the duplicates"
        case Delivery.USER:
            return (
                "your code can receive the batch in progress twice, also at the same time and after later batches: "
                "store its ID in the same transaction as its rows"
            )
        case _:
            return f"{twice}, also after later batches"


def _has_log(connector: str) -> bool:
    """Whether a sink with its own query records its batches in a log for readers."""
    return isinstance(known_sink(connector), ForgetsBatches)


def known_sink(connector: str) -> Sink[Any] | None:
    """The sink of a connector; None for a format that Headwater does not know."""
    known = all_connectors().get(connector)
    return known.sink if known else None
