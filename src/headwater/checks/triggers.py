"""Rules about triggers: what a query, its source and its sink must be able to do for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.checks.rules import Match, Query, Severity, rule
from headwater.connectors import all_connectors
from headwater.errors import Entry
from headwater.plan import QueryFacts
from headwater.plan.predicates import slots_of, streaming, trigger_of
from headwater.values import AvailableNow, Continuous, Once, RealTime, capitalized, quoted

BATCHES = "use a trigger with batches, such as `every 1 second`"
_INSTEAD = {
    "WITH": "Declare what stands in `WITH` as a table of its own, or write it as a subquery in FROM",
    "watermark": "Leave the watermark out, which a query without state does not need",
    "observe": "Leave `observe` out",
    "hint": "Leave the hint out",
    "repartition": "Let the source make the partitions you want",
}
_LIMITS = frozenset(
    {
        "max_files_per_batch", "max_bytes_per_batch", "maxfilespertrigger", "maxbytespertrigger",
        "max_rows_per_batch", "maxoffsetspertrigger",
    }
)  # fmt: skip
_WAITS = frozenset({"min_rows_per_batch", "minoffsetspertrigger"})


def _ability(facts: QueryFacts) -> str:
    """What sources and sinks must be able to do for a trigger without batches; empty for one with batches."""
    match trigger_of(facts):
        case Continuous():
            return "continuous"
        case RealTime():
            return "real_time"
    return ""


def _instead(facts: QueryFacts, able: Iterable[str]) -> str:
    """The installed connectors that can do it, and what helps without them."""
    choice = quoted(sorted(able), last=" or ")
    return f"Use {choice}; or give `{facts.sink}` a trigger with batches, such as `every 1 second`."


def _options(query: Query, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The streams of a query with those of their options that have one of the names."""
    for source in streaming(query.facts):
        yield from ((source.name, option) for option in source.options if option.lower() in names)


@rule(
    "HW-TRIGGER-SINK",
    "The sink `{sink}` can't take rows under `{trigger}`: {connector} writes whole batches.",
    "{hint}",
    example="""
        sinks:
          copy: {reads: ticks, connector: files, path: copy/, format: json, trigger: continuous 1 second}
    """,
)
def trigger_sink(query: Query) -> Iterator[Match]:
    """Under `continuous` and `real time` there are no batches to hand over: a sink has to take rows one by
    one, from tasks that don't end. Few can."""
    facts, ability = query.facts, _ability(query.facts)
    able = {"continuous": facts.sink_continuous, "real_time": facts.sink_real_time}
    if not able.get(ability, True):
        names = [each.name for each in all_connectors().values() if getattr(each.sink, ability, False)]
        connector, hint = f"`{facts.connector}`", _instead(facts, names)
        yield query.match(query.at("trigger"), trigger=facts.trigger, connector=connector, hint=hint)


@rule(
    "HW-TRIGGER-SOURCE",
    "The source `{name}` can't be read under `{trigger}`: {connector} gives its rows in batches.",
    "{hint}",
    example="""
        sources:
          lines: {connector: files, path: lines/, format: text}
        sinks:
          copy: {reads: lines, connector: console, trigger: continuous 1 second}
    """,
)
def trigger_source(query: Query) -> Iterator[Match]:
    """Under `continuous` and `real time` a source has to give rows to tasks that don't end. Few can: those
    of files, for instance, list folders to make a batch."""
    facts, ability = query.facts, _ability(query.facts)
    able = [each.name for each in all_connectors().values() if getattr(each.source, ability, None)]
    for source in streaming(facts) if ability else ():
        if not getattr(source, ability):
            yield query.match(
                query.at("trigger"),
                name=source.name,
                connector=f"`{source.connector}`",
                trigger=facts.trigger,
                hint=_instead(facts, able),
            )


NOT_ROW_BY_ROW = Entry(
    "`{step}` can't run under `{trigger}`, where a query may only choose rows and compute columns, each row "
    "by itself.",
    "{hint}",
    code="HW-NOT-ROW-BY-ROW",
)
NO_CURRENT_TIME = Entry(
    "`{call}` can't run under `{trigger}`: Spark knows one current time for each batch, and there is none.",
    "Use a time that the rows bring along, such as `timestamp` of the source; or a trigger with batches, "
    "such as `every 1 second`.",
    code="HW-NO-CURRENT-TIME",
)
CONTINUOUS_REFUSED = Entry(
    "Spark can't run the query of `{sink}` under `{trigger}`: {says}.",
    "Choose rows and compute columns only; or use a trigger with batches, such as `every 1 second`.",
    code="HW-CONTINUOUS-REFUSED",
)


@rule(
    entries=[NOT_ROW_BY_ROW, NO_CURRENT_TIME, CONTINUOUS_REFUSED],
    example="""
        tables:
          late: SELECT *, current_timestamp() - timestamp AS late FROM ticks
        sinks:
          late: {reads: late, connector: console, trigger: continuous 1 second}
    """,
)
def row_by_row(query: Query) -> Iterator[Match]:
    """A continuous query takes each row by itself: it may choose rows and compute columns. Whatever looks at
    several rows, makes several of one, keeps state or moves rows between tasks needs batches; so does the
    current time, of which there is one for each batch."""
    facts = query.facts
    if not isinstance(trigger_of(facts), Continuous):
        return
    for step in facts.beyond_rows:
        instead = _INSTEAD.get(step.sql, "")
        hint = f"{instead}; or {BATCHES}." if instead else f"{capitalized(BATCHES)}."
        yield query.match(step, step=step.sql, trigger=facts.trigger, hint=hint)
    for clock in facts.clock_reads:
        yield query.match(clock, entry=NO_CURRENT_TIME, call=clock.sql, trigger=facts.trigger)
    explained = facts.beyond_rows or facts.clock_reads
    # A source that only gives batches is another rule's.
    if facts.trigger_refusal and not explained and all(each.continuous for each in streaming(facts)):
        says = facts.trigger_refusal.says.rstrip(".")
        yield query.match(query.at("trigger"), entry=CONTINUOUS_REFUSED, trigger=facts.trigger, says=says)


