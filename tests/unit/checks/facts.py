"""Facts of queries made by hand, with only what a test is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headwater.plan import QueryFacts, SourceFacts
from headwater.plan.operators import Aggregate, EventTime, Join, Key, Kind, Operator, Side, Window

HOUR = 3_600_000
MINUTE = 60_000


def facts(*operators: Operator, **overrides: Any) -> QueryFacts:
    """A query of one sink, `out`, over the streams that its operators read."""
    streams = dict.fromkeys(name for operator in operators for name in operator.streams)
    plain = QueryFacts(
        sink="out",
        connector="noop",
        mode="append",
        root="/project",
        timezone="UTC",
        sources=tuple(SourceFacts(name, "files") for name in streams or ("rows",)),
        output_schema={},
        operators=operators,
    )
    return replace(plain, **overrides)


def watermark(stream: str = "rows", column: str = "at", delay_ms: int = 10 * MINUTE) -> Operator:
    """A watermark right on a stream."""
    time = EventTime(column, delay_ms)
    return Operator(Kind.WATERMARK, "withWatermark", streams=(stream,), event_times=(time,))


def aggregation(*keys: Key, functions: tuple[str, ...] = ("count",), **overrides: Any) -> Operator:
    """A GROUP BY over the stream `rows`."""
    aggregates = tuple(Aggregate(f"{each}(x)", each) for each in functions)
    plain = Operator(Kind.AGGREGATION, "GROUP BY", streams=("rows",), keys=keys, aggregates=aggregates)
    return replace(plain, **overrides)


def key(name: str, type_: str = "string", **overrides: Any) -> Key:
    """A column to group by."""
    return replace(Key(name, name, type_), **overrides)


def window_key(size_ms: int = HOUR, slide_ms: int = 0, *, session: bool = False, **overrides: Any) -> Key:
    """A window over `at`, with no watermark on it unless told."""
    window = Window(session, "at", size_ms, 0 if session else slide_ms or size_ms)
    return replace(Key("window(at)", "window", "struct", window=window), **overrides)


def side(stream: str, column: str = "", delay_ms: int = 0, **overrides: Any) -> Side:
    """A side of a join; with a watermark if a column is named."""
    times = (EventTime(column, delay_ms),) if column else ()
    return replace(Side((stream,), times), **overrides)


def join(
    left: Side, right: Side, type_: str = "inner", condition: str = "l.k = r.k", **overrides: Any
) -> Operator:
    """A join; of two streams unless a side is static."""
    both = left.streaming and right.streaming
    streams = tuple(name for each in (left, right) if each.streaming for name in each.streams)
    plain = Operator(
        Kind.JOIN if both else Kind.STATIC_JOIN,
        f"{type_.upper()} JOIN",
        streams=streams,
        join=Join(type_, left, right, condition, ("l.k = r.k",) if condition == "l.k = r.k" else ()),
    )
    return replace(plain, **overrides)
