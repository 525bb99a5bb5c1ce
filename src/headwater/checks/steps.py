"""The steps of a query as rules ask for them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headwater.plan import QueryFacts
from headwater.plan.operators import Join, Key, Kind, Operator

AGGREGATING = frozenset({Kind.AGGREGATION, Kind.DISTINCT})
"""What gives one row for each key; a SELECT DISTINCT is an aggregation without aggregates."""
DEDUP = frozenset({Kind.DEDUP, Kind.DEDUP_WITHIN_WATERMARK})
MODES = ("append", "update", "complete")
_CONSTANT = re.compile(
    r"-?[0-9][\w.]*|X?'.*'|(DATE|TIMESTAMP|TIMESTAMP_NTZ|INTERVAL) '.*|NULL|CAST\(NULL AS .*|true|false",
    re.IGNORECASE | re.DOTALL,
)
_EQUALITY = re.compile(r"(?<![<>!])=(?!>)|<=>")


def on_streams(facts: QueryFacts, *kinds: Kind) -> Iterator[tuple[int, Operator]]:
    """The operators of some kinds that a stream reaches, with their places, from the sources up."""
    for place, operator in enumerate(facts.operators):
        if operator.kind in kinds and operator.streams:
            yield place, operator


def aggregations(facts: QueryFacts) -> list[tuple[int, Operator]]:
    """The aggregations of streams, from the sources up."""
    return list(on_streams(facts, *AGGREGATING))


def aggregated_below(facts: QueryFacts, place: int) -> bool:
    """Whether what reaches a step comes out of an aggregation of a stream."""
    return any(
        facts.operators[each].kind in AGGREGATING and facts.operators[each].streams
        for each in facts.below(place)
    )


def is_constant(key: Key) -> bool:
    """Whether it is the same for all rows, so that Spark leaves it out of what it groups by."""
    return key.window is None and bool(_CONSTANT.fullmatch(key.sql))


def is_session(key: Key) -> bool:
    return key.window is not None and key.window.session


def names_of(keys: tuple[Key, ...]) -> str:
    """Keys in words: `a`, `b` and `c`."""
    shown = [f"`{key.name or key.sql}`" for key in keys]
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def streams_in_words(operator: Operator) -> str:
    """Streams by their names."""
    return ", ".join(f"`{name}`" for name in operator.streams)


def marked_below(facts: QueryFacts, place: int) -> tuple[str, ...]:
    """The columns on which a watermark was declared before a step, whether or not they reach it."""
    below = [facts.operators[each] for each in facts.below(place)]
    times = [each.event_times for each in below if each.kind is Kind.WATERMARK]
    return tuple(dict.fromkeys(time.column for each in times for time in each))


def has_equality(join: Join) -> bool:
    """Whether something of one side of a join has to be equal to something of the other."""
    return bool(join.keys or _EQUALITY.search(join.condition))
