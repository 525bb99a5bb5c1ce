"""Where the columns of a plan come from: through aliases and windows, down to the columns of sources."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from headwater.plan.operators import KINDS, Expression, Node, Term, Window
from headwater.values import Duration

_PASSING = "AttributeReference"
_GOING_ON = frozenset(
    {
        "Add", "Cast", "Ceil", "Coalesce", "Concat", "DateAdd", "DateFormatClass", "DateSub", "Divide",
        "Floor", "FromUnixTime", "IntegralDivide", "Multiply", "ParseToDate", "ParseToTimestamp", "Round",
        "Subtract",
        "TimestampAdd", "TimestampAddInterval", "ToUnixTimestamp", "TruncDate", "TruncTimestamp", "UnixDate",
        "UnixMicros", "UnixMillis", "UnixSeconds", "UnixTimestamp",
    }
)  # fmt: skip
"""Functions whose value increases with the time they are given."""
_SLOW = frozenset({"mon", "month", "mm", "quarter", "year", "yyyy", "yy", "decade", "century", "millennium"})
"""The units of time that are as long as a month, as date_trunc and trunc name them."""
_CYCLIC = frozenset(
    {
        "DayName", "DayOfMonth", "DayOfWeek", "DayOfYear", "Hour", "Minute", "Month", "MonthName", "Quarter",
        "Second", "WeekDay", "WeekOfYear", "Year",
    }
)  # fmt: skip
"""Cyclic parts of a time; the year is not cyclic, but changes slowly."""
_OUTPUTS = ("projectList", "aggregateExpressions", "output", "outputAttrs", "outAttributes", "outAttrs")
# Nodes that give no more rows than they get.
_SAME_ROWS = frozenset(
    {
        "CTERelationDef", "CollectMetrics", "Filter", "Project", "ResolvedHint", "Sort", "SubqueryAlias",
        "View", "WithCTE",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Lineage:
    """What each named column of a plan is computed from, by Spark's number for it."""

    made: Mapping[int, Term]
    ctes: Mapping[str, Node]

    @classmethod
    def of(cls, root: Node) -> Lineage:
        nodes = list(_all_nodes(root))
        ctes = {node.details["id"]: node for node in nodes if node.kind == "CTERelationDef"}
        made: dict[int, Term] = {}
        for node in nodes:
            made |= {
                term.id: term.children[0]
                for term in node.all_terms()
                if term.kind == "Alias" and term.id >= 0
            }
            # New numbers that a node gives to columns without an alias.
            given = node.terms.get("output", ())
            if node.kind == "Expand":
                # All its projections are alike but for the window (or the key) that differs.
                projections = node.terms.get("projections", ())
                made |= {new.id: old for new, old in zip(given, projections, strict=False)}
            if node.kind == "CTERelationRef" and node.details.get("cteId") in ctes:
                below = zip(given, outputs_of(ctes[node.details["cteId"]]), strict=False)
                renamed = ((new.id, old) for new, old in below if new.id != old.id)
                made |= {
                    new: Term(_PASSING, old.name, old.id) if old.kind == "Alias" else old
                    for new, old in renamed
                }
        return cls(made, ctes)

    def columns_behind(self, term: Term) -> set[int]:
        """The numbers of all columns from which an expression is computed, near and far."""
        found: set[int] = set()
        waiting = [term]
        while waiting:
            for each in waiting.pop().walk():
                if each.kind == _PASSING and each.id not in found:
                    found.add(each.id)
                    if each.id in self.made:
                        waiting.append(self.made[each.id])
        return found

    def source_of(self, term: Term, marked: Collection[int] = ()) -> Term:
        """What a mere name stands for, after all renamings, or as far as the marked columns."""
        seen = set(marked)
        while term.kind == _PASSING and term.id in self.made and term.id not in seen:
            seen.add(term.id)
            term = self.made[term.id]
        return term

    def is_single(self, node: Node) -> bool:
        """Whether a plan gives one row at most: an aggregate over everything, or a LIMIT 1."""
        if node.kind == "CTERelationRef":
            return self.is_single(self.ctes[node.details["cteId"]])
        if node.kind in _SAME_ROWS:
            return self.is_single(node.children[-1])
        if node.kind in ("GlobalLimit", "LocalLimit"):
            limit = node.terms.get("limitExpr", ())
            return [term.value for term in limit] == ["1"] or self.is_single(node.children[0])
        grouped = node.terms.get("groupingExpressions", ())
        return node.kind == "OneRowRelation" or (node.kind == "Aggregate" and not grouped)

    def window_of(self, term: Term) -> Window | None:
        """The window over event time that an expression is."""
        return window_in(self.source_of(term))

    def grows(self, term: Term, marked: Collection[int]) -> bool:
        """Whether an expression increases without end as one of the marked columns does."""
        term = self.source_of(term, marked)
        if term.kind == _PASSING:
            return term.id in marked
        without_year = term.kind == "DateFormatClass" and not set(term.children[1].value) & set("yu")
        goes_on = term.kind in _GOING_ON and not without_year and not _is_slow(term)
        return goes_on and self._of_growing(term, marked)

    def is_slow(self, term: Term, marked: Collection[int]) -> bool:
        """Whether an expression cuts a marked time to its month or its year."""
        term = self.source_of(term, marked)
        return _is_slow(term) and self._of_growing(term, marked)

    def is_cyclic(self, term: Term, marked: Collection[int]) -> bool:
        """Whether an expression is a cyclic part of a marked time, or its year."""
        term = self.source_of(term, marked)
        return term.kind in _CYCLIC and self._of_growing(term, marked)

    def _of_growing(self, term: Term, marked: Collection[int]) -> bool:
        return any(self.grows(each, marked) for each in term.children)


