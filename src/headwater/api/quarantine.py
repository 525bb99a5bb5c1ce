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
from headwater.errors import PipelineError, Problem, UsageError
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
from headwater.values import Continuous, RealTime, quoted


@dataclass(frozen=True)
class QuarantineCounts:
    """One quarantine in numbers."""

    name: str
    rows: int
    """All rows that were ever quarantined."""
    pending: int
    """Rows that were not replayed yet, and can be."""
    reasons: dict[str, int]
    """Pending rows by reason."""
    directory: str
    files: int = 0
    """Files that could not be opened. They are not replayed; a corrected file is read like a new one."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Replayed:
    """What was replayed."""

    name: str
    rows: int
    left: int
    unknown: tuple[str, ...]
    """IDs of corrected rows that are not pending, and were not replayed."""
    dry: bool
    unwanted: tuple[str, ...] = ()
    """IDs of corrected rows that are pending, but were not selected."""
    unchanged: int = 0
    """Corrected rows without text whose bytes are unchanged. They were not replayed."""
    unread: int = 0
    """Rows that stay pending because a query has not reached their offset yet, and would read them twice."""
    behind: tuple[str, ...] = ()
    """Such queries."""
    redefined: bool = False
    """Whether the bad-row rules changed since one of these queries was last started."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def list_quarantines(file: str | Path) -> tuple[QuarantineCounts, ...]:
    """Every quarantine of a pipeline."""
    return tuple(_counts(each) for each in quarantines(load(file, reads=False).run_dir))


def show(
    file: str | Path,
    name: str,
    *,
    reason: str | None = None,
    ids: tuple[str, ...] = (),
    everything: bool = False,
    limit: int | None = None,
) -> tuple[QuarantinedRow, ...]:
    """The pending rows of one quarantine, oldest first; with `everything`, replayed rows are included."""
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
    """Write the rows as JSON Lines and return their number."""
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
    corrected: str | Path | None = None,
    dry: bool = False,
) -> Replayed:
    """Replay pending rows, each once; the next run reads them along with the source."""
    spec = load(file, reads=False)
    quarantine = _named(spec, name, str(file))
    _refuse_unfit(spec, name, str(file))
    lines = read_mended(Path(corrected)) if corrected else None
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
        unchanged=replayed.passed_over,
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
        pending=reasons.total(),
        reasons=dict(reasons.most_common()),
        directory=str(quarantine.directory.path),
        files=rows.total() - reasons.total(),
    )


def _named(spec: PipelineSpec, name: str, file: str) -> Quarantine:
    found = {each.name: each for each in quarantines(spec.run_dir)}
    if name in found:
        return found[name]
    known = f"Existing quarantines: {quoted(found)}" if found else "The pipeline has no quarantined rows"
    raise UsageError(QUARANTINE_NOT_FOUND.at(None, name=name, known=known, file=file))


def _wanted(reason: str | None, ids: tuple[str, ...]) -> Callable[[QuarantinedRow], bool]:
    return lambda row: (reason is None or row.reason == reason) and (not ids or row.id in ids)


def _refuse_unfit(spec: PipelineSpec, name: str, file: str) -> None:
    """Raise PipelineError if no query reads it, or if a query cannot take another source."""
    graph = Graph.of(spec)
    why = _read_by_none(graph, name)
    if why:
        raise PipelineError(REPLAY_TARGET_MISSING.at(None, name=name, why=why, file=file))
    below, directory = set(graph.upstream(name)), RunRecords.of(spec)
    problems = [each for sink in graph.readers(name) for each in _unfit(directory, sink, name, below)]
    if problems:
        raise PipelineError.of(problems)


def _read_by_none(graph: Graph, name: str) -> str:
    """Why no query would read replayed rows; empty if one can read them."""
    readable: tuple[SourceSpec | TableSpec, ...] = (*graph.spec.sources, *graph.spec.tables)
    declared = next((each for each in readable if each.name == name), None)
    if declared is None:
        return "no source or table has this name"
    if not accepts_replay(declared):
        return "this source does not support replayed rows"
    # Only Spark can parse some SQL, so what such a table reads is unknown here.
    read = graph.readers(name) or None in graph.reads.values()
    return "" if read else "no sink reads it"


def _unfit(directory: RunRecords, sink: SinkSpec, name: str, below: set[str]) -> Iterator[Problem]:
    if isinstance(sink.trigger, Continuous | RealTime):
        trigger = str(sink.trigger)
        yield REPLAY_TRIGGER_UNSUPPORTED.at(sink.at("trigger"), sink=sink.name, name=name, trigger=trigger)
    facts = directory.stored_facts(sink.query)
    # Spark decides only at the start of a query which of its reads share one source.
    for stream in facts.repeated_streams if facts else ():
        if stream in below:
            yield REPLAY_QUERY_UNSUPPORTED.at(sink.position, sink=sink.name, name=name, stream=stream)
