"""Rules about a query that resumes from a checkpoint: its sources and its state must be the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import zip_longest

from headwater.checks.changes import FROM_SCRATCH
from headwater.checks.rules import Finding, Match, Severity, Situation, pipeline_rule, query_of
from headwater.errors import Entry, Problem
from headwater.plan import QueryFacts
from headwater.plan.quarantine import is_replay_stream
from headwater.plan.state_layout import EVENT_TIME, LIMIT, STATE, StateLayout, StoredValue
from headwater.spec import Mode
from headwater.values import Position


@pipeline_rule(
    "HW-SOURCES-CHANGED",
    "Query `{sink}` cannot resume from its checkpoint: it read {old}, and now reads {new}. Spark assigns "
    "stored offsets to the streaming sources by their order.",
    FROM_SCRATCH,
    example="""
        tables:
          all: SELECT * FROM shops UNION ALL SELECT * FROM web   # before: SELECT * FROM shops
    """,
    lasting=False,
)
def sources_changed(situation: Situation) -> Iterator[Match]:
    """Spark assigns the offsets of a checkpoint to the sources of a query by their order. If a source is
    added or removed, or the order changes, the query reads from the wrong offsets or does not start."""

    def listed(facts: QueryFacts) -> str:
        kinds = {each.name: f" ({each.connector})" for each in facts.sources}
        return ", ".join(f"`{name}`{kinds.get(name, '')}" for name in _inputs(facts))

    for sink, then, now in situation.resuming():
        if sink.name in situation.reached and renamed(then, now) is None:
            yield Match.at(sink.at(), sink=sink.name, old=listed(then), new=listed(now))


STATE_CHANGED = Entry(
    "Query `{sink}` cannot resume from its checkpoint: the state of its {operator} does not match. {says}.",
    FROM_SCRATCH,
    code="HW-STATE-CHANGED",
)
STATE_OPERATORS_CHANGED = Entry(
    "Query `{sink}` cannot resume from its checkpoint: its stateful operators were {old}, and are now {new}.",
    FROM_SCRATCH,
    code="HW-STATE-OPERATORS-CHANGED",
)
STATE_NOT_COMPARED = Entry(
    "Query `{sink}`: Headwater could not determine {when} what the state contains{why}. It cannot detect "
    "changed keys, aggregates, windows or joins.",
    "Make sure that the query is the same as at its last start.",
    code="HW-STATE-NOT-COMPARED",
)


@pipeline_rule(
    entries=[STATE_CHANGED, STATE_OPERATORS_CHANGED, STATE_NOT_COMPARED],
    example="""
        tables:
          totals: SELECT shop, sum(amount * 100) AS cents FROM orders GROUP BY shop   # before: sum(amount)
    """,
    lasting=False,
)
def state_changed(situation: Situation) -> Iterator[Finding]:
    """Spark compares the state of a checkpoint with a query only by types. After any other change of keys,
    aggregates, windows, deduplication or joins, the state would mix the rows of two different queries."""
    for sink, then, now in situation.resuming():
        if sink.name not in situation.reached or renamed(then, now) is None:
            continue
        unknown = then.state is None and now.stateful
        if unknown or (then.state is not None and now.state is None):
            facts, when = (then, "at its last start") if unknown else (now, "now")
            why = f" ({facts.state_unknown})" if facts.state_unknown else ""
            problem = STATE_NOT_COMPARED.at(sink.at(), sink=sink.name, when=when, why=why)
            yield Finding(problem, Severity.WARNING if unknown else Severity.ERROR, sink.name)
        if not situation.reached[sink.name].committed_any:
            then, now = _types_alone(then), _types_alone(now)
        for problem, table in state_problems(then, now, sink.at(), query_of(situation.spec, now).where):
            yield Finding(problem, sink=sink.name, table=table)


def state_problems(
    then: QueryFacts, now: QueryFacts, place: Position | None, where: Callable[[StateLayout], Position | None]
) -> Iterator[tuple[Problem, str]]:
    """What prevents a query from using its stored state, each with its table.

    `place` is the location of the sink, `where` returns that of an operator.
    """
    if then.state is None or now.state is None:
        return
    names = renamed(then, now) or {}
    any_name = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, names))})\.")

    def by_old_names(text: str) -> str:
        return any_name.sub(lambda found: f"{names[found[1]]}.", text) if names else text

    before = _stored(then.state, then)
    after = [_with_texts(each, by_old_names) for each in _stored(now.state, now)]
    if [each.operator for each in before] != [each.operator for each in after]:
        pairs = zip_longest((each.operator for each in before), after)
        other = next((layout for operator, layout in pairs if layout and operator != layout.operator), None)
        at, table = (where(other), other.table) if other else (place, "")
        old, new = _operators(before), _operators(after)
        yield STATE_OPERATORS_CHANGED.at(at, sink=now.sink, old=old, new=new), table
        return
    for old_layout, layout in zip(before, after, strict=True):
        says = ". ".join(_differences(old_layout, layout))
        if says:
            problem = STATE_CHANGED.at(where(layout), sink=now.sink, operator=layout.operator, says=says)
            yield problem, layout.table


def renamed(then: QueryFacts, now: QueryFacts) -> dict[str, str] | None:
    """The old names of renamed sources, by new name; None if the query reads different streams."""
    old, new = _inputs(then), _inputs(now)
    pairs = list(zip(old, new, strict=False))
    if len(old) != len(new) or not all(_is_same(*pair, then, now) for pair in pairs):
        return None
    static = [each.name for each in then.sources if not each.streaming]
    pairs += [
        (before, each.name)
        for each in now.sources
        for before in static
        if not each.streaming and each.name not in static and _is_same(before, each.name, then, now)
    ]
    return {after: before for before, after in pairs if before != after}


def _is_same(before: str, after: str, then: QueryFacts, now: QueryFacts) -> bool:
    """Whether a source is the same as at the last start, possibly renamed."""
    old = next((each for each in then.sources if each.name == before), None)
    new = next((each for each in now.sources if each.name == after), None)
    if old is None or new is None:
        return before == after
    if before == after:
        # A separate rule compares the paths.
        return old.connector == new.connector
    alike = (old.connector, old.places) == (new.connector, new.places)
    return alike and (bool(old.places) or old.options == new.options)


def _inputs(facts: QueryFacts) -> tuple[str, ...]:
    """The streaming sources in Spark's order, without replayed rows, which a start can add safely."""
    named = facts.inputs or tuple(each.name for each in facts.sources if each.streaming)
    return tuple(each for each in named if not is_replay_stream(each))


