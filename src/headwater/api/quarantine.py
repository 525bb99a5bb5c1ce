"""`headwater quarantine`: what was quarantined, and replaying it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from headwater.connectors.decoding.options import ask_again
from headwater.engine.pipeline_file import load
from headwater.errors import PipelineError, Problem, UsageProblem
from headwater.errors.catalogue.running import (
    QUARANTINE_NOT_FOUND,
    REPLAY_QUERY_UNSUPPORTED,
    REPLAY_TARGET_MISSING,
    REPLAY_TRIGGER_UNSUPPORTED,
)
from headwater.plan import Graph
from headwater.plan.quarantine import accepts_replay
from headwater.quarantine import Quarantine, QuarantinedRow, quarantines, read_mended, replay_rows
from headwater.runtime.records import RunRecords, redefined, unread_of
from headwater.spec import PipelineSpec, SinkSpec, SourceSpec, TableSpec
from headwater.values import Continuous, RealTime


@dataclass(frozen=True)
class QuarantineCounts:
    """One quarantine in numbers."""

    name: str
    rows: int
    """All that were ever quarantined."""
    waiting: int
    """Those that were not replayed, and can be."""
    reasons: dict[str, int]
    """The waiting rows by reason."""
    folder: str
    files: int = 0
    """Files that could not be opened: they are not replayed, but read by themselves once they are mended."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Replayed:
    """What was replayed."""

    name: str
    rows: int
    left: int
    unknown: tuple[str, ...]
    """Ids of mended rows that don't wait, and were not replayed."""
    dry: bool
    unwanted: tuple[str, ...] = ()
    """Ids of mended rows that wait, but were not asked for."""
    passed_over: int = 0
    """Mended rows without text whose bytes are as they were, and that were not replayed."""
    unread: int = 0
    """Those of the rows left that would come twice to a query, which has yet to read them at their place."""
    behind: tuple[str, ...] = ()
    """Such queries."""
    redefined: bool = False
    """By what rows are quarantined has changed since one of these queries was last started."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def ls(file: str | Path) -> tuple[QuarantineCounts, ...]:
    """Every quarantine of a pipeline."""
    return tuple(_counts(each) for each in quarantines(load(file, reads=False).folder))


def show(
    file: str | Path,
    name: str,
    *,
    reason: str | None = None,
    ids: tuple[str, ...] = (),
    everything: bool = False,
    limit: int | None = None,
) -> tuple[QuarantinedRow, ...]:
    """The rows of one quarantine that wait, oldest first; with `everything` those too that were replayed."""
    quarantine = _named(load(file, reads=False), name, str(file))
    rows = quarantine.rows() if everything else quarantine.waiting()
    return tuple(islice(filter(_wanted(reason, ids), rows), limit))


def export(
    file: str | Path,
    name: str,
    to: Callable[[str], object],
    *,
    reason: str | None = None,
    ids: tuple[str, ...] = (),
    everything: bool = False,
) -> int:
    """Write the rows as JSON, one in a line; how many they were."""
    rows = show(file, name, reason=reason, ids=ids, everything=everything)
    for row in rows:
        to(json.dumps(row.to_json(), ensure_ascii=False) + "\n")
    return len(rows)


def replay(
    file: str | Path,
    name: str,
    *,
    reason: str | None = None,
    ids: tuple[str, ...] = (),
    mended: str | Path | None = None,
    dry: bool = False,
) -> Replayed:
    """Feed rows that wait again, each once; the pipeline reads them beside its source."""
    spec = load(file, reads=False)
    quarantine = _named(spec, name, str(file))
    _refuse_unfit(spec, name, str(file))
    lines = read_mended(Path(mended)) if mended else None
    directory = RunRecords.of(spec)
    places = partial(unread_of, spec, directory, quarantine, str(file))
    replayed = replay_rows(quarantine, _wanted(reason, ids), lines, places=places, dry=dry)
    if replayed.rows and not dry and replayed.level and not directory.in_use:
        ask_again(directory.source(name))
    changed = redefined(spec, directory, name, replayed.behind)
    return Replayed(
        name=name,
        rows=replayed.rows,
        left=replayed.left,
        unknown=replayed.unknown,
        dry=dry,
        unwanted=replayed.unwanted,
        passed_over=replayed.passed_over,
        unread=replayed.unread,
        behind=replayed.behind,
        redefined=changed,
    )


def _counts(quarantine: Quarantine) -> QuarantineCounts:
    rows = Counter((row.can_replay, row.reason) for row in quarantine.waiting())
    reasons = Counter({reason: count for (fit, reason), count in rows.items() if fit})
    return QuarantineCounts(
        name=quarantine.name,
        rows=sum(1 for _ in quarantine.rows()),
        waiting=reasons.total(),
        reasons=dict(reasons.most_common()),
        folder=str(quarantine.directory.path),
        files=rows.total() - reasons.total(),
    )


def _named(spec: PipelineSpec, name: str, file: str) -> Quarantine:
    found = {each.name: each for each in quarantines(spec.folder)}
    if name in found:
        return found[name]
    known = f"there are rows of {', '.join(found)}" if found else "no row was"
    raise UsageProblem(QUARANTINE_NOT_FOUND.at(None, name=name, known=known, file=file))


def _wanted(reason: str | None, ids: tuple[str, ...]) -> Callable[[QuarantinedRow], bool]:
    return lambda row: (reason is None or row.reason == reason) and (not ids or row.id in ids)


def _refuse_unfit(spec: PipelineSpec, name: str, file: str) -> None:
    """PipelineError if no query reads it, or one that does can't have one source more."""
    graph = Graph.of(spec)
    why = _read_by_none(graph, name)
    if why:
        raise PipelineError(REPLAY_TARGET_MISSING.at(None, name=name, why=why, file=file))
    below, directory = set(graph.upstream(name)), RunRecords.of(spec)
    problems = [each for sink in graph.readers(name) for each in _unfit(directory, sink, name, below)]
    if problems:
        raise PipelineError.of(problems)


def _read_by_none(graph: Graph, name: str) -> str:
    """Why rows that are replayed would come to no query; empty where one may read them."""
    readable: tuple[SourceSpec | TableSpec, ...] = (*graph.spec.sources, *graph.spec.tables)
    declared = next((each for each in readable if each.name == name), None)
    if declared is None:
        return "there is no source or table of this name"
    if not accepts_replay(declared):
        return "such a source takes no rows but its own"
    # What a table reads whose SQL only Spark can read is not known here.
    read = graph.readers(name) or None in graph.reads.values()
    return "" if read else "no sink reads it"


def _unfit(directory: RunRecords, sink: SinkSpec, name: str, below: set[str]) -> Iterator[Problem]:
    if isinstance(sink.trigger, Continuous | RealTime):
        trigger = str(sink.trigger)
        yield REPLAY_TRIGGER_UNSUPPORTED.at(sink.at("trigger"), sink=sink.name, name=name, trigger=trigger)
    facts = directory.stored_facts(sink.name)
    # Which of its readings share one source is decided by Spark when the query starts, and not before.
    for stream in facts.repeated_streams if facts else ():
        if stream in below:
            yield REPLAY_QUERY_UNSUPPORTED.at(sink.position, sink=sink.name, name=name, stream=stream)
