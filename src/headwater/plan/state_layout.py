"""What a query's stateful operators store between batches, in terms of the columns of the sources.

Spark compares the state of a checkpoint with a query by the types of its columns alone. It accepts another
key of the same type, and from then on one state holds rows of both queries. Two equal layouts mean equal
state; filters, names and whatever happens after the state are no part of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import starmap

from headwater.plan.lineage import outputs_of, window_in
from headwater.plan.operators import KINDS, TIME_TYPES, ArbitraryState, Node, Term, words_of
from headwater.values import Duration

# Expressions of a plan as text in terms of the columns of the sources, the same at every start.

_INFIX = {
    "Add": "+", "And": "AND", "BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^", "Divide": "/",
    "EqualNullSafe": "<=>", "EqualTo": "=", "GreaterThan": ">", "GreaterThanOrEqual": ">=",
    "IntegralDivide": "div", "LessThan": "<", "LessThanOrEqual": "<=", "Multiply": "*", "Or": "OR",
    "Remainder": "%", "Subtract": "-", "TimestampAddInterval": "+",
}  # fmt: skip
# Wrappers of Spark's own that change no value.
_TRANSPARENT = frozenset({"Alias", "KnownNotNull", "KnownNullable", "TempResolvedColumn"})
# Where the name of Spark's class is not that of the SQL function.
_FUNCTIONS = {
    "ApproximatePercentile": "percentile_approx",
    "Average": "avg",
    "CreateArray": "array",
    "CreateMap": "map",
    "CreateNamedStruct": "named_struct",
    "DateFormatClass": "date_format",
    "HyperLogLogPlusPlus": "approx_count_distinct",
    "JsonToStructs": "from_json",
    "StructsToJson": "to_json",
    "TruncDate": "trunc",
    "TruncTimestamp": "date_trunc",
}
# Numbers of Spark's own, or settings that decide how an error is handled and not what is computed.
_NO_MEANING = frozenset(
    {"evalType", "inputAggBufferOffset", "mode", "mutableAggBufferOffset", "randomSeed", "resultId"}
)
# Literals that Spark's JSON has by the address of a Java object.
_UNREADABLE = frozenset({"array", "binary", "map", "struct", "variant"})
_COMMUTATIVE = frozenset(
    {"Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "EqualNullSafe", "EqualTo", "Multiply", "Or"}
)
_DIGITS = re.compile(r"-?\d+")


class ExpressionText:
    """Writes expressions; `column` gives the text of a column by Spark's number for it and its name."""

    def __init__(self, column: Callable[[int, str], str]) -> None:
        self._column = column
        self._variables: dict[int, str] = {}
        self._common = ""

    def of(self, term: Term) -> str:
        """One expression, whole."""
        window = window_text(term, self.of)
        if window:
            return window
        inner = term.children[0] if term.children else term
        if term.kind in _TRANSPARENT or "replacement" in term.details:
            return self.of(inner)
        match term.kind:
            case "AttributeReference":
                return self._column(term.id, term.name)
            case "AggregateExpression":
                return self._aggregate(term)
            case "Cast":
                return f"CAST({self.of(inner)} AS {term.details.get('to', term.type)})"
            case "CommonExpressionRef":
                return self._common
            case "Count" if [each.kind for each in term.children] == ["Literal"] and inner.value:
                return "count(*)"
            case "GetStructField":
                return f"{self.of(inner)}.{term.name or term.details.get('ordinal', '')}"
            case "Literal":
                return _literal(term)
            case "UnaryMinus":
                return f"-{self.of(inner)}"
            case "NamedLambdaVariable":
                # PySpark numbers the variables of lambdas through a whole process.
                return self._variables.setdefault(term.id, f"x{len(self._variables) + 1}")
            case "With":
                return self._with(term)
        return self._call(term)

    def all_of(self, node: Node) -> str:
        """The expressions of a node."""
        return ", ".join(self.of(term) for terms in node.terms.values() for term in terms)

    def _aggregate(self, term: Term) -> str:
        function, *filtered = term.children
        text = self.of(function)
        if term.details.get("isDistinct") == "True":
            text = text.replace("(", "(DISTINCT ", 1)
        return f"{text} FILTER (WHERE {self.of(filtered[0])})" if filtered else text

    def _with(self, term: Term) -> str:
        """An expression that uses another one several times, as BETWEEN does."""
        around, outer = term.children[0], self._common
        self._common = " | ".join(self.of(each.children[0]) for each in term.children[1:])
        text = self.of(around)
        self._common = outer
        return text

    def _call(self, term: Term) -> str:
        given = [] if term.details.get("hideSeed") == "True" else [self.of(each) for each in term.children]
        if term.kind in _COMMUTATIVE:
            given.sort()
        if term.kind in _INFIX and len(given) == 2:
            return f"({given[0]} {_INFIX[term.kind]} {given[1]})"
        given += [f"{key}: {value}" for key, value in sorted(_meaning(term).items())]
        if term.plan:
            inner = ExpressionText(lambda _, name: name)
            given.append(" ".join(f"{node.kind}[{inner.all_of(node)}]" for node in term.plan.walk()))
        name = term.name if term.kind.startswith("Python") else ""
        return f"{name or _FUNCTIONS.get(term.kind) or '_'.join(words_of(term.kind))}({', '.join(given)})"


