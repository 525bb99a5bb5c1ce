"""How much each stateful operator of a query keeps, for how long, and what is missing where it has no end."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from headwater.checks.joins import join_sides, missing_for_join
from headwater.plan import QueryFacts
from headwater.plan.operators import TIME_TYPES, Aggregate, ArbitraryState, Key, Kind, Operator, Window
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
    "CollectList": "every value of its rows",
    "ListAgg": "every value of its rows",
    "CollectSet": "every distinct value of its rows",
    "Median": "every distinct value of its rows",
    "Mode": "every distinct value of its rows",
    "Percentile": "every distinct value of its rows",
    "PercentileCont": "every distinct value of its rows",
    "PercentileDisc": "every distinct value of its rows",
}


class Extent(StrEnum):
    """How far the state of an operator can grow."""

    BOUNDED = "bounded"
    BY_KEYS = "by keys"
    """As many entries as there are distinct keys; who has a fixed set of keys is safe."""
    UNBOUNDED = "unbounded"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Kept:
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

    operator: int
    """Its place among the operators of the query."""
    extent: Extent
    why: str
    """The reason, as the end of a sentence."""
    missing: str = ""
    """What has to be written so that the state has an end; empty where it has one."""
    kept: tuple[Kept, ...] = ()
    notes: tuple[str, ...] = ()
    """What else decides how much is kept: a value that grows, an input that holds back the others."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "extent": self.extent.value}


def bounds_of(facts: QueryFacts) -> tuple[Bound, ...]:
    """One bound for each stateful operator, from the sources up."""
    marks = Watermarks.of(facts)
    places = [place for place, operator in enumerate(facts.operators) if operator.is_stateful]
    return tuple(_noted(_bound(facts, marks, place), facts.operators[place], marks) for place in places)


def in_words(milliseconds: int | None) -> str:
    """A length of time as people say it."""
    return "a length that the query does not tell" if milliseconds is None else str(Duration(milliseconds))


def is_time(key: Key) -> bool:
    """Whether new values of a key come as long as time goes on."""
    return key.window is not None or bool(key.made_from) or key.type.lower() in TIME_TYPES


def growing_values(operator: Operator) -> tuple[Aggregate, ...]:
    """The aggregates whose value grows with the rows of a key."""
    return tuple(each for each in operator.aggregates if each.function in _GROWING)


def _bound(facts: QueryFacts, marks: Watermarks, place: int) -> Bound:
    operator = facts.operators[place]
    match operator.kind:
        case Kind.AGGREGATION | Kind.DISTINCT:
            return _aggregation(facts, marks, place)
        case Kind.DEDUP:
            return _dedup(facts, marks, place)
        case Kind.DEDUP_WITHIN_WATERMARK:
            return _within_watermark(facts, marks, place)
        case Kind.JOIN:
            return _join(facts, marks, place)
        case Kind.STATE:
            assert operator.state is not None, "such an operator says what it keeps"
            return _arbitrary(place, operator, operator.state)
        case _:
            return Bound(place, Extent.BOUNDED, "it keeps only how many rows have come")


def _aggregation(facts: QueryFacts, marks: Watermarks, place: int) -> Bound:
    operator = facts.operators[place]
    if not operator.keys:
        return Bound(place, Extent.BOUNDED, "it keeps one row, whatever comes")
    timed = next((key for key in operator.keys if is_time(key)), None)
    if facts.mode == "complete":
        return _complete(place, timed, operator)
    marked = next((key for key in operator.keys if key.watermarked), None)
    if marked is not None:
        return _passed(facts, marks, place, marked)
    if timed is not None:
        return Bound(place, Extent.UNBOUNDED, _no_end(timed, marked=False), missing_for_key(operator, timed))
    return Bound(place, Extent.BY_KEYS, f"it keeps one row for each {_named(operator.keys)}, for ever")


