"""Queries of plain programs, judged by every rule that looks at one query."""

from __future__ import annotations

from headwater.checks.finding import Finding
from headwater.checks.registry import all_rules
from headwater.checks.rule import Query, QueryRule
from headwater.plan import QueryFacts
from headwater.values import Position


def about_query(facts: QueryFacts, place: Position | None) -> list[Finding]:
    """What the rules find; all of it stands at the line that starts the query."""
    query = Query(
        facts,
        at=lambda *key: place,
        source_at=lambda name, *key: place,
        where=lambda step: place,
    )
    rules = [rule for rule in all_rules().values() if isinstance(rule, QueryRule)]
    return [finding for rule in rules for finding in rule.about(query)]
