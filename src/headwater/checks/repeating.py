"""What in a query may come out differently when a batch runs again over the same rows.

All of it was tried by running a batch again: Spark gives `rand(42)`, `uuid()` and their like a new seed in
each attempt, whatever the query says; `current_timestamp()` and `current_date()` come from the record of the
batch, while `now()` and `current_time()` look at the clock again; the name of a file stays what it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from headwater.plan import QueryFacts
from headwater.plan.operators import Aggregate, Expression, Kind, Operator

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
    if operator.kind is Kind.LIMIT and not _is_sorted(facts, operator):
        why = "which rows come first depends on which task is faster"
        yield Differs(Sort.ORDER, f"`{operator.name}`", why, "Filter by a column instead.", operator)
    if operator.kind is Kind.AGGREGATION:
        yield from (_ordered(operator, each) for each in operator.aggregates if depends_on_order(each))


def _is_sorted(facts: QueryFacts, limit: Operator) -> bool:
    return any(facts.operators[each].kind is Kind.SORT for each in limit.inputs)


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
