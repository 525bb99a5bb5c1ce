"""The state of each stateful operator: how large it can grow, how long entries live, what would bound it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from headwater.checks.joins import join_sides, missing_for_join
from headwater.plan import QueryFacts
from headwater.plan.operators import TIME_TYPES, Aggregate, Key, Kind, Operator, Window
from headwater.values import Duration

# The watermark that a query uses if its inputs have several.

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


@dataclass(frozen=True)
class Watermarks:
    """The watermarks of a query: the streams and the delay of each."""

    delays: tuple[tuple[tuple[str, ...], int], ...]
    slowest: bool = True
    """Whether the query uses the slowest watermark; otherwise it uses the fastest."""

    @classmethod
    def of(cls, facts: QueryFacts) -> Watermarks:
        found = (
            (operator.streams, operator.event_times[0].delay_ms)
            for operator in facts.operators
            if operator.kind is Kind.WATERMARK and operator.streams and operator.event_times
        )
        return cls(tuple(dict.fromkeys(found)), facts.settings.get(_POLICY, "min") != "max")

    @property
    def in_step_ms(self) -> int:
        """The delay of the query's watermark while all inputs have reached the same event time."""
        lengths = [delay for _, delay in self.delays] or [0]
        return max(lengths) if self.slowest else min(lengths)

    @property
    def note(self) -> str:
        """The effect of several watermarks; empty if there is one."""
        if len(self.delays) < 2:
            return ""
        if self.slowest:
            return "uses the slowest watermark: a lagging or idle input delays state cleanup"
        return "uses the fastest watermark: rows of slower inputs can be dropped as late"

    def delay(self, own_ms: int) -> int:
        """The delay that applies to a key with its own delay."""
        return self.in_step_ms if self.delays else own_ms


# By Spark function.
_GROWING = {
    **dict.fromkeys(("CollectList", "ListAgg"), "every value of its rows"),
    **dict.fromkeys(
        ("CollectSet", "Median", "Mode", "Percentile", "PercentileCont", "PercentileDisc"),
        "every distinct value of its rows",
    ),
}


class Extent(StrEnum):
    """How large the state of an operator can grow."""

    BOUNDED = "bounded"
    PER_KEY = "per key"
    """One entry per distinct key: bounded if the set of keys is fixed."""
    UNBOUNDED = "unbounded"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Retention:
    """What an operator stores and for how long, measured in event time."""

    what: str
    """The streams on one side of a join; otherwise `a window`, `a session` or `a key`."""
    for_ms: int | None
    """None if the query does not define the duration."""
    words: str
    """The duration as text, such as `4 hours`."""
    in_step_ms: int | None = None
    """The duration while all inputs are in sync, if one watermark delays the others."""
    streams: tuple[str, ...] = ()
    """The streams that the rows belong to."""
    copies: int = 1
    """The number of windows that contain one row."""


