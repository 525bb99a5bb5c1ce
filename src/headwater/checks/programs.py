"""Queries of plain programs, judged by every rule that looks at one query."""

from __future__ import annotations

from headwater.checks.finding import Finding
from headwater.checks.refusals import judged
from headwater.checks.rule import Query
from headwater.plan import QueryFacts
from headwater.values import Position


def about_query(facts: QueryFacts, place: Position | None) -> list[Finding]:
    """What is said of a query; all of it stands at the line that starts it."""
    query = Query(
        facts,
        at=lambda *key: place,
        source_at=lambda name, *key: place,
        where=lambda step: place,
    )
    return judged(query)
