"""What to write in place of an aggregate with DISTINCT, which a stream can't have."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headwater.checks.steps import is_constant
from headwater.plan.operators import Aggregate, Operator

_CALL = re.compile(r"(\w+)\(DISTINCT ")
_COLUMN = re.compile(r"\w+|`[^`]+`")
_UNNAMED = "__auto_generated_subquery_name"
_CLOSING = {"(": 1, ")": -1}


@dataclass(frozen=True)
class Call:
    """An aggregate with DISTINCT, taken apart: `count(DISTINCT user) FILTER (WHERE n > 2)`."""

    function: str
    arguments: tuple[str, ...]
    filtered: bool

    @classmethod
    def of(cls, sql: str, qualifiers: frozenset[str] | None) -> Call | None:
        """None for what is not written like this; the qualifiers that may be left out, or None for any."""
        start = _CALL.search(sql)
        if start is None:
            return None
        arguments, rest = _arguments(sql[start.end() :])
        names = tuple(_bare(each, qualifiers) for each in arguments)
        return cls(start[1], names, rest.lstrip().startswith("FILTER"))


def ways_around(step: Operator, aggregate: Aggregate, *, in_sql: bool) -> str:
    """What gives the same number, with the columns as they are called."""
    # Columns of SQL have the name of their table before them; others may be a field of a struct.
    qualifiers = None if in_sql else frozenset({*step.streams, _UNNAMED})
    call = Call.of(aggregate.sql, qualifiers) or Call(aggregate.function.lower(), ("x",), filtered=False)
    columns = _told_apart(step, call) if len(step.aggregates) == 1 else []
    named = ", ".join(call.arguments)
    apart = (
        f"tell the rows apart first (a table with `distinct: [{', '.join(columns)}]` in the file, "
        f"dropDuplicates in PySpark) and use {call.function}({named}) over those"
    )
    found = _of_a_set(call) + [apart] * bool(columns)
    said = f"{', '.join(found[:-1])}, or {found[-1]}" if len(found) > 1 else found[0]
    return f"{said[:1].upper()}{said[1:]}."


def _of_a_set(call: Call) -> list[str]:
    value, suffix = call.arguments[0], " FILTER (WHERE …)" if call.filtered else ""
    if len(call.arguments) > 1:
        # DISTINCT passes over rows in which one of the values is NULL; a struct of them is none.
        there = " AND ".join(f"{each} IS NOT NULL" for each in call.arguments)
        value = f"struct({', '.join(call.arguments)})"
        suffix = f" FILTER (WHERE {there}{' AND …' if call.filtered else ''})"
    kept = f"collect_set({value}){suffix}"
    if call.function != "count":
        return [f"aggregate a set, which keeps every value: `aggregate({kept}, …)`"]
    return [
        f"use `approx_count_distinct({value}){suffix}` (an estimate)",
        f"`size({kept})` (exact; keeps every value)",
    ]


def _told_apart(step: Operator, call: Call) -> list[str]:
    """The columns by which rows can be told apart before; none where a key or a value is made on the way.

    A window that is left out would make one of the same value in two windows.
    """
    keys = [key for key in step.keys if not is_constant(key)]
    made = any(key.window or key.taken_apart or key.made_from for key in keys)
    names = [*(key.name for key in keys), *call.arguments]
    if made or call.filtered or step.expanded or not all(map(_COLUMN.fullmatch, names)):
        return []
    return list(dict.fromkeys(names))


def _arguments(text: str) -> tuple[list[str], str]:
    """What stands between the parentheses of a call, and what comes after."""
    depth, found = 0, [""]
    for place, sign in enumerate(text):
        depth += _CLOSING.get(sign, 0)
        if depth < 0:
            return [each.strip() for each in found], text[place + 1 :]
        if sign == "," and depth == 0:
            found.append("")
        else:
            found[-1] += sign
    return [each.strip() for each in found], ""


def _bare(argument: str, qualifiers: frozenset[str] | None) -> str:
    """A column without the name of its table."""
    parts = argument.split(".")
    plain = len(parts) > 1 and all(map(_COLUMN.fullmatch, parts))
    return ".".join(parts[1:]) if plain and (qualifiers is None or parts[0] in qualifiers) else argument
