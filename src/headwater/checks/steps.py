"""The steps of a query as rules ask for them."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.plan import QueryFacts
from headwater.plan.operators import Key, Kind, Operator

AGGREGATING = frozenset({Kind.AGGREGATION, Kind.DISTINCT})
"""What gives one row for each key; a SELECT DISTINCT is an aggregation without aggregates."""
DEDUP = frozenset({Kind.DEDUP, Kind.DEDUP_WITHIN_WATERMARK})
MODES = ("append", "update", "complete")


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


def is_session(key: Key) -> bool:
    return key.window is not None and key.window.session


def names_of(keys: tuple[Key, ...]) -> str:
    """Keys in words: `a`, `b` and `c`."""
    shown = [f"`{key.name or key.sql}`" for key in keys]
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def streams_in_words(operator: Operator) -> str:
    """Streams by their names."""
    return ", ".join(f"`{name}`" for name in operator.streams)
