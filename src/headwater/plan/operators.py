"""The steps of a query, as plain values that the rules read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cache

from pydantic import TypeAdapter


class Kind(StrEnum):
    """What a step does, as far as it matters on a stream; projections and filters are not listed."""

    WATERMARK = "watermark"
    AGGREGATION = "aggregation"
    DEDUP = "dedup"
    DEDUP_WITHIN_WATERMARK = "dedup within watermark"
    JOIN = "join"
    """Of two streams."""
    STATIC_JOIN = "join with static"
    STATE = "arbitrary state"
    LIMIT = "limit"
    OFFSET = "offset"
    SORT = "sort"
    DISTINCT = "distinct"
    WINDOW_FUNCTION = "window function"
    GROUPED_MAP = "grouped map"
    """`applyInPandas` and its like: called with the groups of one batch."""
    COGROUPED_MAP = "cogrouped map"
    UNION = "union"
    SET_OPERATION = "set operation"
    """INTERSECT and EXCEPT."""
    SAMPLE = "sample"


KINDS = {
    "Aggregate": (Kind.AGGREGATION, "GROUP BY"),
    "CoGroup": (Kind.COGROUPED_MAP, "cogroup"),
    "Deduplicate": (Kind.DEDUP, "dropDuplicates"),
    "DeduplicateWithinWatermark": (Kind.DEDUP_WITHIN_WATERMARK, "dropDuplicatesWithinWatermark"),
    "Distinct": (Kind.DISTINCT, "SELECT DISTINCT"),
    "EventTimeWatermark": (Kind.WATERMARK, "watermark"),
    "Except": (Kind.SET_OPERATION, "EXCEPT"),
    "FlatMapCoGroupsInArrow": (Kind.COGROUPED_MAP, "cogroup.applyInArrow"),
    "FlatMapCoGroupsInPandas": (Kind.COGROUPED_MAP, "cogroup.applyInPandas"),
    "FlatMapGroupsInArrow": (Kind.GROUPED_MAP, "applyInArrow"),
    "FlatMapGroupsInPandas": (Kind.GROUPED_MAP, "applyInPandas"),
    "FlatMapGroupsInPandasWithState": (Kind.STATE, "applyInPandasWithState"),
    "GlobalLimit": (Kind.LIMIT, "LIMIT"),
    "Intersect": (Kind.SET_OPERATION, "INTERSECT"),
    "MapGroups": (Kind.GROUPED_MAP, "mapGroups"),
    "Offset": (Kind.OFFSET, "OFFSET"),
    "Sample": (Kind.SAMPLE, "sample"),
    "Sort": (Kind.SORT, "ORDER BY"),
    "Tail": (Kind.LIMIT, "tail"),
    "TransformWithStateInPySpark": (Kind.STATE, "transformWithState"),
    "Union": (Kind.UNION, "UNION"),
    "Window": (Kind.WINDOW_FUNCTION, "OVER"),
    "WindowInPandas": (Kind.WINDOW_FUNCTION, "OVER"),
}
"""The nodes of Spark's plans that are steps, with the names that users give them; a join has its type's."""


STATEFUL = frozenset(
    {
        Kind.AGGREGATION, Kind.DEDUP, Kind.DEDUP_WITHIN_WATERMARK, Kind.DISTINCT, Kind.JOIN, Kind.LIMIT,
        Kind.STATE,
    }
)  # fmt: skip
TIME_TYPES = frozenset({"timestamp", "timestamp_ntz", "timestamp_ltz", "date"})
"""The types that get new values as time passes."""


@dataclass(frozen=True)
class EventTime:
    """A column with a watermark, and its delay."""

    column: str
    delay_ms: int


@dataclass(frozen=True)
class Window:
    """A window over event time. A session whose gap is an expression has 0 for its size."""

    session: bool
    column: str
    """The time it is made of, as SQL."""
    size_ms: int
    slide_ms: int
    """Equal to the size where windows don't overlap; 0 for sessions."""


