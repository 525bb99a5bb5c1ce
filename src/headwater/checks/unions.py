"""Rules about streams that a UNION puts together."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Query, QueryRule
from headwater.checks.steps import on_streams
from headwater.errors.catalogue.watermarks import BRANCH_WITHOUT_WATERMARK
from headwater.plan import QueryFacts
from headwater.plan.operators import Kind, Operator, Side


class BranchWithoutWatermark(QueryRule):
    """The rows of a UNION go by the watermark of its first branch, all of them. A stream in another branch
    that has no watermark of its own does not hold it back, and its rows are dropped as late by a limit that
    nobody set for them."""

    entries = {BRANCH_WITHOUT_WATERMARK: Severity.WARNING}
    example = """
        sources:
          north: {schema: {at: timestamp, amount: double}, watermark: {column: at, delay: 10 minutes}}
          south: {schema: {at: timestamp, amount: double}}
        tables:
          sales: SELECT at, amount FROM north UNION ALL SELECT at, amount FROM south
          per_hour: SELECT window(at, '1 hour') AS hour, sum(amount) AS amount FROM sales GROUP BY 1
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        # Complete mode forgets nothing, and so drops nothing as late.
        if facts.mode == "complete" or facts.refusal:
            return
        for place, union in on_streams(facts, Kind.UNION):
            bare, marked = _branches(facts, place)
            if bare and marked and not _is_a_branch(facts, place) and _goes_by_watermark(facts, place):
                problem = BRANCH_WITHOUT_WATERMARK.at(
                    query.where(union), sink=facts.sink, streams=_named(bare), others=_named(marked)
                )
                yield Finding(problem, Severity.WARNING, facts.sink, union.table)


def _branches(facts: QueryFacts, place: int) -> tuple[list[str], list[str]]:
    """The streams of the branches without a watermark, and of those with one."""
    union = facts.operators[place]
    inputs = [facts.operators[each] for each in union.inputs]
    # A branch that does nothing with its rows is no operator.
    bare = [name for name in union.streams if not any(name in each.streams for each in inputs)]
    marked: list[str] = []
    for below, operator in zip(union.inputs, inputs, strict=True):
        if operator.kind is Kind.UNION:
            inner = _branches(facts, below)
            bare, marked = bare + inner[0], marked + inner[1]
        elif _is_marked(facts, below):
            marked += operator.streams
        else:
            bare += operator.streams
    return bare, marked


def _is_marked(facts: QueryFacts, place: int) -> bool:
    return any(facts.operators[each].kind is Kind.WATERMARK for each in (place, *facts.below(place)))


def _is_a_branch(facts: QueryFacts, place: int) -> bool:
    """Whether a UNION is only a branch of another, which tells of all branches together."""
    return any(place in each.inputs for each in facts.operators if each.kind is Kind.UNION)


def _goes_by_watermark(facts: QueryFacts, place: int) -> bool:
    """Whether a step above drops rows of an operator by their own watermark."""
    for above in facts.above(place):
        operator = facts.operators[above]
        if operator.kind is Kind.WATERMARK:
            return False
        if operator.kind is Kind.JOIN:
            # What comes behind may go by the time of the other side.
            return _joins_by_time(operator, facts.operators[place].streams)
        if _drops_late(operator):
            return True
    return False


def _drops_late(operator: Operator) -> bool:
    match operator.kind:
        case Kind.AGGREGATION | Kind.DISTINCT | Kind.DEDUP:
            return any(key.watermarked for key in operator.keys)
        case Kind.DEDUP_WITHIN_WATERMARK:
            return bool(operator.event_times)
        case Kind.STATE:
            by_time = operator.state is not None and operator.state.time == "event time"
            return by_time and bool(operator.event_times)
    return False


def _joins_by_time(operator: Operator, streams: tuple[str, ...]) -> bool:
    sides: tuple[Side, ...] = (operator.join.left, operator.join.right) if operator.join else ()
    return any(side.bounded and side.event_times and set(streams) <= set(side.streams) for side in sides)


def _named(streams: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in dict.fromkeys(streams))
