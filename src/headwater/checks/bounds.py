"""How much each stateful operator of a query keeps, for how long, and what is missing where it has no end."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from headwater.checks.joins import join_sides, missing_for_join
from headwater.plan import QueryFacts
from headwater.plan.operators import TIME_TYPES, Aggregate, Key, Kind, Operator, Window
from headwater.values import Duration

# The one watermark by which a query goes, of the several that its inputs may have.

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


@dataclass(frozen=True)
class Watermarks:
    """The watermarks of a query: whose each is, and its delay."""

    delays: tuple[tuple[tuple[str, ...], int], ...]
    slowest: bool = True
    """Whether the one furthest behind counts; otherwise the one furthest ahead."""

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
        """How far the query's watermark is behind the newest event, while all inputs are equally far."""
        lengths = [delay for _, delay in self.delays] or [0]
        return max(lengths) if self.slowest else min(lengths)

    @property
    def note(self) -> str:
        """What a query with several watermarks has to reckon with; empty for one."""
        if len(self.delays) < 2:
            return ""
        if self.slowest:
            return "the slowest watermark counts: an input that lags or is silent holds all"
        return "the fastest watermark counts: an input that is behind loses rows as late"

    def delay(self, own_ms: int) -> int:
        """The delay that decides for a key with a delay of its own."""
        return self.in_step_ms if self.delays else own_ms


# By the names of Spark's functions.
_GROWING = {
    **dict.fromkeys(("CollectList", "ListAgg"), "every value of its rows"),
    **dict.fromkeys(
        ("CollectSet", "Median", "Mode", "Percentile", "PercentileCont", "PercentileDisc"),
        "every distinct value of its rows",
    ),
}


class Extent(StrEnum):
    """How far the state of an operator can grow."""

    BOUNDED = "bounded"
    BY_KEYS = "by keys"
    """As many entries as there are distinct keys; who has a fixed set of keys is safe."""
    UNBOUNDED = "unbounded"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Retention:
    """What an operator keeps, and how long, by event time: while the newest event moves on by that much."""

    what: str
    """The streams of a side of a join; elsewhere `a window`, `a session`, `a key`."""
    for_ms: int | None
    """None where the query does not tell the length."""
    words: str
    """The same as people say it: `4 hours`."""
    in_step_ms: int | None = None
    """The same while all inputs of the query are equally far, where one watermark holds the others back."""
    streams: tuple[str, ...] = ()
    """The streams whose rows these are."""
    copies: int = 1
    """In how many windows one row counts."""


