"""Derives the steps of a query from a recorded plan: what matters on a stream, from the sources up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from headwater.plan.lineage import Lineage, beyond_rows, clock_reads
from headwater.plan.operators import (
    KINDS,
    Aggregate,
    ArbitraryState,
    Clash,
    Column,
    EventTime,
    Expression,
    Join,
    JoinReach,
    Key,
    Kind,
    Node,
    Operator,
    PlanRecord,
    PythonFunction,
    Side,
    Term,
    Window,
    over,
    words_of,
)
from headwater.plan.state_layout import StateLayout

# The Python functions of a plan, and how Spark calls them, by its evaluation types.

_EVALUATIONS = {
    "arrow": (101, *range(250, 260)),
    "pandas": (200, 202, 203, 204),
    "map": (205, 207),
    "grouped map": (201, 209),
    "cogrouped map": (206, 210),
    "state": (208, *range(211, 217)),
}
_PANDAS_PROCESSORS = (211, 212)


def functions_in(node: Node) -> Iterator[PythonFunction]:
    """The Python functions in the expressions of a node."""
    for term in node.all_terms():
        if term.kind.startswith("Python"):
            deterministic = term.details.get("udfDeterministic", "True") == "True"
            yield PythonFunction(term.name, form_of(term), deterministic)


def form_of(function: Term) -> str:
    """How a Python function receives its rows: `row`, `pandas`, `arrow`, `map`, `state` …"""
    number = int(function.details.get("evalType", -1))
    return next((form for form, numbers in _EVALUATIONS.items() if number in numbers), "row")


_JOINS = ("Join", "LateralJoin", "AsOfJoin")
_TIMES = {
    "EventTimeTimeout": "event time",
    "ProcessingTimeTimeout": "processing time",
    "EventTime": "event time",
    "ProcessingTime": "processing time",
}
_UNNAMED = "__auto_generated_subquery_name."
"""Spark's name for an unnamed query in FROM."""
_KEY_FIELDS = ("groupingExpressions", "keys", "groupingAttributes")
_CLOCKS = {"Now": "now", "CurrentTime": "current_time"}


@dataclass(frozen=True)
class Steps:
    """What a plan shows about a query."""

    operators: tuple[Operator, ...]
    non_deterministic: tuple[Expression, ...]
    python_functions: tuple[PythonFunction, ...]
    streams: tuple[str, ...]
    """The streams that it reads, once for each read."""
    beyond_rows: tuple[Expression, ...] = ()
    """The steps that do not process each row separately."""
    clock_reads: tuple[Expression, ...] = ()
    state: tuple[StateLayout, ...] | None = None
    """The layouts of the stateful operators; None if not requested or unknown."""
    state_unknown: str = ""
    """Why they are unknown."""

    @property
    def repeated_streams(self) -> tuple[str, ...]:
        """The streams that it reads several times."""
        return tuple(each for each in dict.fromkeys(self.streams) if self.streams.count(each) > 1)


def steps_of(record: PlanRecord) -> Steps:
    """The steps of a recorded plan."""
    reader = _Reader(Lineage.of(record.root), record.joins)
    reader.visit(record.root)
    most: dict[str, int] = {}
    for (name, _), times in reader.read.items():
        most[name] = max(times, most.get(name, 0))
    changing = tuple(
        replace(each, stateful_input=place in reader.fed, event_time=bool(reader.behind_marks & set(makes)))
        for place, (each, makes) in enumerate(reader.changing)
    )
    return Steps(
        tuple(_with_clashes(reader.operators, record.clashes)),
        changing,
        tuple(dict.fromkeys(reader.functions)),
        tuple(name for name, times in most.items() for _ in range(times)),
        beyond_rows(record.root),
        clock_reads(record.root),
    )