def _complete(place: int, timed: Key | None, operator: Operator) -> Bound:
    if timed is None:
        why = f"complete mode keeps one row for each {_named(operator.keys)}, for ever"
        return Bound(place, Extent.BY_KEYS, why)
    needs = "" if timed.watermarked else f", and {missing_for_key(operator, timed)}"
    return Bound(
        place,
        Extent.UNBOUNDED,
        f"complete mode gives the whole result each time, so {_no_end(timed, marked=timed.watermarked)}",
        f"append or update mode{needs}",
    )


def _no_end(key: Key, *, marked: bool) -> str:
    each = "every window" if key.window else f"every value of `{key.name}`"
    return f"{each} stays" if marked else f"{each} stays, since no watermark tells when one is over"


def missing_for_key(operator: Operator, key: Key) -> str:
    """What lets Spark see when a key is over, as something to write."""
    column = key.window.column if key.window else ""
    if not operator.event_times and not key.made_from:
        if key.reads and not key.window:
            # A computed time has no watermark even where its column has one.
            time = key.reads[0]
            return f"a watermark on {_quoted(time)}, and GROUP BY window({time}, …) instead of {key.sql}"
        if key.type.lower() == "date":
            return f"a watermark on the event time, and its window of a day in place of `{key.name}`"
        return f"a watermark on {_quoted(column or key.name)}"
    if key.window and key.taken_apart:
        return f"the whole window among the keys: GROUP BY {window_sql(key.window)}"
    time = (key.made_from or tuple(each.column for each in operator.event_times))[0]
    if key.window:
        return f"the watermark on {_quoted(column)}: it stands on {_quoted(time)}, which is not in the window"
    return f"a key that carries the watermark: GROUP BY window({time}, …) beside or instead of {key.sql}"


def window_sql(window: Window) -> str:
    """A window as it is written in SQL."""
    if window.session:
        gap = f"'{in_words(window.size_ms)}'" if window.size_ms else "…"
        return f"session_window({window.column}, {gap})"
    slide = f", '{in_words(window.slide_ms)}'" if window.slide_ms not in (0, window.size_ms) else ""
    return f"window({window.column}, '{in_words(window.size_ms)}'{slide})"


