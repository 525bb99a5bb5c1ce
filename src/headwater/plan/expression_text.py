"""Expressions of a plan as text in terms of the columns of the sources, the same at every start."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from headwater.plan.lineage import window_in
from headwater.plan.tree import Node, Term, words_of
from headwater.values import Duration

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
        if term.kind in _TRANSPARENT or "replacement" in term.details:
            return self.of(term.children[0])
        write: Mapping[str, Callable[[Term], str]] = {
            "AttributeReference": lambda each: self._column(each.id, each.name),
            "AggregateExpression": self._aggregate,
            "Cast": lambda each: f"CAST({self.of(each.children[0])} AS {each.details.get('to', each.type)})",
            "CommonExpressionRef": lambda each: self._common,
            "Count": self._count,
            "GetStructField": self._field,
            "Literal": _literal,
            "UnaryMinus": lambda each: f"-{self.of(each.children[0])}",
            "NamedLambdaVariable": self._variable,
            "With": self._with,
        }
        return write.get(term.kind, self._call)(term)

    def _aggregate(self, term: Term) -> str:
        function, *filtered = term.children
        text = self.of(function)
        if term.details.get("isDistinct") == "True":
            text = text.replace("(", "(DISTINCT ", 1)
        return f"{text} FILTER (WHERE {self.of(filtered[0])})" if filtered else text

    def _count(self, term: Term) -> str:
        everything = [each.kind for each in term.children] == ["Literal"] and term.children[0].value
        return "count(*)" if everything else self._call(term)

    def _field(self, term: Term) -> str:
        return f"{self.of(term.children[0])}.{term.name or term.details.get('ordinal', '')}"

    def _with(self, term: Term) -> str:
        """An expression that uses another one several times, as BETWEEN does."""
        around, outer = term.children[0], self._common
        self._common = " | ".join(self.of(each.children[0]) for each in term.children[1:])
        text = self.of(around)
        self._common = outer
        return text

    def _variable(self, term: Term) -> str:
        # PySpark numbers the variables of lambdas through a whole process.
        return self._variables.setdefault(term.id, f"x{len(self._variables) + 1}")

    def _call(self, term: Term) -> str:
        given = [] if term.details.get("hideSeed") == "True" else [self.of(each) for each in term.children]
        if term.kind in _COMMUTATIVE:
            given.sort()
        if term.kind in _INFIX and len(given) == 2:
            return f"({given[0]} {_INFIX[term.kind]} {given[1]})"
        given += [f"{key}: {value}" for key, value in sorted(_meaning(term).items())]
        if term.plan:
            given.append(_plan(term.plan, ExpressionText(lambda _, name: name).of))
        name = term.name if term.kind.startswith("Python") else ""
        return f"{name or _FUNCTIONS.get(term.kind) or '_'.join(words_of(term.kind))}({', '.join(given)})"


def window_text(term: Term, text: Callable[[Term], str]) -> str:
    """A window over event time as it is written in SQL; empty for anything else."""
    window = window_in(term)
    if window is None:
        return ""
    start = list(term.children[1].walk())
    times = [each.children[0] for each in start if _reads_time(each)]
    time = text(times[0])
    if window.session:
        # The gap may differ from row to row: it is what the end of a session adds to its time.
        gaps = [each.children[1] for each in term.walk() if each.kind == "TimestampAddInterval"]
        return f"session_window({', '.join([time, *map(text, gaps[:1])])})"
    shift = next((_micros_moved(each) for each in start if each.kind == "Remainder"), 0)
    slide = [] if window.slide_ms == window.size_ms else [str(Duration(window.slide_ms))]
    whole = shift > 0 and shift % 1_000 == 0
    moved = [f"moved by {Duration(shift // 1_000) if whole else f'{shift} microseconds'}"] if shift else []
    return f"window({', '.join([time, str(Duration(window.size_ms)), *slide, *moved])})"


def _reads_time(term: Term) -> bool:
    return term.kind == "PreciseTimestampConversion" and term.details.get("fromType") != "long"


def _micros_moved(remainder: Term) -> int:
    """How far windows are moved from the full hour: `window(t, '1 hour', '1 hour', '15 minutes')`."""
    moved = remainder.children[0]
    shift = moved.children[1].value if moved.kind == "Subtract" else "0"
    return int(shift) if _DIGITS.fullmatch(shift) else 0


def _literal(term: Term) -> str:
    micros = term.type.startswith("interval") and "month" not in term.type and "year" not in term.type
    if micros and term.value.isdigit() and int(term.value) % 1_000 == 0:
        return f"INTERVAL '{Duration(int(term.value) // 1_000)}'"
    if term.type.startswith("interval"):
        return f"{term.value} ({term.type})"
    if term.type in _UNREADABLE:
        return f"({term.type})"
    if term.type == "string":
        return "'" + term.value.replace("'", "''") + "'"
    return term.value or "NULL"


def _meaning(term: Term) -> dict[str, str]:
    """What a function holds besides its arguments; small numbers are the places of arguments."""
    found = {key: value for key, value in term.details.items() if key not in _NO_MEANING}
    return {
        key: value
        for key, value in found.items()
        if not (value in ("True", "False") and key != "ignoreNulls")
        and not (_DIGITS.fullmatch(value) and int(value) < max(len(term.children), 1))
    }


def _plan(node: Node, text: Callable[[Term], str]) -> str:
    """The query inside a subquery expression."""
    terms = ", ".join(text(term) for terms in node.terms.values() for term in terms)
    return f"{node.kind}[{terms}]" + "".join(f" {_plan(child, text)}" for child in node.children)
