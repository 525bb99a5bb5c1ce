"""Joins that make many rows of one."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Query, QueryRule
from headwater.checks.steps import has_equality
from headwater.errors.catalogue.reading import CROSS_JOIN, RANGE_JOIN
from headwater.plan import QueryFacts
from headwater.plan.operators import Join, Kind, Operator

_LATERAL = "LateralJoin"
# These give a row once or not at all, however many partners it has.
_NEVER_MORE = ("semi", "anti", "existence")


class FanOut(QueryRule):
    """A join with static rows that compares nothing by equality gives each row of the stream as often as
    there are static rows that fit; without a condition, with every one of them."""

    entries = {CROSS_JOIN: Severity.WARNING, RANGE_JOIN: Severity.ADVICE}
    example = """
        tables:
          priced: SELECT o.id, p.price FROM orders o CROSS JOIN prices p
    """

    def about(self, query: Query) -> Iterator[Finding]:
        for operator in query.facts.operators:
            join = operator.join
            if join is None or not _may_fan_out(operator, join):
                continue
            told = {"join": operator.name, "static": _static(query.facts)}
            if join.condition:
                problem = RANGE_JOIN.at(query.where(operator), condition=join.condition, **told)
                severity = Severity.ADVICE
            elif _is_lateral(query.facts, operator):
                continue
            else:
                problem, severity = CROSS_JOIN.at(query.where(operator), **told), Severity.WARNING
            yield Finding(problem, severity, query.facts.sink, operator.table)


def _may_fan_out(operator: Operator, join: Join) -> bool:
    # Two streams without an equality are refused by Spark itself.
    if operator.kind is not Kind.STATIC_JOIN or not operator.streams:
        return False
    if has_equality(join) or any(each in join.type for each in _NEVER_MORE):
        return False
    return not (join.left.single or join.right.single)


def _is_lateral(facts: QueryFacts, operator: Operator) -> bool:
    """Whether its condition stands inside: `LATERAL (SELECT … WHERE id = o.id)`."""
    here = (operator.table, operator.line, operator.column)
    laterals = [each for each in facts.beyond_rows if each.sql == _LATERAL]
    return here in [(each.table, each.line, each.column) for each in laterals]


def _static(facts: QueryFacts) -> str:
    names = [each.name for each in facts.sources if not each.streaming]
    return f"`{names[0]}`" if len(names) == 1 else "the static side"
