"""Rules about sources: how much a query reads, how often, how long that takes, and clean-up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from headwater.checkpoint import SINK_LOG
from headwater.checks.rules import Finding, Match, Query, Severity, Situation, pipeline_rule, rule
from headwater.connectors import sink_side, source_side
from headwater.connectors.connector import CleansUp
from headwater.errors import Entry, Problem
from headwater.run_directory import RunDirectory
from headwater.spec import CleanUp, PipelineSpec, SinkSpec, SourceSpec, Waiting
from headwater.spec.paths import fixed_folder, is_uri, overlap
from headwater.values import Duration, Every, count_of, quoted

MANY_FILES = 1_000
MANY_BYTES = 1 << 30
MANY_BATCHES = 10
LONG = Duration.parse("1 hour")
NAMED = 5
"""The number of directories that a message lists."""


@rule(
    "HW-READ-TWICE",
    "Sink `{sink}`: the query references source `{name}` {count} times, so Spark reads and parses each row "
    "{count} times.",
    "If possible, read it once: replace UNION branches with `CASE` or `explode`, or a self-join with an "
    "aggregation or a stateful function.",
    Severity.NOTE,
    example="""
        tables:
          pairs: SELECT a.id, b.id AS other FROM clicks a JOIN clicks b ON a.page = b.page AND a.at = b.at
    """,
)
def read_twice(query: Query) -> Iterator[Match]:
    """Spark reads a source once per reference in a query, as in a self-join or in the branches of a UNION.
    Every batch pays for fetching and parsing the rows that many times."""
    for source in query.facts.sources:
        # A separate rule rejects a source that is not replayable.
        if source.reads > 1 and source.streaming and source.replayable:
            yield query.match(query.source_at(source.name), name=source.name, count=source.reads)


@pipeline_rule(
    "HW-BACKLOG-UNLIMITED",
    "Source `{name}` has a backlog of {waiting} and no limit, so the first batch of {sinks} reads all of it.",
    "If that is too much for one batch, set {keys} on the source.",
    Severity.NOTE,
    example="""
        sources:
          clicks:   # 12,000 files are in clicks/
            {connector: files, path: clicks/, format: json, schema: {page: string}}
    """,
    lasting=False,
)
def backlog_unlimited(situation: Situation) -> Iterator[Match]:
    """Without a limit, the first batch reads all existing files. For a directory with a year of data, this is
    a single batch that runs for hours and restarts from the beginning if it fails."""
    for source, waiting, sinks in _first_starts(situation):
        full = waiting.files >= MANY_FILES or waiting.bytes > MANY_BYTES
        if full and not waiting.limit:
            readers, keys = quoted(sink.name for sink in sinks), quoted(waiting.keys, " or ")
            yield Match.at(
                source.position, name=source.name, waiting=shown(waiting), sinks=readers, keys=keys
            )


@pipeline_rule(
    "HW-SOURCE-DIRECTORIES-IGNORED",
    "Source `{name}` ignores {count}: {directories}.",
    "Before the first start, set a glob (`path: {glob}`) or `options: {{recursiveFileLookup: true}}` to "
    "read these files. After the first start, Spark treats them as already read. If you do not need them, "
    "move the {noun} out of the path.",
    Severity.WARNING,
    example="""
        sources:
          clicks:   # clicks/ contains the directory 2026.json/
            {connector: files, path: clicks/, format: json, schema: {page: string}}
    """,
    lasting=False,
)
def directories_ignored(situation: Situation) -> Iterator[Match]:
    """A source reads the files of a directory and of its `key=value` subdirectories. Spark silently ignores
    other subdirectories, even one with the name `orders.json`."""
    for source in situation.spec.sources:
        ignored = source_side(source.connector).ignored(source.options)
        if ignored:
            more = len(ignored) - NAMED
            yield Match.at(
                source.at("path"),
                name=source.name,
                count=count_of(len(ignored), "subdirectory", "subdirectories"),
                noun="subdirectory" if len(ignored) == 1 else "subdirectories",
                directories=", ".join(ignored[:NAMED]) + (f" and {more:,} more" if more > 0 else ""),
                glob=f"{os.path.basename(os.path.dirname(ignored[0]))}/*/",
            )


@pipeline_rule(
    "HW-BACKLOG-SLOW",
    "Sink `{sink}` needs {time} to process the backlog of source `{name}`: {waiting} and `{key}` result in "
    "{batches} batches, one {trigger}.",
    "To catch up within an hour, raise `{key}` to {enough}. Or catch up first with `trigger: available "
    "now`, which runs batches without a pause.",
    Severity.WARNING,
    example="""
        sources:
          clicks:   # 500 files are in clicks/
            {connector: files, path: clicks/, format: json, schema: {page: string}, max_files_per_batch: 1}
        sinks:
          clicks: {reads: clicks, connector: console, trigger: every 10 minutes}
    """,
    lasting=False,
)
def backlog_slow(situation: Situation) -> Iterator[Match]:
    """The limit and the trigger interval together determine how long it takes to process the existing files.
    Until then, the newest rows are delayed, and Spark does not report it."""
    for source, waiting, sinks in _first_starts(situation):
        for sink in sinks if waiting.limit and waiting.batches > MANY_BATCHES else ():
            pace = sink.trigger.interval.milliseconds if isinstance(sink.trigger, Every) else 0
            # The first batch starts immediately.
            time = pace * (waiting.batches - 1)
            if time <= LONG.milliseconds:
                continue
            # A limit with which the batches of one hour suffice.
            enough = -(-waiting.at_most * waiting.batches // max(1, LONG.milliseconds // pace))
            yield Match.at(
                source.at(waiting.limit),
                sink=sink.name,
                name=source.name,
                time=_about(time),
                waiting=shown(waiting),
                key=waiting.limit,
                batches=f"{waiting.batches:,}",
                trigger=str(sink.trigger),
                enough=f"{enough:,}" if waiting.limit == "max_files_per_batch" else _size(enough),
            )


def shown(waiting: Waiting) -> str:
    """The backlog as text."""
    more = "more than " if waiting.more else ""
    return f"{more}{count_of(waiting.files, 'file')} ({more}{_size(waiting.bytes)})"


def _first_starts(situation: Situation) -> Iterator[tuple[SourceSpec, Waiting, list[SinkSpec]]]:
    """The sources that some sinks will read from the beginning, with their backlog."""

    def has_begun(sink: SinkSpec) -> bool:
        """Whether a checkpoint exists for the sink; offline, only the run directory is known."""
        if sink_side(sink.connector).in_process:
            return False
        known = sink.name in situation.reached or sink.name in situation.stored
        return known or RunDirectory(situation.spec.run_dir).state(sink.query).has_started

    for source in (each for each in situation.spec.sources if not each.static):
        sinks = [sink for sink in situation.graph.readers(source.name) if not has_begun(sink)]
        waiting = source_side(source.connector).waiting(source.options) if sinks else None
        if waiting:
            yield source, waiting, sinks


def _about(milliseconds: int) -> str:
    hours = milliseconds / 3_600_000
    if hours < 48:
        return f"about {count_of(round(hours), 'hour')}"
    return f"about {hours / 24:.0f} days"


def _size(count: int) -> str:
    for unit, length in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{count} bytes"


# Rules about the clean-up of processed files.


def clean_up_of(source: SourceSpec) -> CleanUp | None:
    """How a source cleans up processed input."""
    side = source_side(source.connector)
    return side.clean_up(source.options) if isinstance(side, CleansUp) else None


CLEAN_UP_STATIC_SOURCE = Entry(
    "Source `{name}`: `clean_up` is not supported on a static source.",
    "Remove `clean_up`.",
    code="HW-CLEAN-UP-STATIC-SOURCE",
)
CLEAN_UP_STATIC_CONFLICT = Entry(
    "Source `{name}`: `clean_up` would remove files that static source `{other}` reads ({place}).",
    "Use different directories for the two sources, or remove `clean_up`.",
    code="HW-CLEAN-UP-STATIC-CONFLICT",
)
CLEAN_UP_SINK_CONFLICT = Entry(
    "Source `{name}`: `clean_up` would remove files from {place}, whose files are listed in the log of a "
    "sink.",
    "Remove `clean_up`: readers of that directory need every file.",
    code="HW-CLEAN-UP-SINK-CONFLICT",
)
CLEAN_UP_ARCHIVE_CONFLICT = Entry(
    "Source `{name}` would archive files to {archive}, but source `{other}` reads {place}.",
    "Set `archive_dir` to a directory that no source reads and that does not contain one.",
    code="HW-CLEAN-UP-ARCHIVE-CONFLICT",
)
CLEAN_UP_ARCHIVE_FILE_SYSTEM = Entry(
    "Source `{name}`: its archive {archive} is not on the same file system as {place}.",
    "Set `archive_dir` to a directory on the same file system, so that files are moved atomically.",
    code="HW-CLEAN-UP-ARCHIVE-FILE-SYSTEM",
)
CLEAN_UP_TEMPORARY_SINK = Entry(
    "Sink `{sink}` starts from scratch at each start, but the files of `{name}` are {done} by then.",
    "Remove `clean_up`, or read the source with a different kind of sink.",
    code="HW-CLEAN-UP-TEMPORARY-SINK",
)


@pipeline_rule(
    entries=[
        CLEAN_UP_STATIC_SOURCE,
        CLEAN_UP_STATIC_CONFLICT,
        CLEAN_UP_SINK_CONFLICT,
        CLEAN_UP_ARCHIVE_CONFLICT,
        CLEAN_UP_ARCHIVE_FILE_SYSTEM,
        CLEAN_UP_TEMPORARY_SINK,
    ],
    example="""
        sources:
          orders: {connector: files, path: orders/, format: json, schema: {id: int}, clean_up: delete}
          known: {connector: files, path: orders/, format: json, schema: {id: int}, static: true}
    """,
)
def clean_up_unsafe(situation: Situation) -> Iterator[Finding]:
    """Headwater removes processed files only if no other reader needs them."""
    for source in situation.spec.sources:
        clean_up = clean_up_of(source)
        if clean_up:
            yield from map(Finding, _objections(situation.spec, source, clean_up))
            for sink in situation.graph.readers(source.name):
                if sink_side(sink.connector).in_process:
                    params = {"sink": sink.name, "name": source.name, "done": clean_up.done}
                    yield Finding(CLEAN_UP_TEMPORARY_SINK.at(sink.position, **params))


@pipeline_rule(
    "HW-CLEAN-UP-FILES-IGNORED",
    "Source `{name}`: `clean_up` never removes files that `{other}` skips because of {keys} ({place}).",
    "Remove {keys} to clean up all files, or use different directories for the two sources.",
    Severity.WARNING,
    example="""
        sources:
          orders: {connector: files, path: orders/, format: json, schema: {id: int}, clean_up: delete}
          recent: {connector: files, path: orders/, format: json, schema: {id: int}, max_file_age: 1 day}
    """,
)
def clean_up_files_ignored(situation: Situation) -> Iterator[Match]:
    """A file is removed only after every stream over its directory has read it. Some streams skip files, so
    these files are never removed."""
    spec = situation.spec
    streams = [source for source in spec.sources if not source.static]
    for source in (each for each in streams if clean_up_of(each)):
        mine = _folders(spec, source)
        for other in (each for each in streams if each is not source):
            shared = [f for f in _folders(spec, other) if any(overlap(f, each) for each in mine)]
            keys = quoted(source_side(other.connector).skipping_keys(other.options))
            if keys and shared:
                place = shared[0]
                yield Match.at(other.position, name=source.name, other=other.name, keys=keys, place=place)


@pipeline_rule(
    "HW-CLEAN-UP-NEW-SINK",
    "Sink `{sink}` starts from scratch and misses the files of `{name}` that are already {done}.",
    "If it needs them, restore them under new names. The other sinks then read them again.",
    Severity.NOTE,
    example="""
        sources:
          orders: {connector: files, path: orders/, format: json, schema: {id: int}, clean_up: delete}
        sinks:
          all: {reads: orders, connector: files, path: all/, format: json}
          added_later: {reads: orders, connector: console}
    """,
    lasting=False,
    whole=True,
)
def clean_up_new_sink(situation: Situation) -> Iterator[Match]:
    """A sink that starts from scratch does not see the files that were archived or deleted before."""
    for source in situation.spec.sources:
        clean_up, readers = clean_up_of(source), situation.graph.readers(source.name)
        new = [sink for sink in readers if sink.name not in situation.stored]
        for sink in new if clean_up and len(new) < len(readers) else ():
            if clean_up:
                yield Match.at(sink.position, sink=sink.name, name=source.name, done=clean_up.done)


def _objections(spec: PipelineSpec, source: SourceSpec, clean_up: CleanUp) -> Iterator[Problem]:
    place, name, archive = source.at("clean_up"), source.name, clean_up.archive_dir
    if source.static:
        yield CLEAN_UP_STATIC_SOURCE.at(place, name=name)
        return
    folders = {other.name: _folders(spec, other) for other in spec.sources}
    static = [other.name for other in spec.sources if other.static]
    written = [each for sink in spec.sinks for each in sink_side(sink.connector).places(sink.options)]
    for folder in folders[name]:
        for other in static:
            if any(overlap(folder, each) for each in folders[other]):
                yield CLEAN_UP_STATIC_CONFLICT.at(place, name=name, other=other, place=folder)
        if (Path(folder) / SINK_LOG).exists() or any(overlap(folder, each) for each in written):
            yield CLEAN_UP_SINK_CONFLICT.at(place, name=name, place=folder)
    if not archive:
        return
    place = source.at("archive_dir")
    for other, theirs in folders.items():
        for folder in (each for each in theirs if overlap(archive, each)):
            yield CLEAN_UP_ARCHIVE_CONFLICT.at(place, name=name, archive=archive, other=other, place=folder)
    for folder in folders[name]:
        if _disk(folder) != _disk(archive):
            yield CLEAN_UP_ARCHIVE_FILE_SYSTEM.at(place, name=name, archive=archive, place=folder)


def _folders(spec: PipelineSpec, source: SourceSpec) -> list[str]:
    places = source_side(source.connector).places(source.options)
    return [fixed_folder(place, spec.root) for place in places if place.startswith("/") or is_uri(place)]


def _disk(folder: str) -> int:
    """The file system of a directory, even before it exists."""
    path = Path(folder)
    return os.stat(next(each for each in (path, *path.parents) if each.exists())).st_dev
