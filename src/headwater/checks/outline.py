"""The outline of a query: its operators, what each keeps, its guarantee, and a picture of it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headwater.checks.bounds import Bound, bounds_of
from headwater.checks.guarantees import Guarantee, guarantee_of
from headwater.checks.picture import WIDTH, picture_of, title_of
from headwater.checks.rates import KeptRows, bound_to_json, rows_kept
from headwater.plan import QueryFacts


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
