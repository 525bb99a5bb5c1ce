"""All that is said of one query, and what Spark refuses where no rule knows why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.checks.finding import Finding, Severity
from headwater.checks.mode_rule import use_mode
from headwater.checks.registry import all_rules
from headwater.checks.rule import Query, QueryRule
from headwater.errors import Problem
from headwater.errors.catalogue.running import MODE_NOT_SUPPORTED, NOT_ON_A_STREAM, SPARK_REFUSES

_MODE = "STREAMING_OUTPUT_MODE"
_CHECKER = "_LEGACY_ERROR_TEMP_3102"
"""Spark's name for nearly all that its streaming checker says."""


def judged(query: Query) -> list[Finding]:
    """What the rules over facts say of a query, and Spark where they have nothing against it."""
    rules = [rule for rule in all_rules().values() if isinstance(rule, QueryRule)]
    found = [finding for rule in rules for finding in rule.about(query)]
    return [*found, *unexplained(query, found)]


def unexplained(query: Query, found: Iterable[Finding]) -> Iterator[Finding]:
    """What Spark refuses, in its own words, where no rule has an error for the sink."""
    sink = query.facts.sink
    explained = any(each.severity is Severity.ERROR and each.sink == sink for each in found)
    if query.facts.refusal is not None and not explained:
        yield Finding(_in_sparks_words(query), sink=sink)


def _in_sparks_words(query: Query) -> Problem:
    facts, place = query.facts, query.at()
    assert facts.refusal is not None, "Spark has refused"
    says, where = facts.refusal.says, f"the query of the sink `{facts.sink}`"
    if facts.refusal.condition.startswith(_MODE):
        reason = says.split(". ", 1)[-1]
        reason = reason[:1].lower() + reason[1:]
        return MODE_NOT_SUPPORTED.at(
            place, sink=facts.sink, mode=facts.mode, says=reason, hint=use_mode(facts, "change the query")
        )
    if facts.refusal.condition == _CHECKER:
        return NOT_ON_A_STREAM.at(place, where=f"T{where[1:]}", says=says, hint=use_mode(facts))
    return SPARK_REFUSES.at(place, where=where, says=says)