def _with_clashes(operators: list[Operator], clashes: tuple[Clash, ...]) -> list[Operator]:
    """The operators, those with several event times marked: by their kind, each clash once, from the top."""
    waiting = [KINDS[each.kind][0] for each in clashes]
    found = []
    for operator in reversed(operators):
        # A SELECT DISTINCT is an aggregation in the optimized plan.
        kind = Kind.AGGREGATION if operator.kind is Kind.DISTINCT else operator.kind
        clashing: tuple[str, ...] = ()
        if len(operator.event_times) > 1 and kind in waiting:
            waiting.remove(kind)
            clashing = tuple(dict.fromkeys(each.column for each in operator.event_times))
        found.append(replace(operator, clashing=clashing))
    return found[::-1]


Below = list[tuple[tuple[int, ...], tuple[str, ...]]]
"""The output of each child of a node: operators by index, and streams."""


@dataclass
class _Reader:
    """Reads a plan from its leaves up and collects its steps."""

    lineage: Lineage
    reaches: tuple[JoinReach, ...]
    """What Spark says of the joins of two streams, from the top."""
    operators: list[Operator] = field(default_factory=list)
    changing: list[tuple[Expression, tuple[int, ...]]] = field(default_factory=list)
    """Each with the columns that it makes."""
    fed: set[int] = field(default_factory=set)
    """The places of those in this list whose value reaches the state of an operator."""
    functions: list[PythonFunction] = field(default_factory=list)
    read: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each stream is read, place by place: a stream over several folders reads each of them."""
    marked: dict[int, str] = field(default_factory=dict)
    """The columns with a watermark, by ID."""
    behind_marks: set[int] = field(default_factory=set)
    """The columns from which these are computed, and they themselves."""
    joins: int = 0
    """How many joins of two streams were met, from the top."""

    def visit(self, node: Node) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Read a node and everything below it; returns the operators and streams whose rows it outputs."""
        if node.kind == "WithCTE":
            return self.visit(node.children[-1])
        if node.kind == "CTERelationRef":
            return self.visit(self.lineage.ctes[node.details["cteId"]])
        if node.stream:
            self.read[node.stream, node.details.get("place", "")] += 1
            return (), (node.stream,)
        place, before = -1, len(self.changing)
        if node.kind in _JOINS and all(_reads_stream(self.lineage, each) for each in node.children):
            # Spark numbers joins from the top, so its place is taken before what is below is read.
            place = self.joins
            self.joins += 1
        below = [self.visit(child) for child in node.children]
        inputs = tuple(dict.fromkeys(each for tops, _ in below for each in tops))
        streams = tuple(dict.fromkeys(each for _, names in below for each in names))
        self.functions += functions_in(node)
        if node.kind == "EventTimeWatermark":
            self.marked |= {term.id: term.name for term in node.terms["eventTime"]}
            for term in node.terms["eventTime"]:
                self.behind_marks |= self.lineage.columns_behind(term)
        if not streams:
            return inputs, streams
        self.changing += _changing(node)
        step = self._operator(node, below, place)
        if step is None:
            return inputs, streams
        step = replace(step, table=node.table, line=node.line, column=node.column)
        self.operators.append(replace(step, inputs=inputs, streams=streams))
        if self.operators[-1].is_stateful:
            self.fed |= set(range(before, len(self.changing)))
        return (len(self.operators) - 1,), streams

    def _operator(self, node: Node, below: Below, place: int) -> Operator | None:
        if node.kind in _JOINS:
            return self._join(node, below, place)
        if node.kind not in KINDS:
            return None
        kind, name = KINDS[node.kind]
        columns = node.children[0].columns if node.children else ()
        step = Operator(kind, name, event_times=_event_times(columns), keys=tuple(self._keys(node, columns)))
        match kind:
            case Kind.WATERMARK:
                (term,) = node.terms["eventTime"]
                type_ = next((each.type for each in columns if each.id == term.id), term.type)
                return replace(step, event_times=(EventTime(term.name, node.delay_ms),), details=type_)
            case Kind.AGGREGATION:
                grouped = node.terms.get("groupingExpressions", ())
                expanded = any(each.name == "spark_grouping_id" for each in grouped)
                return replace(step, aggregates=tuple(_aggregates(node)), expanded=expanded)
            case Kind.STATE:
                return replace(step, state=_state(node))
            case Kind.SORT:
                return replace(step, details="" if node.details.get("global") == "True" else "in partitions")
            case Kind.LIMIT:
                terms = (each for terms in node.terms.values() for each in terms)
                return replace(step, details=next((each.value for each in terms), ""))
            case Kind.UNION:
                aggregated = {any(map(self._aggregated, tops)) for tops, _ in below}
                mixed = "in part aggregated" if len(aggregated) > 1 else ""
                static = not all(streams for _, streams in below)
                return replace(step, details="with static rows" if static else mixed)
            case Kind.SET_OPERATION:
                return replace(step, details="" if below[-1][1] else "static rows after it")
            case Kind.WINDOW_FUNCTION:
                return replace(step, details=over(node))
        return step

    def _aggregated(self, place: int) -> bool:
        """Whether the output of an operator is that of an aggregation."""
        step = self.operators[place]
        return step.kind in (Kind.AGGREGATION, Kind.DISTINCT) or any(map(self._aggregated, step.inputs))

    def _keys(self, node: Node, columns: tuple[Column, ...]) -> Iterator[Key]:
        known = {column.id: column for column in columns}
        if node.kind == "Distinct":
            for column in columns:
                term = Term("AttributeReference", column.name, column.id)
                yield self._key(term, column.name, column.type, known)
        if node.kind == "TransformWithStateInPySpark":
            # Spark puts the columns of the key before all others.
            number = int(node.details.get("groupingAttributesLen", "0"))
            yield from (_plain_key(column) for column in columns[:number])
        for name in _KEY_FIELDS:
            texts, types = node.sql.get(name, ()), node.sql.get("groupingTypes", ())
            for place, term in enumerate(node.terms.get(name, ())):
                if term.name != "spark_grouping_id":
                    type_ = types[place] if types else term.type
                    yield self._key(term, texts[place] if texts else term.name, type_, known)

    def _key(self, term: Term, text: str, type_: str, known: Mapping[int, Column]) -> Key:
        lineage, marked = self.lineage, self.marked
        column = known.get(term.id)
        if column and column.delay_ms >= 0:
            return Key(text, term.name, column.type, True, column.delay_ms, lineage.window_of(term))
        parts = list(self._taken(term))
        behind = lineage.columns_behind(term)
        named = (each.name for each in lineage.source_of(term).walk() if each.kind == "AttributeReference")
        return Key(
            text.replace(_UNNAMED, ""),
            term.name or text,
            column.type if column else type_,
            window=parts[0] if parts else lineage.window_of(term),
            taken_apart=bool(parts),
            made_from=tuple(dict.fromkeys(marked[each] for each in behind if each in marked)),
            reads=tuple(dict.fromkeys(each for each in named if each != term.name)),
            grows=lineage.grows(term, marked),
            slow=lineage.is_slow(term, marked),
            cyclic=lineage.is_cyclic(term, marked),
        )

    def _taken(self, term: Term) -> Iterator[Window]:
        """The windows of which an expression takes a part."""
        source = self.lineage.source_of(term)
        for each in (*term.walk(), *source.walk()):
            window = self.lineage.window_of(each.children[0]) if each.kind == "GetStructField" else None
            if window:
                yield window

    def _join(self, node: Node, below: Below, place: int) -> Operator:
        type_ = " ".join(words_of(node.details.get("joinType", "Inner")))
        sides = [
            Side(
                names,
                _event_times(child.columns),
                streaming=bool(names),
                single=not names and self.lineage.is_single(child),
            )
            for child, (_, names) in zip(node.children, below, strict=False)
        ]
        left, right = (*sides, Side((), (), streaming=False))[:2]
        reach = self._reach(place, left, right)
        if reach:
            left, right = (
                replace(side, bounded=own.bounded, reach_ms=own.reach_ms)
                for side, own in ((left, reach.left), (right, reach.right))
            )
        in_keys = bool(reach and reach.in_keys)
        condition, equal = "".join(node.sql.get("condition", ())), node.sql.get("keys", ())
        # The columns with a watermark of both sides: event times, or windows of them.
        columns = [each for child in node.children for each in child.columns if each.delay_ms >= 0]
        terms = [Term("AttributeReference", each.name, each.id) for each in columns]
        keys = [
            replace(_plain_key(column), window=self.lineage.window_of(term))
            for column, term in zip(columns, terms, strict=True)
        ]
        return Operator(
            Kind.JOIN if left.streaming and right.streaming else Kind.STATIC_JOIN,
            f"{type_.upper()} JOIN",
            event_times=tuple(dict.fromkeys((*left.event_times, *right.event_times))),
            keys=tuple(keys) if in_keys else (),
            join=Join(type_, left, right, condition, equal, in_keys),
        )

    def _reach(self, place: int, left: Side, right: Side) -> JoinReach | None:
        """What Spark says of a join: at the same place from the top, unless Spark has put joins in order."""
        wanted = sorted(left.streams), sorted(right.streams)
        same = [
            number
            for number, each in enumerate(self.reaches)
            if (list(each.left.streams), list(each.right.streams)) == wanted
        ]
        if place < 0 or not same:
            return None
        return self.reaches[place if place in same else same[0]]