def window_text(term: Term, text: Callable[[Term], str]) -> str:
    """A window over event time as it is written in SQL; empty for anything else."""
    window = window_in(term)
    if window is None:
        return ""
    start = list(term.children[1].walk())
    conversions = [each for each in start if each.kind == "PreciseTimestampConversion"]
    times = [each.children[0] for each in conversions if each.details.get("fromType") != "long"]
    time = text(times[0])
    if window.session:
        # The gap may differ from row to row: it is what the end of a session adds to its time.
        gaps = [each.children[1] for each in term.walk() if each.kind == "TimestampAddInterval"]
        return f"session_window({', '.join([time, *map(text, gaps[:1])])})"
    # How far windows are moved from the full hour: `window(t, '1 hour', '1 hour', '15 minutes')`.
    moved = [each.children[0] for each in start if each.kind == "Remainder"][:1]
    micros = [each.children[1].value for each in moved if each.kind == "Subtract"]
    shift = int(micros[0]) if micros and _DIGITS.fullmatch(micros[0]) else 0
    parts = [time, str(Duration(window.size_ms))]
    if window.slide_ms != window.size_ms:
        parts.append(str(Duration(window.slide_ms)))
    if shift:
        whole = shift > 0 and shift % 1_000 == 0
        parts.append(f"moved by {Duration(shift // 1_000) if whole else f'{shift} microseconds'}")
    return f"window({', '.join(parts)})"


def _literal(term: Term) -> str:
    if term.type.startswith("interval"):
        micros = "month" not in term.type and "year" not in term.type and term.value.isdigit()
        if micros and int(term.value) % 1_000 == 0:
            return f"INTERVAL '{Duration(int(term.value) // 1_000)}'"
        return f"{term.value} ({term.type})"
    if term.type in _UNREADABLE:
        return f"({term.type})"
    if term.type == "string":
        return "'" + term.value.replace("'", "''") + "'"
    return term.value or "NULL"


def _meaning(term: Term) -> dict[str, str]:
    """What a function holds besides its arguments; small numbers are the places of arguments."""
    return {
        key: value
        for key, value in term.details.items()
        if key not in _NO_MEANING
        and (value not in ("True", "False") or key == "ignoreNulls")
        and not (_DIGITS.fullmatch(value) and int(value) < max(len(term.children), 1))
    }


LIMIT = KINDS["GlobalLimit"][1]
EVENT_TIME = "event time"
STATE = "state"
REPLAYED = "(replayed)"
"""The source of rows that were quarantined and are replayed: they are like those of their table."""
_NOT_NULL = " not null"
_STORING = (
    "Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "FlatMapGroupsInPandasWithState", "GlobalLimit",
    "TransformWithStateInPySpark",
)  # fmt: skip
_NAMES = {kind: KINDS[kind][1] for kind in _STORING}


@dataclass(frozen=True)
class StoredValue:
    """One thing that an operator stores, or stores by."""

    text: str
    """How it is computed from the columns of the sources."""
    type: str = ""
    """Its type, or the types of what an aggregate keeps, as Spark names them."""

    def takes_over(self, before: StoredValue) -> bool:
        """Whether stored values of `before` can be used as values of this one."""
        return self.text == before.text and before.type in (self.type, self.type.removesuffix(_NOT_NULL))


@dataclass(frozen=True)
class StateLayout:
    """What one stateful operator stores."""

    operator: str
    """As users call it: `GROUP BY`, `dropDuplicates`, `LEFT OUTER JOIN`."""
    parts: Mapping[str, tuple[StoredValue, ...]] = field(default_factory=dict)
    """By what they are to the operator: `keys`, `aggregates`, `left columns`, …; their order counts."""
    table: str = ""
    """The table in which it stands, and its line and column there, where they are known."""
    line: int = 0
    column: int = 0


def state_layouts(
    root: Node, columns: Mapping[int, str], states: tuple[ArbitraryState, ...]
) -> tuple[StateLayout, ...]:
    """The layouts of a plan that is reduced to what is stored, from the sources up.

    `columns` are those of the sources by Spark's numbers; `states` is what is known of the operators with
    arbitrary state, from the sources up.
    """
    reader = _Reader(columns, list(states))
    reader.visit(root)
    return tuple(reader.layouts)


