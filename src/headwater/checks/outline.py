"""The outline of a query: its operators, their state, its delivery guarantee, and a diagram."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headwater.checks.bounds import Bound, Extent, bounds_of, in_words, window_sql
from headwater.checks.guarantees import Guarantee, after_suspension, guarantee_of
from headwater.errors import Problem
from headwater.errors.catalogue.programs import RATE_SOURCE_NOT_FOUND
from headwater.plan import QueryFacts
from headwater.plan.operators import Kind, Operator
from headwater.values import count_of, nearest

# The number of rows in the state of a query, for given input rates.

_RATE = re.compile(r"([0-9][0-9_,]*(?:\.[0-9]+)?)(?:\s*/\s*([a-z]+))?", re.IGNORECASE)
_SECONDS = {
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hour"), 3_600),
    **dict.fromkeys(("d", "day"), 86_400),
}


@dataclass(frozen=True)
class RetainedRows:
    """The number of rows in a part of the state."""

    operator: int
    what: str
    rows: int
    """An upper limit: filters reduce it, and so do rows that share a key."""
    rows_in_step: int | None = None
    """The number while all inputs are in sync, if one watermark delays the others."""


def parse_rate(text: str) -> tuple[str, float]:
    """Parses `clicks=1000/s` into a name and rows per second; raises ValueError with the problem."""
    name, equals, written = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise ValueError("expected SOURCE=RATE")
    return name, per_second(written)


def per_second(written: str) -> float:
    """Parses `1000/s` into rows per second; raises ValueError with the problem."""
    found = _RATE.fullmatch(written.strip())
    if found is None:
        raise ValueError(f"`{written}` is not a number of rows")
    unit = (found[2] or "s").lower()
    if unit not in _SECONDS:
        raise ValueError(f"invalid unit `{unit}`, expected one of s, m, h, d")
    return float(found[1].replace(",", "").replace("_", "")) / _SECONDS[unit]


def rate_problems(rates: Iterable[str], streams: Iterable[str]) -> list[Problem]:
    """A problem for each unknown name, with the most similar known one."""
    known = list(streams)
    shown = ", ".join(known) or "none"
    meant = {name: nearest(name, known) for name in rates if name not in known}
    return [
        RATE_SOURCE_NOT_FOUND.at(
            None, name=name, hint=f"Did you mean `{near}`? " if near else "", known=shown
        )
        for name, near in meant.items()
    ]


def rows_kept(
    facts: QueryFacts, bounds: Iterable[Bound], rates: Mapping[str, float]
) -> tuple[RetainedRows, ...]:
    """The rows in the state, if known. The input rate of an operator after a stateful one is unknown."""
    found = []
    for bound in bounds:
        below = facts.below(facts.operators[bound.operator])
        if any(each.is_stateful or each.kind is Kind.STATIC_JOIN for each in below):
            continue
        for kept in bound.retention:
            if kept.for_ms is not None and kept.streams and all(name in rates for name in kept.streams):
                per_ms = sum(rates[name] for name in kept.streams) * kept.copies / 1_000
                step = None if kept.in_step_ms is None else round(per_ms * kept.in_step_ms)
                found.append(RetainedRows(bound.operator, kept.what, round(per_ms * kept.for_ms), step))
    return tuple(found)


def bound_to_json(facts: QueryFacts, bound: Bound, rows: Iterable[RetainedRows]) -> dict[str, Any]:
    """A bound as JSON, with the name of its operator and the rows that follow from the rates."""
    figures = {each.what: each for each in rows if each.operator == bound.operator}
    values = bound.to_json()
    for kept in values["retention"]:
        found = figures.get(kept["what"])
        kept["rows"] = found.rows if found else None
        kept["rows_in_step"] = found.rows_in_step if found else None
    return {"operator": bound.operator, "name": facts.operators[bound.operator].name, **values}


# A query as a text diagram: from the sink down to its sources, with the state of each operator.

# With the two columns by which `explain` indents it, a diagram fits a terminal of 80 columns.
WIDTH = 78


def picture_of(facts: QueryFacts, bounds: Iterable[Bound], rows: Iterable[RetainedRows] = ()) -> list[str]:
    """The operators of a query, the one next to the sink first, no line wider than a terminal."""
    by_place, figures, shown = {each.operator: each for each in bounds}, tuple(rows), set[str]()
    sources = {each.name: each for each in facts.sources}
    static = [each.name for each in facts.sources if not each.streaming]

    def notes(place: int) -> Iterator[str]:
        """The state of an operator; a note about the whole query is shown once."""
        bound = by_place.get(place)
        for line in bound_lines(bound, figures) if bound else ():
            if bound and (line not in bound.notes or line not in shown):
                shown.add(line)
                yield line

    def below(operator: Operator) -> list[int | str]:
        """The operators that it reads, and the streams that it reads directly."""
        through = {name for each in facts.inputs_of(operator) for name in each.streams}
        direct = [name for name in operator.streams if name not in through]
        if operator.kind is Kind.STATIC_JOIN:
            # The join does not record which static rows it reads.
            direct.append(static[0] if len(static) == 1 else "static rows")
        return [*operator.inputs, *direct]

    def drawn(branches: Sequence[int | str], indent: str) -> Iterator[str]:
        """Draws the branches: operators by index, sources by name."""
        for number, branch in enumerate(branches, start=1):
            first, inner = ("└─ ", "   ") if number == len(branches) else ("├─ ", "│  ")
            inner, inputs = indent + inner, list[int | str]()
            if isinstance(branch, int):
                title, inputs = title_of(facts.operators[branch]), below(facts.operators[branch])
            else:
                source = sources.get(branch)
                kind = f" ({source.connector}{'' if source.streaming else ', static'})" if source else ""
                title = f"{branch}{kind}"
            bar = "│  " if inputs else "   "
            yield from _wrapped(title, indent + first, inner + bar)
            for note in notes(branch) if isinstance(branch, int) else ():
                yield from _wrapped(note, inner + bar, f"{inner}{bar}  ")
            yield from drawn(inputs, inner)

    taken = {place for operator in facts.operators for place in operator.inputs}
    tops = [place for place in range(len(facts.operators)) if place not in taken]
    through = {name for place in tops for name in facts.operators[place].streams}
    loose = [each.name for each in facts.sources if each.streaming and each.name not in through]
    return list(drawn([*tops, *loose], ""))


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest)


def bound_lines(bound: Bound, rows: Iterable[RetainedRows] = ()) -> list[str]:
    """The state of one operator as text."""
    figures = {each.what: each for each in rows if each.operator == bound.operator}
    kept = []
    for each in bound.retention:
        found = figures.get(each.what)
        most = f", at most {count_of(found.rows, 'row')}" if found else ""
        words = f"retains {each.what} for {each.words}{most}"
        if each.in_step_ms is not None:
            in_step = found.rows_in_step if found else None
            more = f", {count_of(in_step, 'row')}," if in_step is not None else ""
            words += f" ({in_words(each.in_step_ms)}{more} while the inputs are in sync)"
        kept.append(words)
    extent = bound.extent.value
    lines = [extent, *kept]
    if bound.extent is not Extent.BOUNDED or not kept:
        lines[0] = f"{extent}: {bound.why}"
    elif len(kept) == 1:
        lines = [f"{extent}: {kept[0]}"]
    if bound.missing:
        lines.append(f"missing: {bound.missing}")
    return [*lines, *bound.notes]


def title_of(operator: Operator) -> str:
    """An operator in one line: what it does, on which keys."""
    match operator.kind:
        case Kind.WATERMARK if operator.event_times:
            time = operator.event_times[0]
            return f"watermark on {time.column}, delay {in_words(time.delay_ms)}"
        case Kind.JOIN | Kind.STATIC_JOIN if operator.join is not None:
            condition = " AND ".join(operator.join.keys) or operator.join.condition
            return f"{operator.name} ON {condition}" if condition else operator.name
        case Kind.AGGREGATION if not operator.keys:
            return "aggregation of all rows"
    keys = [
        window_sql(key.window)
        if key.window and not key.taken_apart
        else key.sql
        if key.window
        else key.name or key.sql
        for key in operator.keys
    ]
    return f"{operator.name} {', '.join(keys)}" if keys else operator.name


@dataclass(frozen=True)
class Outline:
    """The operators, the state and the delivery guarantee of a query; with rates, the rows in the state."""

    facts: QueryFacts
    bounds: tuple[Bound, ...]
    rows: tuple[RetainedRows, ...]
    guarantee: Guarantee

    @classmethod
    def of(cls, facts: QueryFacts, rates: Mapping[str, float] | None = None) -> Outline:
        bounds = bounds_of(facts)
        return cls(facts, bounds, rows_kept(facts, bounds, rates or {}), guarantee_of(facts))

    @property
    def after_suspension(self) -> str:
        """What the sink contains after another run has taken over from a suspended one."""
        return after_suspension(self.facts)

    def picture(self, *, of_pipeline: bool = False) -> list[str]:
        """The delivery guarantee, what lowers it, and the query from the sink down, at most 80 columns wide.

        A lock protects the queries of a pipeline, so the picture then includes what that means after a suspension.
        """
        level, *reasons = self.guarantee.lines()
        lines = [f"delivery guarantee: {level}"]
        for line in reasons if self.guarantee.lowering else ():
            inner = " " * (len(line) - len(line.lstrip()))
            lines += _wrapped(line, "", f"{inner}  ")
        if of_pipeline:
            lines += _wrapped(f"after a suspension: {self.after_suspension}", "", "  ")
        return [*lines, *picture_of(self.facts, self.bounds, self.rows)]

    def to_json(self) -> dict[str, Any]:
        return {
            "operators": [{"title": title_of(each), **asdict(each)} for each in self.facts.operators],
            "bounds": [bound_to_json(self.facts, bound, self.rows) for bound in self.bounds],
            "guarantee": self.guarantee.to_json(),
        }
