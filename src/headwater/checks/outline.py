"""The outline of a query: its operators, what each keeps, its guarantee, and a picture of it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headwater.checks.bounds import Bound, Extent, Kept, bounds_of, in_words, window_sql
from headwater.checks.guarantees import Guarantee, guarantee_of
from headwater.errors import Problem
from headwater.errors.catalogue.programs import UNKNOWN_RATE
from headwater.plan import QueryFacts
from headwater.plan.operators import Key, Kind, Operator
from headwater.values import nearest

# How many rows a query keeps when its streams bring so many per second.

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


# A query as a small picture in text: from the sink down to its sources, with what each step keeps.

# With the two columns by which `explain` indents it, a picture fits a terminal of eighty.
WIDTH = 78


def picture_of(
    facts: QueryFacts, bounds: Iterable[Bound], rows: Iterable[KeptRows] = (), width: int = WIDTH
) -> list[str]:
    """The operators of a query, nearest to the sink first, none wider than `width`."""
    return list(_Picture(facts, bounds, rows, width).lines())


def bound_lines(bound: Bound, rows: Iterable[KeptRows] = ()) -> list[str]:
    """What one operator keeps, in a few words."""
    figures = {each.what: each for each in rows if each.operator == bound.operator}
    kept = [f"keeps {_kept_words(each, figures.get(each.what))}" for each in bound.kept]
    told = bound.extent.value
    if bound.extent is not Extent.BOUNDED or not kept:
        told = f"{told}: {bound.why}"
    lines = [f"{told}: {kept[0]}"] if len(kept) == 1 and told == Extent.BOUNDED else [told, *kept]
    if bound.missing:
        lines.append(f"missing: {bound.missing}")
    return [*lines, *bound.notes]


def _kept_words(kept: Kept, figures: KeptRows | None) -> str:
    rows = f", at most {figures.rows:,} rows" if figures else ""
    if kept.in_step_ms is None:
        return f"{kept.what} {kept.words}{rows}"
    more = f", {figures.rows_in_step:,} rows," if figures and figures.rows_in_step is not None else ""
    step = f"({in_words(kept.in_step_ms)}{more} while the inputs keep step)"
    return f"{kept.what} {kept.words}{rows} {step}"


class _Picture:
    """The branches of one picture, drawn from the sink down."""

    def __init__(
        self, facts: QueryFacts, bounds: Iterable[Bound], rows: Iterable[KeptRows], width: int
    ) -> None:
        self._facts = facts
        self._bounds: Mapping[int, Bound] = {each.operator: each for each in bounds}
        self._rows = tuple(rows)
        self._width = width
        self._sources = {each.name: each for each in facts.sources}
        self._static = [each.name for each in facts.sources if not each.streaming]
        self._told: set[str] = set()

    def lines(self) -> Iterator[str]:
        """The branches that no other operator takes, one after the other."""
        operators = self._facts.operators
        taken = {place for operator in operators for place in operator.inputs}
        tops = [place for place in range(len(operators)) if place not in taken]
        shown = {name for place in tops for name in operators[place].streams}
        loose = [each.name for each in self._facts.sources if each.streaming and each.name not in shown]
        yield from self._branches(tops, loose, "")

    def _branches(self, places: list[int], sources: list[str], indent: str) -> Iterator[str]:
        count = len(places) + len(sources)
        for number, place in enumerate(places, start=1):
            yield from self._branch(place, indent, last=number == count)
        for number, name in enumerate(sources, start=len(places) + 1):
            yield from self._text(self._source(name), indent, "└─ " if number == count else "├─ ", "   ")

    def _branch(self, place: int, indent: str, *, last: bool) -> Iterator[str]:
        operator = self._facts.operators[place]
        inner = indent + ("   " if last else "│  ")
        sources = self._direct_sources(operator)
        bar = "│  " if operator.inputs or sources else "   "
        yield from self._text(
            title_of(operator), indent, "└─ " if last else "├─ ", inner[len(indent) :] + bar
        )
        bound = self._bounds.get(place)
        for line in self._once(bound) if bound else []:
            yield from self._text(line, inner, bar, f"{bar}  ")
        yield from self._branches(list(operator.inputs), sources, inner)

    def _direct_sources(self, operator: Operator) -> list[str]:
        """The streams that reach it with no other step between."""
        through = {name for place in operator.inputs for name in self._facts.operators[place].streams}
        direct = [name for name in operator.streams if name not in through]
        if operator.kind is Kind.STATIC_JOIN:
            # A join tells only that static rows are there, not which.
            direct.append(self._static[0] if len(self._static) == 1 else "static rows")
        return direct

    def _source(self, name: str) -> str:
        source = self._sources.get(name)
        if source is None:
            return name
        return f"{name} ({source.connector}{'' if source.streaming else ', static'})"

    def _once(self, bound: Bound) -> Iterator[str]:
        """What an operator keeps; a note that concerns the whole query is not told again."""
        for line in bound_lines(bound, self._rows):
            if line not in bound.notes or line not in self._told:
                self._told.add(line)
                yield line

    def _text(self, text: str, indent: str, first: str, rest: str) -> Iterator[str]:
        yield from textwrap.wrap(
            text, self._width, initial_indent=indent + first, subsequent_indent=indent + rest
        )


def title_of(operator: Operator) -> str:
    """An operator in one line: what it is, over what."""
    match operator.kind:
        case Kind.WATERMARK if operator.event_times:
            time = operator.event_times[0]
            return f"watermark on {time.column}, {in_words(time.delay_ms)} late at most"
        case Kind.JOIN | Kind.STATIC_JOIN if operator.join is not None:
            condition = " AND ".join(operator.join.keys) or operator.join.condition
            return f"{operator.name} ON {condition}" if condition else operator.name
        case Kind.AGGREGATION if not operator.keys:
            return "aggregate of all rows"
        case _:
            keys = ", ".join(_key(key) for key in operator.keys)
            return f"{operator.name} {keys}" if keys else operator.name


def _key(key: Key) -> str:
    if key.window is None:
        return key.name or key.sql
    return key.sql if key.taken_apart else window_sql(key.window)


@dataclass(frozen=True)
class Outline:
    """What a query does, keeps and guarantees; with rates, how many rows it keeps."""

    facts: QueryFacts
    bounds: tuple[Bound, ...]
    rows: tuple[KeptRows, ...]
    guarantee: Guarantee

    @classmethod
    def of(cls, facts: QueryFacts, rates: Mapping[str, float] | None = None) -> Outline:
        bounds = bounds_of(facts)
        return cls(facts, bounds, rows_kept(facts, bounds, rates or {}), guarantee_of(facts))

    def picture(self) -> list[str]:
        """From the sink down to its sources, in lines of at most eighty columns."""
        return [*self._guarantee(), *picture_of(self.facts, self.bounds, self.rows)]

    def _guarantee(self) -> Iterator[str]:
        """The level, and what lowers it."""
        level, *reasons = self.guarantee.lines()
        yield f"guarantee: {level}"
        for line in reasons if self.guarantee.lowering else ():
            inner = " " * (len(line) - len(line.lstrip()))
            yield from textwrap.wrap(line, WIDTH, subsequent_indent=f"{inner}  ")

    def to_json(self) -> dict[str, Any]:
        return {
            "operators": [{"title": title_of(each), **asdict(each)} for each in self.facts.operators],
            "bounds": [bound_to_json(self.facts, bound, self.rows) for bound in self.bounds],
            "guarantee": self.guarantee.to_json(),
        }