def _passed(facts: QueryFacts, marks: Watermarks, place: int, key: Key) -> Bound:
    """An aggregation whose keys the watermark passes."""
    behind = marks.delay(key.delay_ms) + held_back(facts, place)
    streams = facts.operators[place].streams
    window = key.window
    if window is None:
        kept = Kept("a key", behind, in_words(behind), streams=streams)
        why = f"a key is forgotten when the watermark has passed its `{key.name}`"
    elif window.session:
        length = window.size_ms + behind if window.size_ms else None
        words = (
            f"{in_words(length)} after its last row" if length else "its gap and the delay after its last row"
        )
        kept = Kept("a session", length, words, streams=streams)
        why = "a session is forgotten when the watermark has passed its end"
    else:
        length = window.size_ms + behind
        copies = -(-window.size_ms // window.slide_ms) if window.slide_ms else 1
        kept = Kept("a window", length, in_words(length), streams=streams, copies=copies)
        why = "a window is forgotten when the watermark has passed its end"
    return Bound(place, Extent.BOUNDED, why, kept=(kept,))


def _dedup(facts: QueryFacts, marks: Watermarks, place: int) -> Bound:
    operator = facts.operators[place]
    marked = next((key for key in operator.keys if key.watermarked), None)
    if marked is not None:
        return _passed(facts, marks, place, marked)
    timed = any(is_time(key) for key in operator.keys)
    column = operator.event_times[0].column if operator.event_times else ""
    return Bound(
        place,
        Extent.UNBOUNDED if timed else Extent.BY_KEYS,
        f"it remembers every {_named(operator.keys)} that ever came",
        f"`{column}`, which has the watermark, among the columns, or only what repeats within the watermark"
        if column
        else "a watermark on the event time, and only what repeats within the watermark",
    )


def _within_watermark(facts: QueryFacts, marks: Watermarks, place: int) -> Bound:
    operator = facts.operators[place]
    if not operator.event_times:
        return Bound(place, Extent.UNKNOWN, "no watermark reaches it", "a watermark on the event time")
    own = operator.event_times[0].delay_ms
    # A key expires one delay after its row, by the watermark, which is a delay behind the newest row itself.
    length = own + marks.delay(own) + held_back(facts, place)
    kept = Kept("a key", length, in_words(length), streams=operator.streams)
    why = f"a key is forgotten when the watermark has passed its row by {in_words(own)}"
    return Bound(place, Extent.BOUNDED, why, kept=(kept,))


def _join(facts: QueryFacts, marks: Watermarks, place: int) -> Bound:
    operator = facts.operators[place]
    assert operator.join is not None, "a join of streams has two sides"
    sides = join_sides(operator)
    missing = missing_for_join(operator.join, (not sides[0].bounded, not sides[1].bounded))
    kept = []
    for side in sides:
        if side.bounded:
            # What a join below holds back comes later by as much.
            reach = side.reach_ms + held_back(facts, place)
            length = max(0, (side.delay_ms if marks.slowest else marks.in_step_ms) + reach)
            step = max(0, marks.in_step_ms + reach)
            kept.append(
                Kept(side.name, length, in_words(length), step if step != length else None, side.streams)
            )
    if missing:
        open_ends = " and ".join(side.name for side in sides if not side.bounded)
        why = f"rows of {open_ends} stay for ever, since a partner may still come"
        return Bound(place, Extent.UNBOUNDED, why, missing, tuple(kept))
    why = "a row is forgotten when the watermark says that no partner can come any more"
    return Bound(place, Extent.BOUNDED, why, kept=tuple(kept))


def _arbitrary(place: int, operator: Operator, state: ArbitraryState) -> Bound:
    each = _named(operator.keys) if operator.keys else "key"
    lasting = [variable for variable in state.variables if variable.form != "timer" and not variable.ttl_ms]
    expiring = [variable for variable in state.variables if variable.ttl_ms]
    if expiring and not lasting and state.variables_known:
        longest = max(variable.ttl_ms for variable in expiring)
        kept = Kept("a value", longest, f"{in_words(longest)} after it was last written, by the clock")
        why = "every state variable has a time to live"
        return Bound(place, Extent.BOUNDED, why, kept=(kept,))
    ends = {
        "event time": "which the watermark can remind it of",
        "processing time": "which the clock can remind it of",
    }.get(state.time, "")
    why = f"it keeps something for each {each} until your function removes it{f', {ends}' if ends else ''}"
    missing = "" if ends else "a timer, a timeout or a time to live, unless the keys are few"
    return Bound(place, Extent.BY_KEYS, why, missing)


def held_back(facts: QueryFacts, place: int) -> int:
    """How much later than the query's an operator's own watermark is: a join below hands on old rows."""
    return max((_hands_on(facts, each) for each in facts.operators[place].inputs), default=0)


def _hands_on(facts: QueryFacts, place: int) -> int:
    """How old, beyond the watermark, the rows of an operator may be."""
    operator, behind = facts.operators[place], held_back(facts, place)
    if operator.kind is not Kind.JOIN:
        return behind
    return behind + max(0, *(side.reach_ms for side in join_sides(operator) if side.bounded), 0)


def _noted(bound: Bound, operator: Operator, marks: Watermarks) -> Bound:
    notes = [
        f"the value of each key grows: {each.sql} keeps {_GROWING[each.function]}"
        for each in growing_values(operator)
    ]
    if bound.kept and marks.note and operator.kind is not Kind.STATE:
        notes.append(marks.note)
    return replace(bound, notes=tuple(notes))


def _named(keys: tuple[Key, ...]) -> str:
    """`user` and `day`: the columns that make a key; where there are many, only that."""
    if not keys:
        return "row"
    if len(keys) > 3:
        return f"distinct combination of {len(keys)} columns"
    names = [f"`{key.name or key.sql}`" for key in keys]
    return f"distinct {' and '.join(names)}"


def _quoted(column: str) -> str:
    return column if " " in column or column.startswith("`") else f"`{column}`"
