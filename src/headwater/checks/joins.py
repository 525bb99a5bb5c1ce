"""Rules about joins that a stream does not support."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.checks.rules import Match, Query, rule
from headwater.plan.operators import Join, Kind, Operator, Side
from headwater.values import quoted

# The two sides of a join of streams: how long each row is needed, or what is missing to know it.


@dataclass(frozen=True)
class JoinSide:
    """One side of a join of streams."""

    name: str
    """Its streams; with `(left)` or `(right)` if a stream is joined with itself."""
    streams: tuple[str, ...]
    bounded: bool
    delay_ms: int
    """How late the rows of the other side can be."""
    reach_ms: int
    """How much longer than that a row is needed."""
    preserved: bool
    """Whether the join also emits its unmatched rows."""


def join_sides(operator: Operator) -> tuple[JoinSide, JoinSide]:
    """The left and the right side."""
    join = operator.join
    assert join is not None, "a join of streams has two sides"
    # A row of a window is stored until the window closes.
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


def unmatched_never_emitted(operator: Operator) -> tuple[bool, bool]:
    """The sides (left, right) whose unmatched rows would never be emitted."""
    left, right = join_sides(operator)
    return left.preserved and not left.bounded, right.preserved and not right.bounded


def missing_for_join(join: Join, sides: tuple[bool, bool]) -> str:
    """What to add so that the given sides (left, right) are bounded."""
    if not any(sides):
        return ""
    named = zip((join.left, join.right), sides_in_words(join), strict=True)
    bare = [words for side, words in named if not side.event_times]
    if bare:
        # Whether an existing range is sufficient is unknown without the watermarks.
        more = "" if has_range(join) else ", and a time range in the join condition"
        return f"a watermark on {' and '.join(bare)}{more}"
    left, right = (side.event_times[0].column for side in (join.left, join.right))
    if left == right:
        # Distinguished by their streams, or by their sides if a stream is joined with itself.
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
    """Whether the condition contains a comparison other than equality."""
    return any(sign in join.condition.lower() for sign in ("<", ">", "between("))


def sides_in_words(join: Join) -> tuple[str, str]:
    """The streams of both sides as text, distinguished if a stream is on both."""
    left, right = quoted(join.left.streams, " and "), quoted(join.right.streams, " and ")
    if set(join.left.streams) & set(join.right.streams):
        return f"{left} (left)", f"{right} (right)"
    return left, right


_REFUSED_BY_SPARK = "Stream-stream"
_RANGE_IN_WHERE = (
    "the time range to the ON condition: in WHERE, it drops unmatched rows. If you do not need them, use an "
    "inner JOIN"
)
_GIVES_ROWS_OF = {
    "full outer": ("left", "right"),
    "right outer": ("right",),
    **dict.fromkeys(("left outer", "left semi", "left anti"), ("left",)),
}
"""The sides whose rows a join emits."""


def joins_of(query: Query, kind: Kind) -> Iterator[tuple[Operator, Join]]:
    """The joins of a kind that read a stream."""
    return ((step, step.join) for step in query.facts.steps(kind) if step.join is not None)


@rule(
    "HW-UNBOUNDED-OUTER-JOIN",
    "The {type} join of {left} with {right} {says}: Spark cannot determine when a row has no match.",
    "Add {missing}.",
    example="""
        tables:
          outcomes: SELECT i.ad, shown, clicked FROM impressions i LEFT JOIN clicks c ON i.ad = c.ad
    """,
)
def unbounded_outer_join(query: Query) -> Iterator[Match]:
    """An outer join emits an unmatched row once no match can arrive anymore. Spark can determine this only
    with a watermark and a time range (or equal windows) in the join condition. Spark rejects some joins
    without them. It starts others, but they never emit unmatched rows."""
    for operator, join in joins_of(query, Kind.JOIN):
        sides, needed = join_sides(operator), unmatched_never_emitted(operator)
        # Whether the time range is in WHERE. Spark's optimizer uses it, its checker does not, and the result
        # is an inner join: unmatched rows have no time to compare.
        type_ = join.type.title().replace(" ", "")
        refused = query.facts.refused_for(f"{_REFUSED_BY_SPARK} {type_} join")
        late = refused and "outer" in join.type and not any(needed) and not has_range(join)
        late = late and not join.watermark_in_keys
        if late:
            needed = sides[0].preserved, sides[1].preserved
        elif join.type == "left semi":
            # Its result is correct with unbounded state, but Spark rejects it.
            needed = query.facts.refused_for(_REFUSED_BY_SPARK) and not join.left.bounded, False
        if any(needed):
            left, right = sides_in_words(join)
            side = " and ".join(name for name, open_ in zip((left, right), needed, strict=True) if open_)
            says = (
                f"never emits unmatched rows of {side}" if join.type != "left semi" else "needs bounded state"
            )
            missing = _RANGE_IN_WHERE if late else missing_for_join(join, needed)
            yield query.match(operator, type=join.type, left=left, right=right, says=says, missing=missing)


@rule(
    "HW-ANTI-JOIN-UNSUPPORTED",
    "Spark does not support a left anti join of two streams ({left} and {right}).",
    "Use a LEFT JOIN with watermarks and a time range in its condition, and select the rows whose right "
    "side IS NULL.",
    example="""
        tables:
          unnoticed: SELECT i.ad FROM impressions i LEFT ANTI JOIN clicks c ON i.ad = c.ad
    """,
)
def anti_join(query: Query) -> Iterator[Match]:
    """Spark does not support a left anti join with a stream on the right side. An outer join returns the same
    rows."""
    for operator, join in joins_of(query, Kind.JOIN):
        if join.type == "left anti":
            left, right = sides_in_words(join)
            yield query.match(operator, left=left, right=right)


@rule(
    "HW-STATIC-OUTER-JOIN-UNSUPPORTED",
    "Spark does not support a {type} join of {stream} with static rows on the {side}: {why}.",
    "{hint}",
    example="""
        tables:
          all_customers: SELECT c.id, o.amount FROM customers c LEFT JOIN orders o ON o.customer = c.id
    """,
)
def static_outer_join(query: Query) -> Iterator[Match]:
    """A join of a stream with static rows processes only the new rows of each batch. It cannot emit static
    rows without a match, because a later batch can contain one."""
    for operator, join in joins_of(query, Kind.STATIC_JOIN):
        static, side = ("right", join.left) if join.left.streaming else ("left", join.right)
        if static not in _GIVES_ROWS_OF.get(join.type, ()):
            continue
        stream = quoted(side.streams, " and ")
        why = "it would emit unmatched static rows, but a match can still arrive"
        hint = (
            f"Put the stream on the preserved side: {stream} LEFT JOIN the static rows. To get unmatched "
            "static rows, run `headwater run --batch`."
        )
        if join.type == "left semi":
            why = "it would emit each matching static row once, and would have to store all of them"
            hint = f"Swap the sides: {stream} JOIN the static rows. Then deduplicate the result."
        if join.type == "left anti":
            hint = "To find unmatched static rows, run `headwater run --batch`."
        yield query.match(operator, type=join.type, stream=stream, side=static, why=why, hint=hint)
