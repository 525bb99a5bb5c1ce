"""Rules about how much a query reads, how often, and how long that takes."""

from __future__ import annotations

import os
from collections.abc import Iterator

from headwater.checkpoint import checkpoints_in
from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Query, QueryRule, Rule, Situation
from headwater.connectors import sink_side, source_side
from headwater.errors.catalogue.reading import DIRECTORIES_IGNORED, FULL_FOLDER, LIMIT_TOO_LOW, READ_TWICE
from headwater.spec import SinkSpec, SourceSpec, Waiting
from headwater.values import Duration, Every

MANY_FILES = 1_000
MANY_BYTES = 1 << 30
MANY_BATCHES = 10
LONG = Duration.parse("1 hour")
NAMED = 5
"""So many directories are named."""


class ReadTwice(QueryRule):
    """Spark reads a source once for each time that a query names it, as a join of a stream with itself and
    the branches of a UNION do: what it costs to fetch and parse the rows is paid so often in every batch."""

    entries = {READ_TWICE: Severity.ADVICE}
    example = """
        tables:
          pairs: SELECT a.id, b.id AS other FROM clicks a JOIN clicks b ON a.page = b.page AND a.at = b.at
    """

    def about(self, query: Query) -> Iterator[Finding]:
        for source in query.facts.sources:
            # One that can't be read again is refused for it.
            if source.reads > 1 and source.streaming and source.replayable:
                problem = READ_TWICE.at(
                    query.source_at(source.name), sink=query.facts.sink, name=source.name, count=source.reads
                )
                yield Finding(problem, Severity.ADVICE, query.facts.sink)


class FullFolder(Rule):
    """Without a limit the first batch takes everything that is there. Over a folder that has filled for a
    year that is one batch of hours, which begins again from nothing when it fails."""

    asks_parts = True
    lasting = False
    entries = {FULL_FOLDER: Severity.ADVICE}
    example = """
        sources:
          clicks:   # 12,000 files are in clicks/
            {connector: files, path: clicks/, format: json, schema: {page: string}}
    """

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for source, waiting, sinks in _first_starts(situation):
            full = waiting.files >= MANY_FILES or waiting.bytes > MANY_BYTES
            if full and not waiting.limit:
                problem = FULL_FOLDER.at(
                    source.position,
                    name=source.name,
                    waiting=shown(waiting),
                    sinks=", ".join(f"`{sink.name}`" for sink in sinks),
                    keys=" or ".join(f"`{key}`" for key in waiting.keys),
                )
                yield Finding(problem, Severity.ADVICE)


class DirectoriesIgnored(Rule):
    """A source reads the files of a directory and of its `key=value` directories. Spark ignores other
    subdirectories silently, even one with the name `orders.json`."""

    asks_parts = True
    lasting = False
    entries = {DIRECTORIES_IGNORED: Severity.WARNING}
    example = """
        sources:
          clicks:   # clicks/ contains the directory 2026.json/
            {connector: files, path: clicks/, format: json, schema: {page: string}}
    """

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for source in situation.spec.sources:
            ignored = source_side(source.connector).ignored(source.options)
            if not ignored:
                continue
            more = len(ignored) - NAMED
            problem = DIRECTORIES_IGNORED.at(
                source.at("path"),
                name=source.name,
                count=f"{len(ignored):,} subdirectories" if len(ignored) > 1 else "a subdirectory",
                directories=", ".join(ignored[:NAMED]) + (f" and {more:,} more" if more > 0 else ""),
                glob=f"{os.path.basename(os.path.dirname(ignored[0]))}/*/",
            )
            yield Finding(problem, Severity.WARNING)


class LimitTooLow(Rule):
    """A limit and a pace together say how long it takes to catch up with what is there already. Spark works
    through it in silence; the newest rows come out when it is done."""

    asks_parts = True
    lasting = False
    entries = {LIMIT_TOO_LOW: Severity.WARNING}
    example = """
        sources:
          clicks:   # 500 files are in clicks/
            {connector: files, path: clicks/, format: json, schema: {page: string}, max_files_per_batch: 1}
        sinks:
          clicks: {reads: clicks, connector: console, trigger: every 10 minutes}
    """

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for source, waiting, sinks in _first_starts(situation):
            for sink in sinks if waiting.limit and waiting.batches > MANY_BATCHES else ():
                # The first batch does not wait.
                time = _pace(sink) * (waiting.batches - 1)
                if time > LONG.milliseconds:
                    yield self._finding(source, sink, waiting, time)

    def _finding(self, source: SourceSpec, sink: SinkSpec, waiting: Waiting, time: int) -> Finding:
        problem = LIMIT_TOO_LOW.at(
            source.at(waiting.limit),
            sink=sink.name,
            name=source.name,
            time=_about(time),
            waiting=shown(waiting),
            key=waiting.limit,
            batches=f"{waiting.batches:,}",
            trigger=str(sink.trigger),
            enough=_enough(waiting, _pace(sink)),
        )
        return Finding(problem, Severity.WARNING, sink.name)


def shown(waiting: Waiting) -> str:
    """What waits, in words."""
    more = "more than " if waiting.more else ""
    files = f"{waiting.files:,} file{'s' if waiting.files != 1 else ''}"
    return f"{more}{files} of {more}{_size(waiting.bytes)}"


def _first_starts(situation: Situation) -> Iterator[tuple[SourceSpec, Waiting, list[SinkSpec]]]:
    """The sources from whose beginning some sinks will read, with what waits there."""
    for source in situation.spec.sources:
        sinks = [
            sink
            for sink in ([] if source.static else situation.graph.readers(source.name))
            if not _has_begun(situation, sink)
        ]
        waiting = source_side(source.connector).waiting(source.options) if sinks else None
        if waiting:
            yield source, waiting, sinks


def _has_begun(situation: Situation, sink: SinkSpec) -> bool:
    """Whether a checkpoint says how far the sink has read; offline, its folder alone is looked at."""
    if sink_side(sink.connector).in_process:
        return False
    held = sink.name in situation.reached or sink.name in situation.stored
    return held or (checkpoints_in(situation.spec.folder) / sink.name).exists()


def _pace(sink: SinkSpec) -> int:
    return sink.trigger.interval.milliseconds if isinstance(sink.trigger, Every) else 0


def _enough(waiting: Waiting, pace: int) -> str:
    """A limit under which the batches of an hour do."""
    batches = max(1, LONG.milliseconds // pace)
    value = -(-waiting.at_most * waiting.batches // batches)
    return f"{value:,}" if waiting.limit == "max_files_per_batch" else _size(value)


def _about(milliseconds: int) -> str:
    hours = milliseconds / 3_600_000
    if hours < 48:
        return f"about {hours:.0f} hour{'s' if round(hours) != 1 else ''}"
    return f"about {hours / 24:.0f} days"


def _size(count: int) -> str:
    for unit, length in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{count} bytes"