@rule(
    "HW-OPTION-IDLE",
    "`{option}` of the source `{name}` does nothing under `{trigger}`.",
    "Leave `{option}` out; or use a trigger with batches, such as `every 1 second`.",
    example="""
        sources:
          ticks: {connector: rate, ramp_up: 1 minute}
        sinks:
          copy: {reads: ticks, connector: console, trigger: continuous 1 second}
    """,
)
def option_idle(query: Query) -> Iterator[Match]:
    """Some options of a source are about its batches; where there are none, Spark passes over them
    silently."""
    facts = query.facts
    for source in streaming(facts) if _ability(facts) else ():
        for option in source.idle_options:
            place = query.source_at(source.name, option)
            yield query.match(place, option=option, name=source.name, trigger=facts.trigger)


@rule(
    "HW-TOO-FEW-CORES",
    "The query of `{sink}` needs {slots} cores at once under `{trigger}`, one for each partition of "
    "{names}, and there are {cores}: it would wait for ever and give nothing.",
    "Run it with {slots} cores or more, on one machine `--master 'local[{slots}]'`; or have {names} make "
    "at most {cores} partitions in all.",
    example="""
        sources:
          ticks: {connector: rate, partitions: 64}
        sinks:
          copy: {reads: ticks, connector: console, trigger: continuous 1 second}
    """,
    lasting=False,
)
def too_few_cores(query: Query) -> Iterator[Match]:
    """A continuous query, and a batch in real time, has one task for each partition of its sources, all at
    once and without an end. Where there are fewer cores, the query starts, waits and never gives a row."""
    facts, slots = query.facts, slots_of(query.facts)
    if _ability(facts) and slots > facts.cores:
        names = quoted((source.name for source in streaming(facts) if source.slots), last=" and ")
        params = {"names": names, "slots": slots, "cores": facts.cores, "trigger": facts.trigger}
        yield Match(query.at("trigger"), params, facts.sink)


@rule(
    "HW-NOTHING-YET",
    "The rows of `{name}` are made while a query runs, and `{trigger}` reads only what is there at the "
    "start: the first run gives none.",
    "Use a trigger that goes on, such as `every 1 second`, and stop the run when you have seen enough.",
    Severity.WARNING,
    example="""
        sources:
          ticks: {connector: rate}
        sinks:
          copy: {reads: ticks, connector: console, trigger: available now}
    """,
)
def nothing_yet(query: Query) -> Iterator[Match]:
    """`available now` and `once` read what is there at the start and end. A source whose rows are made while
    a query runs has nothing yet at its first start, so that nothing comes."""
    facts = query.facts
    for source in streaming(facts) if isinstance(trigger_of(facts), AvailableNow | Once) else ():
        if source.made_while_running:
            yield query.match(query.at("trigger"), name=source.name, trigger=facts.trigger)


@rule(
    "HW-LIMIT-NOT-KEPT",
    "`{option}` of the source `{name}` does nothing under `once`, which reads everything in one batch.",
    "Write `available now`, which reads the same in batches of that size and ends, too.",
    Severity.WARNING,
    example="""
        sources:
          lines: {connector: files, path: lines/, format: text, max_files_per_batch: 100}
        sinks:
          copy: {reads: lines, connector: files, path: copy/, format: text, trigger: once}
    """,
)
def limit_not_kept(query: Query) -> Iterator[Match]:
    """`once` reads everything in one batch, whatever limit the source was given. After a long pause that
    batch can be too large for the cluster; `available now` keeps the limit."""
    for source, option in _options(query, _LIMITS) if isinstance(trigger_of(query.facts), Once) else ():
        yield query.match(query.source_at(source, option), option=option, name=source)


@rule(
    "HW-ROWS-HELD-BACK",
    "`{option}` of the source `{name}` waits for more rows, and `{trigger}` reads what is there and ends: it "
    "would not look at the option, or leave the last rows unread.",
    "Leave `{option}` out; or use a trigger that goes on, such as `every 1 minute`.",
    example="""
        sources:
          clicks: {connector: kafka, servers: "kafka:9092", topic: clicks, min_rows_per_batch: 1000}
        sinks:
          copy: {reads: clicks, connector: files, path: copy/, format: json, trigger: available now}
    """,
)
def rows_held_back(query: Query) -> Iterator[Match]:
    """A source can be told to wait until it has so many rows. `available now` does not wait: it would take
    the wait for the end of what is there, and leave the last rows unread. `once` does not look at it."""
    ends = isinstance(trigger_of(query.facts), AvailableNow | Once)
    for source, option in _options(query, _WAITS) if ends else ():
        place = query.source_at(source, option)
        yield query.match(place, option=option, name=source, trigger=query.facts.trigger)
