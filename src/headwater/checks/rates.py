"""How many rows a query keeps when its streams bring so many per second."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.checks.bounds import Bound, Kept
from headwater.errors import Problem
from headwater.errors.catalogue.usage import UNKNOWN_RATE
from headwater.plan import QueryFacts
from headwater.plan.operators import Kind
from headwater.values import nearest

_RATE = re.compile(r"([0-9][0-9_,]*(?:\.[0-9]+)?)(?:\s*/\s*([a-z]+))?", re.IGNORECASE)
_SECONDS = {
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hour"), 3_600),
    **dict.fromkeys(("d", "day"), 86_400),
}


@dataclass(frozen=True)
class KeptRows:
    """How many rows something that is kept comes to."""

    operator: int
    what: str
    rows: int
    """At most so many: a filter on the way makes them fewer, and so do rows that share a key."""
    rows_in_step: int | None = None
    """The same while all inputs are equally far, where one watermark holds the others back."""


def parse_rate(text: str) -> tuple[str, float]:
    """`clicks=1000/s` as a name and rows per second; ValueError says what is wrong."""
    name, equals, written = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise ValueError("it names no source and rate")
    return name, per_second(written)


def per_second(written: str) -> float:
    """`1000/s` as rows per second; ValueError says what is wrong."""
    found = _RATE.fullmatch(written.strip())
    if found is None:
        raise ValueError(f"`{written}` is not a number of rows")
    unit = (found[2] or "s").lower()
    if unit not in _SECONDS:
        raise ValueError(f"`{unit}` is none of s, m, h and d")
    return float(found[1].replace(",", "").replace("_", "")) / _SECONDS[unit]


def rate_problems(rates: Iterable[str], streams: Iterable[str]) -> list[Problem]:
    """What is wrong with the names, each with the one that was most likely meant."""
    known = list(streams)
    shown = ", ".join(known) or "none"
    meant = {name: nearest(name, known) for name in rates if name not in known}
    return [
        UNKNOWN_RATE.at(None, name=name, hint=f"Did you mean `{near}`? " if near else "", known=shown)
        for name, near in meant.items()
    ]


def rows_kept(facts: QueryFacts, bounds: Iterable[Bound], rates: Mapping[str, float]) -> tuple[KeptRows, ...]:
    """What can be told of what is kept; an operator behind another stateful one has a rate of its own."""
    found = (
        _rows(bound.operator, kept, rates)
        for bound in bounds
        if _reads_streams(facts, bound.operator)
        for kept in bound.kept
    )
    return tuple(each for each in found if each is not None)


def bound_to_json(facts: QueryFacts, bound: Bound, rows: Iterable[KeptRows]) -> dict[str, Any]:
    """A bound as data, with the name of its operator and the rows that come of the rates."""
    figures = {each.what: each for each in rows if each.operator == bound.operator}
    told = bound.to_json()
    for kept in told["kept"]:
        found = figures.get(kept["what"])
        kept["rows"] = found.rows if found else None
        kept["rows_in_step"] = found.rows_in_step if found else None
    return {"operator": bound.operator, "name": facts.operators[bound.operator].name, **told}


def _reads_streams(facts: QueryFacts, place: int) -> bool:
    """Whether the rows of an operator come from the streams as they are, not more and not aggregated."""
    below = (facts.operators[each] for each in facts.below(place))
    return all(not each.is_stateful and each.kind is not Kind.STATIC_JOIN for each in below)


def _rows(place: int, kept: Kept, rates: Mapping[str, float]) -> KeptRows | None:
    if kept.for_ms is None or not kept.streams or not all(name in rates for name in kept.streams):
        return None
    per_second = sum(rates[name] for name in kept.streams) * kept.copies
    step = None if kept.in_step_ms is None else round(per_second * kept.in_step_ms / 1_000)
    return KeptRows(place, kept.what, round(per_second * kept.for_ms / 1_000), step)
