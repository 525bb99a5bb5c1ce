"""Rules about joins that a stream can't do as they are written."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.finding import Finding, Severity
from headwater.checks.join_bounds import (
    has_range,
    join_sides,
    missing_for_join,
    sides_in_words,
    streams_of,
    waits_for_ever,
)
from headwater.checks.rule import Query, QueryRule
from headwater.errors.catalogue.state import ANTI_JOIN_OF_STREAMS, OUTER_JOIN_UNBOUNDED, STATIC_SIDE_PRESERVED
from headwater.plan import QueryFacts
from headwater.plan.operators import Join, Kind, Operator

_REFUSED_BY_SPARK = "Stream-stream"


def joins_of(query: Query, kind: Kind) -> Iterator[tuple[Operator, Join]]:
    """The joins of a kind that a stream takes part in."""
    for operator in query.facts.operators:
        if operator.kind is kind and operator.join is not None and operator.streams:
            yield operator, operator.join


class OuterJoinUnbounded(QueryRule):
    """An outer join gives a row without a partner once it is sure that none will come, and only a watermark
    together with a time range (or equal windows) in the condition makes that sure. Some such joins Spark
    refuses; others it starts, and the rows without a partner never come."""

    entries = {OUTER_JOIN_UNBOUNDED: Severity.ERROR}
    example = """
        tables:
          outcomes: SELECT i.ad, shown, clicked FROM impressions i LEFT JOIN clicks c ON i.ad = c.ad
    """

    def about(self, query: Query) -> Iterator[Finding]:
        for operator, join in joins_of(query, Kind.JOIN):
            needed = self._needed(query, operator, join)
            if any(needed):
                left, right = sides_in_words(join)
                problem = OUTER_JOIN_UNBOUNDED.at(
                    query.where(operator),
                    type=join.type,
                    left=left,
                    right=right,
                    side=" and ".join(
                        side for side, open_ in zip((left, right), needed, strict=True) if open_
                    ),
                    missing=_missing(query.facts, operator, join, needed),
                )
                yield Finding(problem, sink=query.facts.sink, table=operator.table)

    def _needed(self, query: Query, operator: Operator, join: Join) -> tuple[bool, bool]:
        """The sides (left, right) whose end must be known and is not."""
        if join.type == "left semi":
            # What it gives is right without an end, too; Spark wants to know one all the same.
            refusal = query.facts.refusal
            refused = refusal is not None and _REFUSED_BY_SPARK in refusal.says
            return refused and not join.left.bounded, False
        if _range_comes_late(query.facts, operator, join):
            left, right = join_sides(operator)
            return left.preserved, right.preserved
        return waits_for_ever(operator)


def _range_comes_late(facts: QueryFacts, operator: Operator, join: Join) -> bool:
    """Whether the time range stands in WHERE. Spark's optimiser takes it into account, its checker does not,
    and what comes out is an inner join: rows without a partner have no time to compare."""
    type_ = join.type.title().replace(" ", "")
    refused = facts.refusal is not None and f"{_REFUSED_BY_SPARK} {type_} join" in facts.refusal.says
    bounded = "outer" in join.type and not any(waits_for_ever(operator))
    return refused and bounded and not has_range(join) and not join.watermark_in_keys


def _missing(facts: QueryFacts, operator: Operator, join: Join, needed: tuple[bool, bool]) -> str:
    if not _range_comes_late(facts, operator, join):
        return missing_for_join(join, needed)
    return (
        "the time range to the condition after ON: in WHERE it leaves out the rows without a partner. Where "
        "these are not wanted, write an inner JOIN"
    )


class AntiJoinOfStreams(QueryRule):
    """Spark has no left anti join with a stream on its right; an outer join does the same."""

    entries = {ANTI_JOIN_OF_STREAMS: Severity.ERROR}
    example = """
        tables:
          unnoticed: SELECT i.ad FROM impressions i LEFT ANTI JOIN clicks c ON i.ad = c.ad
    """

    def about(self, query: Query) -> Iterator[Finding]:
        for operator, join in joins_of(query, Kind.JOIN):
            if join.type == "left anti":
                left, right = sides_in_words(join)
                problem = ANTI_JOIN_OF_STREAMS.at(query.where(operator), left=left, right=right)
                yield Finding(problem, sink=query.facts.sink, table=operator.table)


class StaticSidePreserved(QueryRule):
    """A join of a stream with static rows looks at the stream's new rows, batch by batch. It can't give the
    static rows that have no partner: a later batch may bring one."""

    entries = {STATIC_SIDE_PRESERVED: Severity.ERROR}
    example = """
        tables:
          all_customers: SELECT c.id, o.amount FROM customers c LEFT JOIN orders o ON o.customer = c.id
    """

    def about(self, query: Query) -> Iterator[Finding]:
        for operator, join in joins_of(query, Kind.STATIC_JOIN):
            static = "right" if join.left.streaming else "left"
            if not _gives_static_rows(join.type, static):
                continue
            stream = join.left if join.left.streaming else join.right
            problem = STATIC_SIDE_PRESERVED.at(
                query.where(operator),
                type=join.type,
                stream=streams_of(stream),
                side=static,
                why=_WHY.get(join.type, _NO_PARTNER),
                hint=_hint(join.type, streams_of(stream)),
            )
            yield Finding(problem, sink=query.facts.sink, table=operator.table)


_NO_PARTNER = "it would give static rows without a partner, and a partner may still come"
_WHY = {"left semi": "it would give each static row once that has a partner, and would have to remember them"}


def _gives_static_rows(type_: str, static: str) -> bool:
    """Whether a join of this type gives rows by the static side, which is `left` or `right`."""
    if type_ == "full outer":
        return True
    return static == ("right" if type_ == "right outer" else "left") and type_ in (
        "left outer",
        "right outer",
        "left semi",
        "left anti",
    )


def _hint(type_: str, stream: str) -> str:
    match type_:
        case "left semi":
            return f"Join the other way round, {stream} JOIN the static rows, and drop repeats of the result."
        case "left anti":
            return "Find the static rows without a partner in a batch run, `headwater run --batch`."
        case _:
            return (
                f"Put the stream on the side that is kept: {stream} LEFT JOIN the static rows. Static rows "
                "without a partner are for a batch run, `headwater run --batch`."
            )
