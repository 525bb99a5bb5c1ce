"""Rules about triggers: what a query, its source and its sink must be able to do for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.checks.rule import Finding, Query, QueryRule, Severity
from headwater.connectors import all_connectors
from headwater.errors.catalogue.checks import (
    CONTINUOUS_REFUSED,
    LIMIT_NOT_KEPT,
    NO_CURRENT_TIME,
    NOT_ROW_BY_ROW,
    NOTHING_YET,
    OPTION_IDLE,
    ROWS_HELD_BACK,
    TOO_FEW_CORES,
    TRIGGER_SINK,
    TRIGGER_SOURCE,
)
from headwater.plan import QueryFacts
from headwater.plan.predicates import slots_of, streaming, trigger_of
from headwater.values import AvailableNow, Continuous, Once, RealTime

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


def named(names: Iterable[str]) -> str:
    """Names in a sentence."""
    *first, last = [f"`{name}`" for name in names]
    return f"{', '.join(first)} and {last}" if first else last


class TriggerSink(QueryRule):
    """Under `continuous` and `real time` there are no batches to hand over: a sink has to take rows one by
    one, from tasks that don't end. Few can."""

    entries = {TRIGGER_SINK: Severity.ERROR}
    example = """
        sinks:
          copy: {reads: ticks, connector: files, path: copy/, format: json, trigger: continuous 1 second}
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        match trigger_of(facts):
            case Continuous():
                able, which = facts.sink_continuous, "continuous"
            case RealTime():
                able, which = facts.sink_real_time, "real_time"
            case _:
                return
        if not able:
            known = all_connectors().values()
            problem = TRIGGER_SINK.at(
                query.at("trigger"),
                sink=facts.sink,
                trigger=facts.trigger,
                connector=f"`{facts.connector}`",
                hint=_instead(facts, (each.name for each in known if getattr(each.sink, which, False))),
            )
            yield Finding(problem, sink=facts.sink)


class TriggerSource(QueryRule):
    """Under `continuous` and `real time` a source has to give rows to tasks that don't end. Few can: those
    of files, for instance, list folders to make a batch."""

    entries = {TRIGGER_SOURCE: Severity.ERROR}
    example = """
        sources:
          lines: {connector: files, path: lines/, format: text}
        sinks:
          copy: {reads: lines, connector: console, trigger: continuous 1 second}
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        match trigger_of(facts):
            case Continuous():
                which = "continuous"
            case RealTime():
                which = "real_time"
            case _:
                return
        known = all_connectors().values()
        hint = _instead(facts, (each.name for each in known if getattr(each.source, which, None)))
        for source in streaming(facts):
            if not getattr(source, which):
                problem = TRIGGER_SOURCE.at(
                    query.at("trigger"),
                    name=source.name,
                    connector=f"`{source.connector}`",
                    trigger=facts.trigger,
                    hint=hint,
                )
                yield Finding(problem, sink=facts.sink)


def _instead(facts: QueryFacts, able: Iterator[str]) -> str:
    """The installed connectors that can do it, and what helps without them."""
    names = [f"`{name}`" for name in sorted(able)]
    choice = " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"Use {choice}; or give `{facts.sink}` a trigger with batches, such as `every 1 second`."


class RowByRow(QueryRule):
    """A continuous query takes each row by itself: it may choose rows and compute columns. Whatever looks at
    several rows, makes several of one, keeps state or moves rows between tasks needs batches; so does the
    current time, of which there is one for each batch."""

    entries = {
        NOT_ROW_BY_ROW: Severity.ERROR,
        NO_CURRENT_TIME: Severity.ERROR,
        CONTINUOUS_REFUSED: Severity.ERROR,
    }
    example = """
        tables:
          late: SELECT *, current_timestamp() - timestamp AS late FROM ticks
        sinks:
          late: {reads: late, connector: console, trigger: continuous 1 second}
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        if not isinstance(trigger_of(facts), Continuous):
            return
        told = False
        for step in facts.beyond_rows:
            instead = _INSTEAD.get(step.sql, "")
            hint = f"{instead}; or {BATCHES}." if instead else f"{BATCHES[:1].upper()}{BATCHES[1:]}."
            problem = NOT_ROW_BY_ROW.at(query.where(step), step=step.sql, trigger=facts.trigger, hint=hint)
            yield Finding(problem, sink=facts.sink, table=step.table)
            told = True
        for clock in facts.clock_reads:
            problem = NO_CURRENT_TIME.at(query.where(clock), call=clock.sql, trigger=facts.trigger)
            yield Finding(problem, sink=facts.sink, table=clock.table)
            told = True
        # A source that only gives batches is another rule's.
        if facts.trigger_refusal and not told and all(each.continuous for each in streaming(facts)):
            says = facts.trigger_refusal.says.rstrip(".")
            problem = CONTINUOUS_REFUSED.at(
                query.at("trigger"), sink=facts.sink, trigger=facts.trigger, says=says
            )
            yield Finding(problem, sink=facts.sink)


class OptionIdle(QueryRule):
    """Some options of a source are about its batches; where there are none, Spark passes over them
    silently."""

    entries = {OPTION_IDLE: Severity.ERROR}
    example = """
        sources:
          ticks: {connector: rate, ramp_up: 1 minute}
        sinks:
          copy: {reads: ticks, connector: console, trigger: continuous 1 second}
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        if not isinstance(trigger_of(facts), Continuous | RealTime):
            return
        for source in streaming(facts):
            for option in source.idle_options:
                problem = OPTION_IDLE.at(
                    query.source_at(source.name, option),
                    option=option,
                    name=source.name,
                    trigger=facts.trigger,
                )
                yield Finding(problem, sink=facts.sink)


