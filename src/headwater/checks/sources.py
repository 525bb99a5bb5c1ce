"""Rules about sources: how much a query reads, how often, how long that takes, and finished files."""

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
from headwater.values import Duration, Every, quoted

MANY_FILES = 1_000
MANY_BYTES = 1 << 30
MANY_BATCHES = 10
LONG = Duration.parse("1 hour")
NAMED = 5
"""So many directories are named."""


@rule(
    "HW-READ-TWICE",
    "The query of the sink `{sink}` names the source `{name}` {count} times, and Spark reads it as often: "
    "each row is fetched, parsed and counted {count} times.",
    "Good to know, no mistake. Branches of a UNION often do in one pass with `CASE` or `explode`; a join of "
    "a stream with itself may be an aggregation, or a function with state.",
    Severity.ADVICE,
    example="""
        tables:
          pairs: SELECT a.id, b.id AS other FROM clicks a JOIN clicks b ON a.page = b.page AND a.at = b.at
    """,
)
def read_twice(query: Query) -> Iterator[Match]:
    """Spark reads a source once for each time that a query names it, as a join of a stream with itself and
    the branches of a UNION do: what it costs to fetch and parse the rows is paid so often in every batch."""
    for source in query.facts.sources:
        # One that can't be read again is refused for it.
        if source.reads > 1 and source.streaming and source.replayable:
            yield query.match(query.source_at(source.name), name=source.name, count=source.reads)


@pipeline_rule(
    "HW-BACKLOG-UNLIMITED",
    "The source `{name}` has {waiting} waiting and no limit, so the first batch of {sinks} reads all of it "
    "at once.",
    "If that is too much for memory, or for one batch to be lost in a crash, write {keys} beside the source.",
    Severity.ADVICE,
    example="""
        sources:
          clicks:   # 12,000 files are in clicks/
            {connector: files, path: clicks/, format: json, schema: {page: string}}
    """,
    lasting=False,
)
def full_folder(situation: Situation) -> Iterator[Match]:
    """Without a limit the first batch takes everything that is there. Over a folder that has filled for a
    year that is one batch of hours, which begins again from nothing when it fails."""
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
    "To read their files, set a glob (`path: {glob}`) or `options: {{recursiveFileLookup: true}}` before the "
    "first start; for a query that has started they count as read. Otherwise move the directories elsewhere.",
    Severity.WARNING,
    example="""
        sources:
          clicks:   # clicks/ contains the directory 2026.json/
            {connector: files, path: clicks/, format: json, schema: {page: string}}
    """,
    lasting=False,
)
def directories_ignored(situation: Situation) -> Iterator[Match]:
    """A source reads the files of a directory and of its `key=value` directories. Spark ignores other
    subdirectories silently, even one with the name `orders.json`."""
    for source in situation.spec.sources:
        ignored = source_side(source.connector).ignored(source.options)
        if ignored:
            more = len(ignored) - NAMED
            yield Match.at(
                source.at("path"),
                name=source.name,
                count=f"{len(ignored):,} subdirectories" if len(ignored) > 1 else "a subdirectory",
                directories=", ".join(ignored[:NAMED]) + (f" and {more:,} more" if more > 0 else ""),
                glob=f"{os.path.basename(os.path.dirname(ignored[0]))}/*/",
            )