@dataclass(frozen=True)
class Key:
    """A column by which rows are grouped, deduplicated or joined."""

    sql: str
    name: str
    type: str
    watermarked: bool = False
    """Whether Spark sees its watermark, and so knows when the key has expired."""
    delay_ms: int = 0
    """The delay of that watermark."""
    window: Window | None = None
    """The window that it is, or that it is taken from."""
    taken_apart: bool = False
    """Whether it is only a part of the window, such as its start: Spark then sees no watermark."""
    made_from: tuple[str, ...] = ()
    """The watermarked columns from which it is computed, where it does not carry their watermark itself."""
    reads: tuple[str, ...] = ()
    """The columns that it is computed from; empty for a mere column."""
    grows: bool = False
    """Whether it gets new values as the event time advances: a day, an hour, a number of seconds."""
    slow: bool = False
    """Whether it gets new values only monthly or yearly: few enough to keep them in state."""
    cyclic: bool = False
    """Whether its values are cyclic, such as the hour of the day; together with a year they are not."""


@dataclass(frozen=True)
class Aggregate:
    """One aggregate function of an aggregation."""

    sql: str
    function: str
    distinct: bool = False
    python: str = ""
    """The kind of Python function that it is: `pandas`, `arrow`; empty for Spark's own."""


@dataclass(frozen=True)
class Side:
    """One input of a join."""

    streams: tuple[str, ...]
    event_times: tuple[EventTime, ...]
    bounded: bool = False
    """Whether Spark can tell when a row of this side has met all that it can meet."""
    reach_ms: int = 0
    """Where it is bounded: how far behind the other side's watermark a row is still needed."""
    streaming: bool = True
    single: bool = False
    """Whether it never has more than one row, as a global aggregate has."""


@dataclass(frozen=True)
class Join:
    """A join: its type as in SQL (`inner`, `left outer`, `right outer`, `full outer`, `left semi`, …)."""

    type: str
    left: Side
    right: Side
    condition: str = ""
    keys: tuple[str, ...] = ()
    """What is equal on both sides, as SQL."""
    watermark_in_keys: bool = False
    """The sides are joined on an event time, or a window of it."""


@dataclass(frozen=True)
class Variable:
    """A state variable of a StatefulProcessor."""

    name: str
    form: str
    """`value`, `list`, `map` or `timer`."""
    schema: str = ""
    ttl_ms: int = 0
    """0 where a value lives until it is removed."""


@dataclass(frozen=True)
class ArbitraryState:
    """What a user's own function keeps per key."""

    call: str
    """`applyInPandasWithState`, `transformWithState` or `transformWithStateInPandas`."""
    mode: str
    """Its operator mode: `append` or `update`."""
    time: str
    """Timeouts or timers: `none`, `processing time` or `event time`."""
    variables: tuple[Variable, ...] = ()
    variables_known: bool = True
    """False where `init()` could not be asked."""
    initial_state: bool = False