def _stored(state: tuple[StateLayout, ...], facts: QueryFacts) -> list[StateLayout]:
    """What is stored in the mode of the query; a LIMIT over a complete result stores nothing."""
    return [each for each in state if each.operator != LIMIT or facts.mode == Mode.APPEND.value]


def _with_texts(layout: StateLayout, change: Callable[[str], str]) -> StateLayout:
    """A layout with each text changed."""
    parts = {
        part: tuple(replace(each, text=change(each.text)) for each in stored)
        for part, stored in layout.parts.items()
    }
    return replace(layout, parts=parts)


def _types_alone(facts: QueryFacts) -> QueryFacts:
    """Facts as Spark compares them, before any state is committed."""
    return replace(
        facts, state=facts.state and tuple(_with_texts(each, lambda _: "") for each in facts.state)
    )


def _operators(layouts: list[StateLayout]) -> str:
    keys = (", ".join(stored.text for stored in each.parts.get("keys", ())) for each in layouts)
    both = zip(layouts, keys, strict=True)
    return ", ".join(f"{each.operator} ({keys})" if keys else each.operator for each, keys in both) or "none"


def _differences(old: StateLayout, new: StateLayout) -> Iterator[str]:
    """The parts that do not match, each with both versions."""
    for part in dict.fromkeys([*old.parts, *new.parts]):
        before, after = old.parts.get(part, ()), new.parts.get(part, ())
        # A watermark can be added or removed.
        if part == EVENT_TIME and (set(before) <= set(after) or set(after) <= set(before)):
            continue
        if part == STATE:
            before, after = _shared(before, after), _shared(after, before)
        if len(before) != len(after) or not all(map(StoredValue.takes_over, after, before)):
            typed = [each.text for each in before] == [each.text for each in after]
            was, now = (
                ", ".join(f"`{each.text}` ({each.type})" if typed else f"`{each.text}`" for each in stored)
                for stored in (before, after)
            )
            yield f"{part.capitalize()} before: {was or 'nothing'}; now: {now or 'nothing'}"


def _shared(stored: tuple[StoredValue, ...], others: tuple[StoredValue, ...]) -> tuple[StoredValue, ...]:
    """What both have, by name: a processor can add and remove variables, and declare them in any order."""
    names = {each.text for each in others}
    return tuple(sorted((each for each in stored if each.text in names), key=lambda each: each.text))