def _changing(node: Node) -> Iterator[tuple[Expression, tuple[int, ...]]]:
    """The expressions of a node that may give another value each time, with the columns that they make."""
    for each in node.changing:
        yield Expression(each.sql, node.table, each.line, each.column), each.makes
    # Spark treats a read of the clock as deterministic, but reads it again in each attempt.
    for top in (each for terms in node.terms.values() for each in terms):
        for term in (each for each in top.walk() if each.kind in _CLOCKS):
            yield Expression(f"{_CLOCKS[term.kind]}()", node.table, node.line, node.column), (top.id,)


def _reads_stream(lineage: Lineage, node: Node) -> bool:
    if node.kind == "CTERelationRef":
        return _reads_stream(lineage, lineage.ctes[node.details["cteId"]])
    return bool(node.stream) or any(_reads_stream(lineage, child) for child in node.children)


def _event_times(columns: Iterable[Column]) -> tuple[EventTime, ...]:
    marked = {each.id: EventTime(each.name, each.delay_ms) for each in columns if each.delay_ms >= 0}
    return tuple(marked.values())


def _plain_key(column: Column) -> Key:
    return Key(column.name, column.name, column.type, column.delay_ms >= 0, max(column.delay_ms, 0))


def _aggregates(node: Node) -> Iterator[Aggregate]:
    texts = node.sql.get("aggregateExpressions", ())
    for place, top in enumerate(node.terms.get("aggregateExpressions", ())):
        for term in top.walk():
            if term.kind == "AggregateExpression":
                function = term.children[0]
                yield Aggregate(
                    texts[place] if texts else function.name,
                    function.name if function.kind.startswith("Python") else function.kind,
                    term.details.get("isDistinct") == "True",
                    form_of(function) if function.kind.startswith("Python") else "",
                )


def _state(node: Node) -> ArbitraryState:
    call = KINDS[node.kind][1]
    if call == "transformWithState":
        (function, *_) = node.terms["functionExpr"]
        if int(function.details.get("evalType", -1)) in _PANDAS_PROCESSORS:
            call = "transformWithStateInPandas"
    known = not any(each.form == "unknown" for each in node.variables)
    return ArbitraryState(
        call,
        node.details["outputMode"].lower(),
        _TIMES.get(node.details.get("timeMode") or node.details.get("timeout", ""), "none"),
        node.variables if known else (),
        known,
        node.details.get("initialState") == "true",
    )