@dataclass
class _Reader:
    """Reads a plan from its leaves up."""

    columns: Mapping[int, str]
    states: list[ArbitraryState]
    layouts: list[StateLayout] = field(default_factory=list)
    marked: set[str] = field(default_factory=set)
    """The columns with a watermark, by their texts."""

    def visit(self, node: Node) -> None:
        """Read a node and what is below."""
        for child in node.children:
            self.visit(child)
        if not node.children or not self._streams(node):
            return
        if node.kind == "EventTimeWatermark":
            self.marked |= set(self._texts(node, "eventTime"))
        if node.kind == "Join" and all(map(self._streams, node.children)):
            self.layouts.append(self._join(node))
        elif node.kind in _NAMES:
            self.layouts.append(StateLayout(_NAMES[node.kind], self._parts(node)))

    def _streams(self, node: Node) -> bool:
        """Whether a node outputs rows of a stream."""
        if not node.children:
            return bool(node.stream) or node.details.get("isStreaming") == "True"
        return any(map(self._streams, node.children))

    def _parts(self, node: Node) -> dict[str, tuple[StoredValue, ...]]:
        terms = node.terms
        match node.kind:
            case "Aggregate":
                keys = self._keys(node, terms.get("groupingExpressions", ()))
                return {"keys": keys, "aggregates": tuple(dict.fromkeys(self._aggregates(node)))}
            case "GlobalLimit":
                return {"rows": tuple(map(StoredValue, self._texts(node, "limitExpr")))}
            case "Deduplicate":
                return {"keys": self._keys(node, terms.get("keys", ()))}
            case "DeduplicateWithinWatermark":
                return {"keys": self._keys(node, terms.get("keys", ())), EVENT_TIME: self._marks()}
            case "TransformWithStateInPySpark":
                # Spark puts the columns of the key before all others.
                number = int(node.details.get("groupingAttributesLen", "0"))
                return {"keys": self._keys(node, outputs_of(node.children[0])[:number]), **self._state(node)}
        return {"keys": self._keys(node, terms.get("groupingAttributes", ())), **self._state(node)}

    def _keys(self, node: Node, keys: tuple[Term, ...]) -> tuple[StoredValue, ...]:
        write = self._writer(node)
        return tuple(map(StoredValue, map(write.of, keys), node.sql["keyTypes"]))

    def _aggregates(self, node: Node) -> Iterator[StoredValue]:
        """In the order in which Spark stores them: that of what is selected, each once."""
        write = self._writer(node)
        found = (each for top in node.terms.get("aggregateExpressions", ()) for each in top.walk())
        called = [write.of(each) for each in found if each.kind == "AggregateExpression"]
        return starmap(StoredValue, zip(called, node.sql.get("bufferTypes", ()), strict=True))

    def _state(self, node: Node) -> dict[str, tuple[StoredValue, ...]]:
        known = self.states.pop(0) if self.states else None
        kept = [StoredValue("state", type_) for type_ in node.sql.get("stateType", ())]
        if known is None:
            return {STATE: tuple(kept)}
        for each in known.variables:
            kept.append(
                StoredValue(each.name, f"{each.form} {each.schema}{' with TTL' if each.ttl_ms else ''}")
            )
        return {
            STATE: tuple(kept),
            "time mode": (StoredValue(known.time),),
            "output mode": (StoredValue(known.mode),),
        }

    def _join(self, node: Node) -> StateLayout:
        keys, others = self._conditions(node)
        left, right = (
            tuple(StoredValue(self._column(child, each.id, each.name), each.type) for each in child.columns)
            for child in node.children
        )
        parts = {
            "keys": tuple(map(StoredValue, keys)),
            "conditions": tuple(map(StoredValue, sorted(others))),
            EVENT_TIME: self._marks(),
            "left columns": left,
            "right columns": right,
        }
        return StateLayout(f"{' '.join(_join_words(node)).upper()} JOIN", parts)

    def _conditions(self, join: Node) -> tuple[list[str], list[str]]:
        """What a join has equal on both sides, in its order, and its other conditions."""
        write, left = self._condition_writer(join), {each.id for each in outputs_of(join.children[0])}
        keys: list[str] = []
        others: list[str] = []
        for term in _conjuncts(join.terms.get("condition", ())):
            sides = [{each.id in left for each in _columns_in(part)} for part in term.children]
            if term.kind in ("EqualTo", "EqualNullSafe") and sides in ([{True}, {False}], [{False}, {True}]):
                first, second = term.children if sides[0] == {True} else reversed(term.children)
                keys.append(f"{write.of(first)} {_INFIX[term.kind]} {write.of(second)}")
            # What else an inner join compares is a filter over what it finds, unless it is about times: that
            # can decide how long rows are kept.
            elif _join_words(join) != ["inner"] or any(each.type in TIME_TYPES for each in _columns_in(term)):
                others.append(write.of(term))
        return keys, others

    def _condition_writer(self, join: Node) -> ExpressionText:
        """Writes the condition of a join, without how its static rows are found: it says that."""

        def column(id_: int, name: str) -> str:
            inside = [each for each in join.children if id_ in {column.id for column in outputs_of(each)}]
            return self._column(inside[0], id_, name) if inside else self._named(id_, name, join)

        return ExpressionText(column)

    def _marks(self) -> tuple[StoredValue, ...]:
        """The columns that decide how long rows are kept."""
        return tuple(map(StoredValue, sorted(self.marked)))

    def _texts(self, node: Node, name: str) -> tuple[str, ...]:
        write = self._writer(node)
        return tuple(write.of(term) for term in node.terms.get(name, ()))

    def _writer(self, node: Node) -> ExpressionText:
        """Writes the expressions of a node."""
        return ExpressionText(lambda id_, name: self._below(node, id_, name))

    def _below(self, node: Node, id_: int, name: str) -> str:
        """A column that a node gets from what is below it."""
        for child in node.children:
            if any(each.id == id_ for each in outputs_of(child)):
                text = self._column(child, id_, name)
                return text + self._looked_up(node, child) if node.kind == "Join" else text
        return self._named(id_, name, node)

    def _looked_up(self, join: Node, side: Node) -> str:
        """How a stream finds a static row, which decides what a column of that row means."""
        if self._streams(side) or not self._streams(join):
            return ""
        write = self._condition_writer(join)
        # Where nothing is equal, any condition may decide which row is found.
        any_ = (write.of(term) for term in _conjuncts(join.terms.get("condition", ())))
        found = self._conditions(join)[0] or sorted(any_)
        return f" by {' and '.join(found)}" if found else ""

    def _column(self, node: Node, id_: int, name: str) -> str:
        """How an output column of a node is computed."""
        if not node.children:
            return self._named(id_, name, node)
        if node.kind == "Union":
            place = [each.id for each in outputs_of(node)].index(id_)
            each_branch = ((child, outputs_of(child)[place]) for child in node.children)
            texts = [self._column(child, column.id, column.name) for child, column in each_branch]
            return " | ".join(dict.fromkeys(text for text in texts if REPLAYED not in text))
        named = [*node.terms.get("projectList", ()), *node.terms.get("aggregateExpressions", ())]
        made = [each for each in named if each.id == id_ and each.kind != "AttributeReference"]
        if made:
            return self._writer(node).of(made[0])
        if node.kind == "Expand":
            return self._expanded(node, id_)
        made_here = [each.id for each in node.terms.get("generatorOutput", ())]
        if id_ in made_here:
            number = f"[{made_here.index(id_)}]" if len(made_here) > 1 else ""
            return f"{self._texts(node, 'generator')[0]}{number}"
        return self._below(node, id_, name)

    def _expanded(self, node: Node, id_: int) -> str:
        """A column that stands for several: windows that overlap, or the sets of CUBE and ROLLUP."""
        outputs = [each.id for each in node.terms["output"]]
        same = node.terms["projections"][outputs.index(id_) :: len(outputs)]
        write = self._writer(node)
        texts = [write.of(each) for each in same if each.kind != "Literal" or each.value]
        sets = "grouping sets " if all(each.kind == "Literal" for each in same) else ""
        return sets + " | ".join(dict.fromkeys(texts))

    def _named(self, id_: int, name: str, node: Node) -> str:
        if id_ in self.columns:
            return self.columns[id_]
        # What a Python function or an operator of its own gives has no other origin.
        return f"{self._function(node)}.{name}"

    def _function(self, node: Node) -> str:
        """A function with those of its inputs that are more than a column of a source."""
        terms = (each for terms in node.terms.values() for each in terms)
        called = [each.name for each in terms if each.kind.startswith("Python")]
        given = ((child, each) for child in node.children for each in outputs_of(child))
        texts = {column.name: self._column(child, column.id, column.name) for child, column in given}
        plain = set(self.columns.values())
        computed = [
            f"{text} AS {name}"
            for name, text in texts.items()
            if text not in plain or not text.endswith(f".{name}")
        ]
        return node.stream or f"{_NAMES.get(node.kind) or node.kind}({', '.join([*called, *computed])})"


def _join_words(join: Node) -> list[str]:
    return words_of(join.details.get("joinType", "Inner"))


def _columns_in(term: Term) -> Iterator[Term]:
    return (each for each in term.walk() if each.kind == "AttributeReference")


def _conjuncts(terms: tuple[Term, ...]) -> Iterator[Term]:
    for term in terms:
        if term.kind == "And":
            yield from _conjuncts(term.children)
        else:
            yield term
