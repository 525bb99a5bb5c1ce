"""Rules about joins that a stream can't do as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.checks.rules import Match, Query, rule
from headwater.plan.operators import Join, Kind, Operator, Side
from headwater.values import quoted

# The two sides of a join of streams: how long each is needed, or what is missing to tell.


@dataclass(frozen=True)
class JoinSide:
    """One side of a join of streams."""

    name: str
    """Its streams; with `(left)` or `(right)` where a stream is joined with itself."""
    streams: tuple[str, ...]
    bounded: bool
    delay_ms: int
    """How late the rows of the other side may be."""
    reach_ms: int
    """How much longer than that a row is needed."""
    preserved: bool
    """Whether the join gives its rows without a partner, too."""


def join_sides(operator: Operator) -> tuple[JoinSide, JoinSide]:
    """Left and right."""
    join = operator.join
    assert join is not None, "a join of streams has two sides"
    # A row of a window is kept until the window is over.
    windows = [key.window.size_ms for key in operator.keys if key.window] if join.watermark_in_keys else []

    def side_of(own: Side, other: Side, word: str) -> JoinSide:
        name = " and ".join(own.streams) or word
        times = other.event_times or own.event_times
        return JoinSide(
            name=f"{name} ({word})" if set(own.streams) & set(other.streams) else name,
            streams=own.streams,
            bounded=own.bounded,
            delay_ms=max((time.delay_ms for time in times), default=0),
            reach_ms=own.reach_ms or max(windows, default=0),
            preserved=join.type in (f"{word} outer", "full outer"),
        )

    return side_of(join.left, join.right, "left"), side_of(join.right, join.left, "right")


def waits_for_ever(operator: Operator) -> tuple[bool, bool]:
    """The sides (left, right) whose rows without a partner would never come."""
    left, right = join_sides(operator)
    return left.preserved and not left.bounded, right.preserved and not right.bounded


def missing_for_join(join: Join, sides: tuple[bool, bool]) -> str:
    """What has to be written so that the sides that are asked for (left, right) are bounded."""
    if not any(sides):
        return ""
    named = zip((join.left, join.right), sides_in_words(join), strict=True)
    bare = [words for side, words in named if not side.event_times]
    if bare:
        # Whether a range that is there will do can't be told before the watermarks are.
        more = "" if has_range(join) else ", and a time range in the join condition"
        return f"a watermark on {' and '.join(bare)}{more}"
    left, right = (side.event_times[0].column for side in (join.left, join.right))
    if left == right:
        # Told apart by their streams, or by their sides where a stream is joined with itself.
        first, second = join.left.streams[0], join.right.streams[0]
        first, second = (first, second) if first != second else ("left", "right")
        left, right = f"{first}.{left}", f"{second}.{right}"
    condition = {
        (True, True): f"{right} BETWEEN {left} - INTERVAL 1 HOUR AND {left} + INTERVAL 1 HOUR",
        (True, False): f"{right} <= {left} + INTERVAL 1 HOUR",
        (False, True): f"{left} <= {right} + INTERVAL 1 HOUR",
    }
    return f"a time range in the join condition, such as `{condition[sides]}`"


def has_range(join: Join) -> bool:
    """Whether its condition compares anything besides by equality."""
    return any(sign in join.condition.lower() for sign in ("<", ">", "between("))


def sides_in_words(join: Join) -> tuple[str, str]:
    """The streams of both sides as a message names them, told apart where a stream stands on both."""
    left, right = quoted(join.left.streams, " and "), quoted(join.right.streams, " and ")
    if set(join.left.streams) & set(join.right.streams):
        return f"{left} (left)", f"{right} (right)"
    return left, right


_REFUSED_BY_SPARK = "Stream-stream"
_RANGE_IN_WHERE = (
    "the time range to the condition after ON: in WHERE it leaves out the rows without a partner. Where "
    "these are not wanted, write an inner JOIN"
)
_GIVES_ROWS_OF = {
    "full outer": ("left", "right"),
    "right outer": ("right",),
    **dict.fromkeys(("left outer", "left semi", "left anti"), ("left",)),
}
"""The sides whose rows come out of a join by themselves."""


def joins_of(query: Query, kind: Kind) -> Iterator[tuple[Operator, Join]]:
    """The joins of a kind that a stream takes part in."""
    return ((step, step.join) for step in query.facts.steps(kind) if step.join is not None)


@rule(
    "HW-UNBOUNDED-OUTER-JOIN",
    "The {type} join of {left} with {right} can't tell when a row of {side} is without a partner for good.",
    "Add {missing}.",
    example="""
        tables:
          outcomes: SELECT i.ad, shown, clicked FROM impressions i LEFT JOIN clicks c ON i.ad = c.ad
    """,
)
def outer_join_unbounded(query: Query) -> Iterator[Match]:
    """An outer join gives a row without a partner once it is sure that none will come, and only a watermark
    together with a time range (or equal windows) in the condition makes that sure. Some such joins Spark
    refuses; others it starts, and the rows without a partner never come."""
    for operator, join in joins_of(query, Kind.JOIN):
        sides, needed = join_sides(operator), waits_for_ever(operator)
        # Whether the time range stands in WHERE. Spark's optimizer takes it into account, its checker does
        # not, and what comes out is an inner join: rows without a partner have no time to compare.
        type_ = join.type.title().replace(" ", "")
        refused = query.facts.refused_for(f"{_REFUSED_BY_SPARK} {type_} join")
        late = refused and "outer" in join.type and not any(needed) and not has_range(join)
        late = late and not join.watermark_in_keys
        if late:
            needed = sides[0].preserved, sides[1].preserved
        elif join.type == "left semi":
            # What it gives is right without an end, too; Spark wants to know one all the same.
            needed = query.facts.refused_for(_REFUSED_BY_SPARK) and not join.left.bounded, False
        if any(needed):
            left, right = sides_in_words(join)
            side = " and ".join(name for name, open_ in zip((left, right), needed, strict=True) if open_)
            missing = _RANGE_IN_WHERE if late else missing_for_join(join, needed)
            yield query.match(operator, type=join.type, left=left, right=right, side=side, missing=missing)


@rule(
    "HW-ANTI-JOIN-UNSUPPORTED",
    "A left anti join of two streams, {left} and {right}, is not possible in Spark.",
    "Write a LEFT JOIN with watermarks and a time range in its condition, and keep the rows whose right side "
    "IS NULL.",
    example="""
        tables:
          unnoticed: SELECT i.ad FROM impressions i LEFT ANTI JOIN clicks c ON i.ad = c.ad
    """,
)
def anti_join_of_streams(query: Query) -> Iterator[Match]:
    """Spark has no left anti join with a stream on its right; an outer join does the same."""
    for operator, join in joins_of(query, Kind.JOIN):
        if join.type == "left anti":
            left, right = sides_in_words(join)
            yield query.match(operator, left=left, right=right)


@rule(
    "HW-STATIC-OUTER-JOIN-UNSUPPORTED",
    "A {type} join of the stream {stream} with static rows on the {side} is not possible: {why}.",
    "{hint}",
    example="""
        tables:
          all_customers: SELECT c.id, o.amount FROM customers c LEFT JOIN orders o ON o.customer = c.id
    """,
)
def static_side_preserved(query: Query) -> Iterator[Match]:
    """A join of a stream with static rows looks at the stream's new rows, batch by batch. It can't give the
    static rows that have no partner: a later batch may bring one."""
    for operator, join in joins_of(query, Kind.STATIC_JOIN):
        static, side = ("right", join.left) if join.left.streaming else ("left", join.right)
        if static not in _GIVES_ROWS_OF.get(join.type, ()):
            continue
        stream = quoted(side.streams, " and ")
        why = "it would give static rows without a partner, and a partner may still come"
        hint = (
            f"Put the stream on the side that is kept: {stream} LEFT JOIN the static rows. Static rows "
            "without a partner are for a batch run, `headwater run --batch`."
        )
        if join.type == "left semi":
            why = "it would give each static row once that has a partner, and would have to remember them"
            hint = f"Join the other way round, {stream} JOIN the static rows, and drop repeats of the result."
        if join.type == "left anti":
            hint = "Find the static rows without a partner in a batch run, `headwater run --batch`."
        yield query.match(operator, type=join.type, stream=stream, side=static, why=why, hint=hint)