@dataclass(frozen=True)
class Bound:
    """The state of one stateful operator."""

    extent: Extent
    why: str
    """The reason, as the end of a sentence."""
    missing: str = ""
    """What to add so that the state is bounded; empty if nothing is missing."""
    retention: tuple[Retention, ...] = ()
    notes: tuple[str, ...] = ()
    """What else affects the size: a value that grows, an input that delays the others."""
    operator: int = 0
    """Its index among the operators of the query."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "extent": self.extent.value}


def bounds_of(facts: QueryFacts) -> tuple[Bound, ...]:
    """One bound per stateful operator, from the sources to the sink."""
    marks = Watermarks.of(facts)
    found = []
    for place, step in enumerate(facts.operators):
        if step.is_stateful:
            reckon = _BOUNDS.get(step.kind)
            bound = reckon(facts, marks, step) if reckon else _COUNTED
            notes = [
                f"the value of each key grows: {each.sql} stores {_GROWING[each.function]}"
                for each in growing_values(step)
            ]
            if bound.retention and marks.note and step.kind is not Kind.STATE:
                notes.append(marks.note)
            found.append(replace(bound, operator=place, notes=tuple(notes)))
    return tuple(found)


def in_words(milliseconds: int | None) -> str:
    """A duration as text."""
    return "an unknown duration" if milliseconds is None else str(Duration(milliseconds))


def is_time(key: Key) -> bool:
    """Whether a key gets new values as time advances."""
    return key.window is not None or bool(key.made_from) or key.type.lower() in TIME_TYPES


def growing_values(operator: Operator) -> tuple[Aggregate, ...]:
    """The aggregates whose value grows with the rows of a key."""
    return tuple(each for each in operator.aggregates if each.function in _GROWING)


def _aggregation(facts: QueryFacts, marks: Watermarks, step: Operator) -> Bound:
    if not step.keys:
        return Bound(Extent.BOUNDED, "it stores a single row")
    complete = facts.mode == "complete"
    marked = next((key for key in step.keys if key.watermarked), None)
    if marked and not complete:
        return _passed(facts, marks, step, marked)
    timed = next((key for key in step.keys if is_time(key)), None)
    if timed is None:
        who = "complete mode" if complete else "it"
        return Bound(Extent.PER_KEY, f"{who} stores one row per {_named(step.keys)} and never removes it")
    why = f"{'windows' if timed.window else f'values of `{timed.name}`'} are never removed"
    if not timed.watermarked:
        why += " because no watermark closes them"
    missing = "" if timed.watermarked else missing_for_key(step, timed)
    if complete:
        why = f"complete mode emits the whole result in every batch, so {why}"
        missing = ", and ".join(filter(None, ["append or update mode", missing]))
    return Bound(Extent.UNBOUNDED, why, missing)


def _dedup(facts: QueryFacts, marks: Watermarks, step: Operator) -> Bound:
    marked = next((key for key in step.keys if key.watermarked), None)
    if marked:
        return _passed(facts, marks, step, marked)
    extent = Extent.UNBOUNDED if any(map(is_time, step.keys)) else Extent.PER_KEY
    missing = "a watermark on the event time, and deduplication within the watermark"
    if step.event_times:
        time = f"`{step.event_times[0].column}`, the column with the watermark, among the keys"
        missing = f"{time}, or deduplication within the watermark"
    return Bound(extent, f"it stores every {_named(step.keys)} and never removes it", missing)


def _within_watermark(facts: QueryFacts, marks: Watermarks, step: Operator) -> Bound:
    if not step.event_times:
        return Bound(Extent.UNKNOWN, "no watermark reaches it", "a watermark on the event time")
    own = step.event_times[0].delay_ms
    # A key expires once the watermark is one delay past its row; the watermark lags by a delay itself.
    length = own + marks.delay(own) + held_back(facts, step)
    kept = Retention("a key", length, in_words(length), streams=step.streams)
    why = f"a key is removed once the watermark is {in_words(own)} past its row"
    return Bound(Extent.BOUNDED, why, retention=(kept,))


def missing_for_key(operator: Operator, key: Key) -> str:
    """What to add so that Spark can tell when a key is complete."""

    def quoted(column: str) -> str:
        return column if " " in column or column.startswith("`") else f"`{column}`"

    column = key.window.column if key.window else ""
    if not operator.event_times and not key.made_from:
        if key.reads and not key.window:
            # A computed time has no watermark even if its column has one.
            time = key.reads[0]
            return f"a watermark on {quoted(time)}, and GROUP BY window({time}, …) instead of {key.sql}"
        if key.type.lower() == "date":
            return f"a watermark on the event time, and a window of one day instead of `{key.name}`"
        return f"a watermark on {quoted(column or key.name)}"
    if key.window and key.taken_apart:
        return f"the whole window among the keys: GROUP BY {window_sql(key.window)}"
    time = (key.made_from or tuple(each.column for each in operator.event_times))[0]
    if key.window:
        return f"a watermark on {quoted(column)}, the column of the window; it is on {quoted(time)}"
    return f"a key with the watermark: GROUP BY window({time}, …) in addition to or instead of {key.sql}"


def window_sql(window: Window) -> str:
    """A window as SQL."""
    if window.session:
        gap = f"'{in_words(window.size_ms)}'" if window.size_ms else "…"
        return f"session_window({window.column}, {gap})"
    slide = f", '{in_words(window.slide_ms)}'" if window.slide_ms not in (0, window.size_ms) else ""
    return f"window({window.column}, '{in_words(window.size_ms)}'{slide})"


def _passed(facts: QueryFacts, marks: Watermarks, step: Operator, key: Key) -> Bound:
    """The bound of an operator whose keys expire with the watermark."""
    behind = marks.delay(key.delay_ms) + held_back(facts, step)
    window, passed = key.window, "its end"
    length: int | None = behind + (window.size_ms if window else 0)
    what, words, copies = "a window", in_words(length), 1
    if window is None:
        what, passed = "a key", f"its `{key.name}`"
    elif window.session:
        what, words = "a session", f"{words} after its last row"
        if not window.size_ms:
            length, words = None, "its gap plus the delay after its last row"
    elif window.slide_ms:
        copies = -(-window.size_ms // window.slide_ms)
    kept = Retention(what, length, words, streams=step.streams, copies=copies)
    return Bound(Extent.BOUNDED, f"{what} is removed once the watermark passes {passed}", retention=(kept,))


def _join(facts: QueryFacts, marks: Watermarks, step: Operator) -> Bound:
    assert step.join is not None, "a join of streams has two sides"
    sides = join_sides(step)
    kept = []
    for side in sides:
        if side.bounded:
            # Rows that a join below delays arrive later by the same amount.
            reach = side.reach_ms + held_back(facts, step)
            length = max(0, (side.delay_ms if marks.slowest else marks.in_step_ms) + reach)
            in_step = max(0, marks.in_step_ms + reach)
            other = in_step if in_step != length else None
            kept.append(Retention(side.name, length, in_words(length), other, side.streams))
    missing = missing_for_join(step.join, (not sides[0].bounded, not sides[1].bounded))
    if missing:
        open_ends = " and ".join(side.name for side in sides if not side.bounded)
        why = f"rows of {open_ends} are never removed because a match can still arrive"
        return Bound(Extent.UNBOUNDED, why, missing, tuple(kept))
    why = "a row is removed once the watermark rules out further matches"
    return Bound(Extent.BOUNDED, why, retention=tuple(kept))


def _arbitrary(_facts: QueryFacts, _marks: Watermarks, step: Operator) -> Bound:
    state = step.state
    assert state is not None, "such an operator declares its state"
    longest = max((variable.ttl_ms for variable in state.variables), default=0)
    expire = all(variable.form == "timer" or variable.ttl_ms for variable in state.variables)
    if longest and expire and state.variables_known:
        kept = Retention("a value", longest, f"{in_words(longest)} of processing time after its last write")
        return Bound(Extent.BOUNDED, "every state variable has a TTL", retention=(kept,))
    each = _named(step.keys) if step.keys else "key"
    why = f"it stores state per {each} until your function removes it"
    timer = {"event time": "an event-time", "processing time": "a processing-time"}.get(state.time)
    if timer:
        return Bound(Extent.PER_KEY, f"{why}, for example in {timer} timer or timeout")
    return Bound(Extent.PER_KEY, why, "a timer, a timeout or a TTL, unless there are few keys")


_BOUNDS = {
    Kind.AGGREGATION: _aggregation,
    Kind.DISTINCT: _aggregation,
    Kind.DEDUP: _dedup,
    Kind.DEDUP_WITHIN_WATERMARK: _within_watermark,
    Kind.JOIN: _join,
    Kind.STATE: _arbitrary,
}
_COUNTED = Bound(Extent.BOUNDED, "it stores only a row count")


def held_back(facts: QueryFacts, step: Operator) -> int:
    """How far the watermark of an operator is behind the query's, because a join below emits old rows."""

    def delayed_by(below: Operator) -> int:
        joined = join_sides(below) if below.kind is Kind.JOIN else ()
        return held_back(facts, below) + max([0, *(side.reach_ms for side in joined if side.bounded)])

    return max(map(delayed_by, facts.inputs_of(step)), default=0)


def _named(keys: tuple[Key, ...]) -> str:
    """The columns of a key, such as `user` and `day`; only their number if there are many."""
    if not keys:
        return "row"
    if len(keys) > 3:
        return f"distinct combination of {len(keys)} columns"
    names = [f"`{key.name or key.sql}`" for key in keys]
    return f"distinct {' and '.join(names)}"