@dataclass(frozen=True)
class Operator:
    """One step of a query. They are listed from the sources up: what it reads comes before it."""

    kind: Kind
    name: str
    """As users call it: `GROUP BY`, `dropDuplicates`, `LEFT OUTER JOIN`, `ORDER BY`."""
    inputs: tuple[int, ...] = ()
    """The places in the list of the operators that feed it directly."""
    streams: tuple[str, ...] = ()
    """The names of the streams whose rows reach it; empty for a step over static rows alone."""
    event_times: tuple[EventTime, ...] = ()
    """The columns of its input that carry a watermark; for a watermark the one that it declares."""
    keys: tuple[Key, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    join: Join | None = None
    state: ArbitraryState | None = None
    details: str = ""
    """What else tells it apart: the type of a watermark's column, the number of a limit."""
    table: str = ""
    """The table that contains it."""
    line: int = 0
    """Its line in the text of this table, from 1; 0 where Spark does not tell."""
    column: int = 0
    expanded: bool = False
    """An aggregation over several sets of keys: CUBE, ROLLUP, GROUPING SETS."""
    clashing: tuple[str, ...] = ()
    """The columns with a watermark that reach it together although Spark uses one; unneeded columns are
    dropped before."""

    @property
    def is_stateful(self) -> bool:
        """Whether it is stateful on a stream."""
        return self.kind in STATEFUL and bool(self.streams)


@dataclass(frozen=True)
class Expression:
    """A notable part of a query, and its position."""

    sql: str
    table: str = ""
    line: int = 0
    column: int = 0
    stateful_input: bool = False
    """Whether its value reaches the state of an operator."""
    event_time: bool = False
    """Whether the column computed with it has a watermark."""


@dataclass(frozen=True)
class PythonFunction:
    """A Python function in a query."""

    name: str
    form: str
    """`row`, `pandas`, `arrow`, `map`, `grouped map`, `cogrouped map`, `state`."""
    deterministic: bool = True


# An analyzed plan as plain data: what the engine has seen in Spark, to be read without it.

VERSION = 1


@dataclass(frozen=True)
class Column:
    """An output column of a node."""

    name: str
    id: int
    """Spark's number for it, which stays the same through renamings of tables."""
    type: str
    delay_ms: int = -1
    """The delay of the watermark that it carries; -1 for a column without one."""


@dataclass(frozen=True)
class Term:
    """A node of an expression: the name of Spark's class, what it holds, and what it is made of."""

    kind: str
    name: str = ""
    id: int = -1
    value: str = ""
    type: str = ""
    children: tuple[Term, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)
    plan: Node | None = None
    """The query inside a subquery expression."""

    def walk(self) -> Iterator[Term]:
        """It and everything in it, from the top; plans of subqueries are not entered."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class UnstableExpression:
    """An expression that can return a different value each time it is evaluated."""

    sql: str
    line: int = 0
    column: int = 0
    makes: tuple[int, ...] = ()
    """The column that is computed with it, by Spark's number."""


@dataclass(frozen=True)
class Node:
    """A node of a plan: the name of Spark's class, its expressions by the name of the field."""

    kind: str
    children: tuple[Node, ...] = ()
    terms: Mapping[str, tuple[Term, ...]] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)
    """Scalars: the type of a join, the number of a CTE, the modes of an operator."""
    sql: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The expressions of some fields as SQL."""
    columns: tuple[Column, ...] = ()
    """Its output columns, if a node above needs them."""
    changing: tuple[UnstableExpression, ...] = ()
    variables: tuple[Variable, ...] = ()
    delay_ms: int = -1
    """Of a watermark; -1 for every other node."""
    stream: str = ""
    """The name of the stream that a leaf reads; empty for static rows."""
    table: str = ""
    line: int = 0
    column: int = 0

    def walk(self) -> Iterator[Node]:
        """It and everything below, from the top."""
        yield self
        for child in self.children:
            yield from child.walk()

    def all_terms(self) -> Iterator[Term]:
        """Every expression of its own, with everything in it."""
        return (each for terms in self.terms.values() for top in terms for each in top.walk())


@dataclass(frozen=True)
class SideReach:
    """How far behind the other side's watermark a join needs the rows of one side."""

    bounded: bool
    reach_ms: int = 0
    streams: tuple[str, ...] = ()
    """The names of the streams of this side, in alphabetical order, by which the join is found again."""


@dataclass(frozen=True)
class JoinReach:
    """What Spark computes for a join of two streams, in the order of its optimized plan."""

    left: SideReach
    right: SideReach
    in_keys: bool
    """The sides are joined on an event time or a window of it, by which both are bounded."""


@dataclass(frozen=True)
class Clash:
    """An operator of the optimized plan to which several columns with a watermark come."""

    kind: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class PlanRecord:
    """A whole plan."""

    root: Node
    joins: tuple[JoinReach, ...] = ()
    clashes: tuple[Clash, ...] = ()
    version: int = VERSION

    def to_json(self) -> str:
        return json.dumps(_slim(asdict(self)), indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> PlanRecord:
        return _stored().validate_json(text)


def _slim(value: object) -> object:
    """Without what is empty, which is how it is read again."""
    if isinstance(value, list | tuple):
        return [_slim(each) for each in value]
    if not isinstance(value, dict):
        return value
    unset = {"id": -1, "delay_ms": -1}
    held = {key: _slim(each) for key, each in value.items()}
    return {
        key: each
        for key, each in held.items()
        if each not in ("", {}, [], (), None) and each != unset.get(key, ...)
    }


@cache
def _stored() -> TypeAdapter[PlanRecord]:
    # Built when it is first used: that takes longer than loading the module.
    return TypeAdapter(PlanRecord)


# The functions of a plan that look at other rows.

_WORDS = re.compile(r"(?<!^)(?=[A-Z])")


def over(node: Node) -> str:
    """The functions with `OVER` of a node, as users call them: `row_number(…)`."""
    called = [each.children[0] for each in node.all_terms() if each.kind == "WindowExpression"]
    inner = [each.children[0] if each.kind == "AggregateExpression" else each for each in called]
    return ", ".join(dict.fromkeys(f"{'_'.join(words_of(each.kind))}(…)" for each in inner))


def words_of(name: str) -> list[str]:
    """The words of a name of Spark's, such as `RowNumber`, in small letters."""
    return _WORDS.sub(" ", name).lower().split()
