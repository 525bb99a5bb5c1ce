"""The two sides of a join of streams: how long each is needed, or what is missing to tell."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.plan.operators import Join, Operator, Side


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
