"""Rules about joins that a stream can't do as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.checks.rules import Match, Query, rule
from headwater.plan import QueryFacts
from headwater.plan.operators import Join, Kind, Operator, Side

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


_PRESERVED = {
    "left outer": (True, False),
    "right outer": (False, True),
    "full outer": (True, True),
}


def join_sides(operator: Operator) -> tuple[JoinSide, JoinSide]:
    """Left and right."""
    join = operator.join
    assert join is not None, "a join of streams has two sides"
    left, right = _PRESERVED.get(join.type, (False, False))
    return (
        _side(operator, join, join.left, join.right, "left", preserved=left),
        _side(operator, join, join.right, join.left, "right", preserved=right),
    )


def waits_for_ever(operator: Operator) -> tuple[bool, bool]:
    """The sides (left, right) whose rows without a partner would never come."""
    left, right = join_sides(operator)
    return left.preserved and not left.bounded, right.preserved and not right.bounded


def missing_for_join(join: Join, sides: tuple[bool, bool]) -> str:
    """What has to be written so that the sides that are asked for (left, right) are bounded."""
    wanted = [side for side, asked in zip((join.left, join.right), sides, strict=True) if asked]
    if not wanted:
        return ""
    sides_named = zip((join.left, join.right), sides_in_words(join), strict=True)
    bare = [words for side, words in sides_named if not side.event_times]
    if bare:
        names = " and ".join(bare)
        # Whether a range that is there will do can't be told before the watermarks are.
        return f"a watermark on {names}" + (
            "" if has_range(join) else ", and a time range in the join condition"
        )
    return (
        f"a time range in the join condition, such as `{_range(join, both=len(wanted) == 2, one=wanted[0])}`"
    )


def has_range(join: Join) -> bool:
    """Whether its condition compares anything besides by equality."""
    return any(sign in join.condition.lower() for sign in ("<", ">", "between("))


def _range(join: Join, *, both: bool, one: Side) -> str:
    """A condition that lets Spark forget one side, or both."""
    left, right = _time(join.left, join.right, "left"), _time(join.right, join.left, "right")
    if both:
        return f"{right} BETWEEN {left} - INTERVAL 1 HOUR AND {left} + INTERVAL 1 HOUR"
    own, other = (left, right) if one is join.left else (right, left)
    return f"{other} <= {own} + INTERVAL 1 HOUR"


def _time(side: Side, other: Side, word: str) -> str:
    """The event time of a side, with the name of its stream, or of the side, where both have the same."""
    column = side.event_times[0].column
    if column != other.event_times[0].column:
        return column
    return f"{side.streams[0] if side.streams[0] != other.streams[0] else word}.{column}"


def _side(operator: Operator, join: Join, own: Side, other: Side, word: str, *, preserved: bool) -> JoinSide:
    times = other.event_times or own.event_times
    return JoinSide(
        name=_name(own, other, word),
        streams=own.streams,
        bounded=own.bounded,
        delay_ms=max((time.delay_ms for time in times), default=0),
        reach_ms=_reach(operator, join, own),
        preserved=preserved,
    )


def _reach(operator: Operator, join: Join, own: Side) -> int:
    if not join.watermark_in_keys or own.reach_ms:
        return own.reach_ms
    # A row of a window is kept until the window is over.
    return max((key.window.size_ms for key in operator.keys if key.window), default=0)


def _name(own: Side, other: Side, word: str) -> str:
    name = " and ".join(own.streams) or word
    return f"{name} ({word})" if set(own.streams) & set(other.streams) else name


def sides_in_words(join: Join) -> tuple[str, str]:
    """The streams of both sides as a message names them, told apart where a stream stands on both."""
    left, right = streams_of(join.left), streams_of(join.right)
    if set(join.left.streams) & set(join.right.streams):
        return f"{left} (left)", f"{right} (right)"
    return left, right


def streams_of(side: Side) -> str:
    """The streams of a side as a message names them."""
    return " and ".join(f"`{name}`" for name in side.streams)


_REFUSED_BY_SPARK = "Stream-stream"


def joins_of(query: Query, kind: Kind) -> Iterator[tuple[Operator, Join]]:
    """The joins of a kind that a stream takes part in."""
    for operator in query.facts.operators:
        if operator.kind is kind and operator.join is not None and operator.streams:
            yield operator, operator.join


@rule(
    "HW-OUTER-JOIN-UNBOUNDED",
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
        needed = _needed(query, operator, join)
        if any(needed):
            left, right = sides_in_words(join)
            yield query.match(
                operator,
                type=join.type,
                left=left,
                right=right,
                side=" and ".join(side for side, open_ in zip((left, right), needed, strict=True) if open_),
                missing=_missing(query.facts, operator, join, needed),
            )


def _needed(query: Query, operator: Operator, join: Join) -> tuple[bool, bool]:
    """The sides (left, right) whose end must be known and is not."""
    if join.type == "left semi":
        # What it gives is right without an end, too; Spark wants to know one all the same.
        return query.facts.refused_for(_REFUSED_BY_SPARK) and not join.left.bounded, False
    if _range_comes_late(query.facts, operator, join):
        left, right = join_sides(operator)
        return left.preserved, right.preserved
    return waits_for_ever(operator)


def _range_comes_late(facts: QueryFacts, operator: Operator, join: Join) -> bool:
    """Whether the time range stands in WHERE. Spark's optimiser takes it into account, its checker does not,
    and what comes out is an inner join: rows without a partner have no time to compare."""
    type_ = join.type.title().replace(" ", "")
    refused = facts.refused_for(f"{_REFUSED_BY_SPARK} {type_} join")
    bounded = "outer" in join.type and not any(waits_for_ever(operator))
    return refused and bounded and not has_range(join) and not join.watermark_in_keys


def _missing(facts: QueryFacts, operator: Operator, join: Join, needed: tuple[bool, bool]) -> str:
    if not _range_comes_late(facts, operator, join):
        return missing_for_join(join, needed)
    return (
        "the time range to the condition after ON: in WHERE it leaves out the rows without a partner. Where "
        "these are not wanted, write an inner JOIN"
    )


@rule(
    "HW-ANTI-JOIN-OF-STREAMS",
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
    "HW-STATIC-SIDE-PRESERVED",
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
        static = "right" if join.left.streaming else "left"
        if not _gives_static_rows(join.type, static):
            continue
        stream = join.left if join.left.streaming else join.right
        yield query.match(
            operator,
            type=join.type,
            stream=streams_of(stream),
            side=static,
            why=_WHY.get(join.type, _NO_PARTNER),
            hint=_hint(join.type, streams_of(stream)),
        )


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