class TooFewCores(QueryRule):
    """A continuous query, and a batch in real time, has one task for each partition of its sources, all at
    once and without an end. Where there are fewer cores, the query starts, waits and never gives a row."""

    entries = {TOO_FEW_CORES: Severity.ERROR}
    lasting = False
    example = """
        sources:
          ticks: {connector: rate, partitions: 64}
        sinks:
          copy: {reads: ticks, connector: console, trigger: continuous 1 second}
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        if not isinstance(trigger_of(facts), Continuous | RealTime):
            return
        slots = slots_of(facts)
        if slots > facts.cores:
            problem = TOO_FEW_CORES.at(
                query.at("trigger"),
                sink=facts.sink,
                names=named(source.name for source in streaming(facts) if source.slots),
                slots=slots,
                cores=facts.cores,
                trigger=facts.trigger,
            )
            yield Finding(problem, sink=facts.sink)


class NothingYet(QueryRule):
    """`available now` and `once` read what is there at the start and end. A source whose rows are made while
    a query runs has nothing yet at its first start, so that nothing comes."""

    entries = {NOTHING_YET: Severity.WARNING}
    example = """
        sources:
          ticks: {connector: rate}
        sinks:
          copy: {reads: ticks, connector: console, trigger: available now}
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        if not isinstance(trigger_of(facts), AvailableNow | Once):
            return
        for source in streaming(facts):
            if source.made_while_running:
                problem = NOTHING_YET.at(query.at("trigger"), name=source.name, trigger=facts.trigger)
                yield Finding(problem, Severity.WARNING, facts.sink)


class LimitNotKept(QueryRule):
    """`once` reads everything in one batch, whatever limit the source was given. After a long pause that
    batch can be too large for the cluster; `available now` keeps the limit."""

    entries = {LIMIT_NOT_KEPT: Severity.WARNING}
    example = """
        sources:
          lines: {connector: files, path: lines/, format: text, max_files_per_batch: 100}
        sinks:
          copy: {reads: lines, connector: files, path: copy/, format: text, trigger: once}
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        if not isinstance(trigger_of(facts), Once):
            return
        for source in streaming(facts):
            for option in source.options:
                if option.lower() in _LIMITS:
                    problem = LIMIT_NOT_KEPT.at(
                        query.source_at(source.name, option), option=option, name=source.name
                    )
                    yield Finding(problem, Severity.WARNING, facts.sink)


class RowsHeldBack(QueryRule):
    """A source can be told to wait until it has so many rows. `available now` does not wait: it would take
    the wait for the end of what is there, and leave the last rows unread. `once` does not look at it."""

    entries = {ROWS_HELD_BACK: Severity.ERROR}
    example = """
        sources:
          clicks: {connector: kafka, servers: "kafka:9092", topic: clicks, min_rows_per_batch: 1000}
        sinks:
          copy: {reads: clicks, connector: files, path: copy/, format: json, trigger: available now}
    """

    def about(self, query: Query) -> Iterator[Finding]:
        facts = query.facts
        if not isinstance(trigger_of(facts), AvailableNow | Once):
            return
        for source in streaming(facts):
            for option in source.options:
                if option.lower() in _WAITS:
                    place = query.source_at(source.name, option)
                    problem = ROWS_HELD_BACK.at(place, option=option, name=source.name, trigger=facts.trigger)
                    yield Finding(problem, sink=facts.sink)