def _all_nodes(root: Node) -> Iterator[Node]:
    """Every node, those of subqueries as well."""
    for node in root.walk():
        yield node
        for term in node.all_terms():
            if term.plan:
                yield from _all_nodes(term.plan)


def _is_slow(term: Term) -> bool:
    """Whether a function cuts a time to months or more."""
    units = [each.value for each in term.children if each.kind == "Literal"]
    if term.kind in ("TruncDate", "TruncTimestamp"):
        return any(unit.lower() in _SLOW for unit in units)
    letters = set(term.children[1].value if term.kind == "DateFormatClass" else "")
    return bool(letters & set("yu")) and not letters & set("dDHhKkmsSEeFaA")


def outputs_of(node: Node) -> tuple[Term, ...]:
    """The output columns of a node, in order."""
    if node.kind == "Generate":
        return (*outputs_of(node.children[0]), *node.terms.get("generatorOutput", ()))
    for name in _OUTPUTS:
        if name in node.terms:
            return node.terms[name]
    if node.kind == "Join":
        semi = node.details.get("joinType", "").endswith(("Semi", "Anti"))
        return tuple(each for child in node.children[: 1 if semi else 2] for each in outputs_of(child))
    return outputs_of(node.children[0]) if node.children else ()


def window_in(made: Term) -> Window | None:
    """The window over event time that an expression makes, where it makes one."""
    if made.kind != "CreateNamedStruct" or [each.value for each in made.children[::2]] != ["start", "end"]:
        return None
    start, end = made.children[1], made.children[3]
    times = [each for each in start.walk() if each.kind == "PreciseTimestampConversion"]
    if not times:
        return None

    def micros(text: str) -> int:
        return int(text) // 1_000 if text.lstrip("-").isdigit() else 0

    time = next((each.name for each in times[-1].walk() if each.kind == _PASSING), "")
    slides = [each.children[1].value for each in start.walk() if each.kind == "Remainder"]
    if slides:
        sizes = [each.children[1].value for each in end.walk() if each.kind == "Add"]
        return Window(False, time, micros(sizes[0]), micros(slides[0]))
    # The gap of a session; 0 where each row has its own.
    gaps = [each.children[1] for each in end.walk() if each.kind == "TimestampAddInterval"]
    gap = gaps[0] if gaps else Term("")
    while gap.kind == "Cast":
        gap = gap.children[0]
    try:
        size = int(Duration.parse(gap.value).seconds * 1_000) if gap.kind == "Literal" else 0
    except ValueError:
        size = 0
    return Window(True, time, size, 0)