@dataclass(frozen=True)
class Bound:
    """How much one stateful operator keeps."""

    extent: Extent
    why: str
    """The reason, as the end of a sentence."""
    missing: str = ""
    """What has to be written so that the state has an end; empty where it has one."""
    kept: tuple[Retention, ...] = ()
    notes: tuple[str, ...] = ()
    """What else decides how much is kept: a value that grows, an input that holds back the others."""
    operator: int = 0
    """Its place among the operators of the query."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "extent": self.extent.value}


def bounds_of(facts: QueryFacts) -> tuple[Bound, ...]:
    """One bound for each stateful operator, from the sources up."""
    marks = Watermarks.of(facts)
    found = []
    for place, step in enumerate(facts.operators):
        if step.is_stateful:
            reckon = _BOUNDS.get(step.kind)
            bound = reckon(facts, marks, step) if reckon else _COUNTED
            notes = [
                f"the value of each key grows: {each.sql} keeps {_GROWING[each.function]}"
                for each in growing_values(step)
            ]
            if bound.kept and marks.note and step.kind is not Kind.STATE:
                notes.append(marks.note)
            found.append(replace(bound, operator=place, notes=tuple(notes)))
    return tuple(found)


def in_words(milliseconds: int | None) -> str:
    """A length of time as people say it."""
    return "a length that the query does not tell" if milliseconds is None else str(Duration(milliseconds))


def is_time(key: Key) -> bool:
    """Whether new values of a key come as long as time goes on."""
    return key.window is not None or bool(key.made_from) or key.type.lower() in TIME_TYPES


def growing_values(operator: Operator) -> tuple[Aggregate, ...]:
    """The aggregates whose value grows with the rows of a key."""
    return tuple(each for each in operator.aggregates if each.function in _GROWING)


def _aggregation(facts: QueryFacts, marks: Watermarks, step: Operator) -> Bound:
    if not step.keys:
        return Bound(Extent.BOUNDED, "it keeps one row, whatever comes")
    complete = facts.mode == "complete"
    marked = next((key for key in step.keys if key.watermarked), None)
    if marked and not complete:
        return _passed(facts, marks, step, marked)
    timed = next((key for key in step.keys if is_time(key)), None)
    if timed is None:
        who = "complete mode" if complete else "it"
        return Bound(Extent.BY_KEYS, f"{who} keeps one row for each {_named(step.keys)}, for ever")
    why = f"{'every window' if timed.window else f'every value of `{timed.name}`'} stays"
    if not timed.watermarked:
        why += ", since no watermark tells when one is over"
    missing = "" if timed.watermarked else missing_for_key(step, timed)
    if complete:
        why = f"complete mode gives the whole result each time, so {why}"
        missing = ", and ".join(filter(None, ["append or update mode", missing]))
    return Bound(Extent.UNBOUNDED, why, missing)


def _dedup(facts: QueryFacts, marks: Watermarks, step: Operator) -> Bound:
    marked = next((key for key in step.keys if key.watermarked), None)
    if marked:
        return _passed(facts, marks, step, marked)
    extent = Extent.UNBOUNDED if any(map(is_time, step.keys)) else Extent.BY_KEYS
    missing = "a watermark on the event time, and only what repeats within the watermark"
    if step.event_times:
        time = f"`{step.event_times[0].column}`, which has the watermark, among the columns"
        missing = f"{time}, or only what repeats within the watermark"
    return Bound(extent, f"it remembers every {_named(step.keys)} that ever came", missing)


def _within_watermark(facts: QueryFacts, marks: Watermarks, step: Operator) -> Bound:
    if not step.event_times:
        return Bound(Extent.UNKNOWN, "no watermark reaches it", "a watermark on the event time")
    own = step.event_times[0].delay_ms
    # A key expires one delay after its row, by the watermark, which is a delay behind the newest row itself.
    length = own + marks.delay(own) + held_back(facts, step)
    kept = Retention("a key", length, in_words(length), streams=step.streams)
    why = f"a key is forgotten when the watermark has passed its row by {in_words(own)}"
    return Bound(Extent.BOUNDED, why, kept=(kept,))


def missing_for_key(operator: Operator, key: Key) -> str:
    """What lets Spark see when a key is over, as something to write."""

    def quoted(column: str) -> str:
        return column if " " in column or column.startswith("`") else f"`{column}`"

    column = key.window.column if key.window else ""
    if not operator.event_times and not key.made_from:
        if key.reads and not key.window:
            # A computed time has no watermark even where its column has one.
            time = key.reads[0]
            return f"a watermark on {quoted(time)}, and GROUP BY window({time}, …) instead of {key.sql}"
        if key.type.lower() == "date":
            return f"a watermark on the event time, and its window of a day in place of `{key.name}`"
        return f"a watermark on {quoted(column or key.name)}"
    if key.window and key.taken_apart:
        return f"the whole window among the keys: GROUP BY {window_sql(key.window)}"
    time = (key.made_from or tuple(each.column for each in operator.event_times))[0]
    if key.window:
        return f"the watermark on {quoted(column)}: it stands on {quoted(time)}, which is not in the window"
    return f"a key that carries the watermark: GROUP BY window({time}, …) beside or instead of {key.sql}"


def window_sql(window: Window) -> str:
    """A window as it is written in SQL."""
    if window.session:
        gap = f"'{in_words(window.size_ms)}'" if window.size_ms else "…"
        return f"session_window({window.column}, {gap})"
    slide = f", '{in_words(window.slide_ms)}'" if window.slide_ms not in (0, window.size_ms) else ""
    return f"window({window.column}, '{in_words(window.size_ms)}'{slide})"


def _passed(facts: QueryFacts, marks: Watermarks, step: Operator, key: Key) -> Bound:
    """An operator whose keys the watermark passes."""
    behind = marks.delay(key.delay_ms) + held_back(facts, step)
    window, passed = key.window, "its end"
    length: int | None = behind + (window.size_ms if window else 0)
    what, words, copies = "a window", in_words(length), 1
    if window is None:
        what, passed = "a key", f"its `{key.name}`"
    elif window.session:
        what, words = "a session", f"{words} after its last row"
        if not window.size_ms:
            length, words = None, "its gap and the delay after its last row"
    elif window.slide_ms:
        copies = -(-window.size_ms // window.slide_ms)
    kept = Retention(what, length, words, streams=step.streams, copies=copies)
    return Bound(Extent.BOUNDED, f"{what} is forgotten when the watermark has passed {passed}", kept=(kept,))


def _join(facts: QueryFacts, marks: Watermarks, step: Operator) -> Bound:
    assert step.join is not None, "a join of streams has two sides"
    sides = join_sides(step)
    kept = []
    for side in sides:
        if side.bounded:
            # What a join below holds back comes later by as much.
            reach = side.reach_ms + held_back(facts, step)
            length = max(0, (side.delay_ms if marks.slowest else marks.in_step_ms) + reach)
            in_step = max(0, marks.in_step_ms + reach)
            other = in_step if in_step != length else None
            kept.append(Retention(side.name, length, in_words(length), other, side.streams))
    missing = missing_for_join(step.join, (not sides[0].bounded, not sides[1].bounded))
    if missing:
        open_ends = " and ".join(side.name for side in sides if not side.bounded)
        why = f"rows of {open_ends} stay for ever, since a partner may still come"
        return Bound(Extent.UNBOUNDED, why, missing, tuple(kept))
    why = "a row is forgotten when the watermark says that no partner can come any more"
    return Bound(Extent.BOUNDED, why, kept=tuple(kept))


def _arbitrary(_facts: QueryFacts, _marks: Watermarks, step: Operator) -> Bound:
    state = step.state
    assert state is not None, "such an operator says what it keeps"
    longest = max((variable.ttl_ms for variable in state.variables), default=0)
    expire = all(variable.form == "timer" or variable.ttl_ms for variable in state.variables)
    if longest and expire and state.variables_known:
        kept = Retention("a value", longest, f"{in_words(longest)} after it was last written, by the clock")
        return Bound(Extent.BOUNDED, "every state variable has a time to live", kept=(kept,))
    each = _named(step.keys) if step.keys else "key"
    why = f"it keeps something for each {each} until your function removes it"
    reminder = {"event time": "the watermark", "processing time": "the clock"}.get(state.time)
    if reminder:
        return Bound(Extent.BY_KEYS, f"{why}, which {reminder} can remind it of")
    return Bound(Extent.BY_KEYS, why, "a timer, a timeout or a time to live, unless the keys are few")


_BOUNDS = {
    Kind.AGGREGATION: _aggregation,
    Kind.DISTINCT: _aggregation,
    Kind.DEDUP: _dedup,
    Kind.DEDUP_WITHIN_WATERMARK: _within_watermark,
    Kind.JOIN: _join,
    Kind.STATE: _arbitrary,
}
_COUNTED = Bound(Extent.BOUNDED, "it keeps only how many rows have come")


def held_back(facts: QueryFacts, step: Operator) -> int:
    """How much later than the query's an operator's own watermark is: a join below hands on old rows."""

    def hands_on(below: Operator) -> int:
        joined = join_sides(below) if below.kind is Kind.JOIN else ()
        return held_back(facts, below) + max([0, *(side.reach_ms for side in joined if side.bounded)])

    return max(map(hands_on, facts.inputs_of(step)), default=0)


def _named(keys: tuple[Key, ...]) -> str:
    """`user` and `day`: the columns that make a key; where there are many, only that."""
    if not keys:
        return "row"
    if len(keys) > 3:
        return f"distinct combination of {len(keys)} columns"
    names = [f"`{key.name or key.sql}`" for key in keys]
    return f"distinct {' and '.join(names)}"