@pipeline_rule(
    "HW-BACKLOG-SLOW",
    "The sink `{sink}` needs {time} to read what already waits at the source `{name}` ({waiting}): with "
    "`{key}` that is {batches} batches, one {trigger}.",
    "To catch up within an hour, raise `{key}` to {enough}; or catch up first with `trigger: available now`, "
    "which does not wait between batches.",
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
def limit_too_low(situation: Situation) -> Iterator[Match]:
    """A limit and a pace together say how long it takes to catch up with what is there already. Spark works
    through it in silence; the newest rows come out when it is done."""
    for source, waiting, sinks in _first_starts(situation):
        for sink in sinks if waiting.limit and waiting.batches > MANY_BATCHES else ():
            pace = sink.trigger.interval.milliseconds if isinstance(sink.trigger, Every) else 0
            # The first batch does not wait.
            time = pace * (waiting.batches - 1)
            if time <= LONG.milliseconds:
                continue
            # A limit under which the batches of an hour do.
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
    """What waits, in words."""
    more = "more than " if waiting.more else ""
    files = f"{waiting.files:,} file{'s' if waiting.files != 1 else ''}"
    return f"{more}{files} of {more}{_size(waiting.bytes)}"


def _first_starts(situation: Situation) -> Iterator[tuple[SourceSpec, Waiting, list[SinkSpec]]]:
    """The sources from whose beginning some sinks will read, with what waits there."""

    def has_begun(sink: SinkSpec) -> bool:
        """Whether a checkpoint says how far the sink has read; offline there is only what it says itself."""
        if sink_side(sink.connector).in_process:
            return False
        known = sink.name in situation.reached or sink.name in situation.stored
        return known or RunDirectory(situation.spec.folder).state(sink.name).has_started

    for source in (each for each in situation.spec.sources if not each.static):
        sinks = [sink for sink in situation.graph.readers(source.name) if not has_begun(sink)]
        waiting = source_side(source.connector).waiting(source.options) if sinks else None
        if waiting:
            yield source, waiting, sinks


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


# What stands against taking finished files away, and what it means for others.


def clean_up_of(source: SourceSpec) -> CleanUp | None:
    """What becomes of a source's finished input."""
    side = source_side(source.connector)
    return side.clean_up(source.options) if isinstance(side, CleansUp) else None


CLEAN_UP_STATIC_SOURCE = Entry(
    "The source `{name}` is static and has `clean_up`: no file of it is ever finished.",
    "Leave `clean_up` out.",
    code="HW-CLEAN-UP-STATIC-SOURCE",
)
CLEAN_UP_STATIC_CONFLICT = Entry(
    "`clean_up` of the source `{name}` would take files away from the static source `{other}` ({place}).",
    "Let the two read different folders, or leave `clean_up` out.",
    code="HW-CLEAN-UP-STATIC-CONFLICT",
)
CLEAN_UP_SINK_CONFLICT = Entry(
    "`clean_up` of the source `{name}` would take files out of {place}, which a sink keeps a list of.",
    "Leave `clean_up` out: the readers of that folder need every file.",
    code="HW-CLEAN-UP-SINK-CONFLICT",
)
CLEAN_UP_ARCHIVE_CONFLICT = Entry(
    "The source `{name}` would archive files to {archive}, and the source `{other}` reads {place}.",
    "Archive to a folder that no source reads and that holds no folder which one reads.",
    code="HW-CLEAN-UP-ARCHIVE-CONFLICT",
)
CLEAN_UP_ARCHIVE_FILE_SYSTEM = Entry(
    "The archive {archive} of the source `{name}` is on another file system than {place}.",
    "Archive to a folder on the same one, where a file is moved in one step.",
    code="HW-CLEAN-UP-ARCHIVE-FILE-SYSTEM",
)
CLEAN_UP_TEMPORARY_SINK = Entry(
    "The sink `{sink}` begins anew at each start, and by then the files of `{name}` have been {done}.",
    "Leave `clean_up` out, or let another kind of sink read the source.",
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
    """Finished files are taken away from the source that names it, and from nobody else."""
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
    "`clean_up` of the source `{name}` leaves each file that `{other}` passes over for its {keys} ({place}).",
    "Leave {keys} out if all files are to go, or let the two sources read different folders.",
    Severity.WARNING,
    example="""
        sources:
          orders: {connector: files, path: orders/, format: json, schema: {id: int}, clean_up: delete}
          recent: {connector: files, path: orders/, format: json, schema: {id: int}, max_file_age: 1 day}
    """,
)
def clean_up_waits(situation: Situation) -> Iterator[Match]:
    """A file stays until every stream over its folder has read it; some streams leave files unread."""
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
    "The sink `{sink}` starts anew and misses the files of `{name}` that were {done} before.",
    "If it needs them, put them back under new names; the other sinks then read them again, too.",
    Severity.ADVICE,
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
    """A sink that starts anew does not see the files that were taken away before it came."""
    for source in situation.spec.sources:
        clean_up, readers = clean_up_of(source), situation.graph.readers(source.name)
        new = [sink for sink in readers if sink.name not in situation.stored]
        for sink in new if clean_up and len(new) < len(readers) else ():
            if clean_up:
                yield Match.at(sink.position, sink=sink.name, name=source.name, done=clean_up.done)


def _objections(spec: PipelineSpec, source: SourceSpec, clean_up: CleanUp) -> Iterator[Problem]:
    place, name, archive = source.at("clean_up"), source.name, clean_up.archive_to
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
    place = source.at("archive_to")
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
    """The file system that a folder is on, or will be."""
    path = Path(folder)
    return os.stat(next(each for each in (path, *path.parents) if each.exists())).st_dev