# Which steps of a recorded plan process each row separately, as queries without batches require.

_ROW_BY_ROW = frozenset(
    {
        "DeserializeToObject", "Filter", "MapElements", "MapPartitions", "Project", "SerializeFromObject",
        "SubqueryAlias", "TypedFilter", "View",
    }
)  # fmt: skip
"""What Spark's checker for continuous queries lets pass, besides sources."""

_PARTS = frozenset({"CTERelationDef", "CTERelationRef", "LocalLimit"})
"""Nodes that never come alone: what they belong to is listed."""


_SLIDING = "sliding window"
_NAMED_BY_OPERATORS = frozenset(
    {
        "AppendColumns", "AsOfJoin", "CoGroup", "FlatMapCoGroupsInArrow", "FlatMapCoGroupsInPandas",
        "FlatMapGroupsInArrow", "LateralJoin", "MapGroups", "Offset", "Sample", "Tail",
        "UpdateEventTimeWatermarkColumn", "WindowInPandas",
    }
)  # fmt: skip
"""Other nodes that the rules know: operators of a query, and the nodes that Spark adds to them."""
_NAMES = {
    **{kind: name for kind, (_, name) in KINDS.items() if kind not in _NAMED_BY_OPERATORS},
    "CollectMetrics": "observe",
    "Expand": "UNPIVOT",
    "Generate": "explode",
    "Join": "JOIN",
    "MapInArrow": "mapInArrow",
    "MapInPandas": "mapInPandas",
    "PythonMapInArrow": "mapInArrow",
    "RebalancePartitions": "REBALANCE",
    "Repartition": "repartition",
    "RepartitionByExpression": "repartition",
    "ResolvedHint": "hint",
    "WithCTE": "WITH",
}

_CLOCK = {
    "CurrentDate": "current_date()",
    "CurrentTime": "current_time()",
    "CurrentTimestamp": "current_timestamp()",
    "LocalTimestamp": "localtimestamp()",
    "Now": "now()",
}


def beyond_rows(root: Node) -> tuple[Expression, ...]:
    """The steps on the way of a stream that do more than that, from the sources up, each once."""

    def name_of(node: Node) -> str:
        sliding = any(each.kind == "CreateNamedStruct" for each in node.terms.get("projections", ()))
        return _SLIDING if node.kind == "Expand" and sliding else _NAMES.get(node.kind, node.kind)

    found = (
        Expression(name_of(node), node.table, node.line, node.column)
        for node in _upwards(root)
        if node.kind not in _ROW_BY_ROW | _PARTS and not node.stream and _reads_stream(node)
    )
    return tuple(dict.fromkeys(found))


def unknown_steps(steps: Iterable[Expression]) -> Iterator[Expression]:
    """Those of `beyond_rows` of which no rule knows anything: a newer Spark may have such."""
    known = {*_NAMES.values(), *_NAMED_BY_OPERATORS, _SLIDING}
    return (step for step in steps if step.sql not in known)


def clock_reads(root: Node) -> tuple[Expression, ...]:
    """Where a step of a stream asks for the current time or date, each once."""
    found = (
        Expression(_CLOCK[term.kind], node.table, node.line, node.column)
        for node in _upwards(root)
        if _reads_stream(node)
        for term in node.all_terms()
        if term.kind in _CLOCK
    )
    return tuple(dict.fromkeys(found))


def _upwards(node: Node) -> Iterator[Node]:
    for child in node.children:
        yield from _upwards(child)
    yield node


def _reads_stream(node: Node) -> bool:
    """Whether rows of a stream reach it; where a table is named by WITH, that is not followed."""
    return any(each.stream or each.kind == "CTERelationRef" for each in node.walk())
