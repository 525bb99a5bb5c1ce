"""`headwater quarantine`: what was set aside, and feeding it again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from headwater.connectors.decoding.decisions import ask_again
from headwater.engine.loading import load
from headwater.errors import PipelineError, Problem, UsageProblem
from headwater.errors.catalogue.quarantine import (
    MENDED_UNREADABLE,
    NO_QUARANTINE,
    REPLAY_NEEDS_BATCHES,
    REPLAY_READ_TWICE,
)
from headwater.plan import Graph
from headwater.quarantine import Quarantine, SetAside, feed, quarantines
from headwater.runtime.run_folder import RunFolder
from headwater.runtime.unread import redefined, unread_of
from headwater.spec import PipelineSpec, SinkSpec
from headwater.values import Continuous, RealTime


@dataclass(frozen=True)
class Held:
    """One quarantine in numbers."""

    name: str
    rows: int
    """All that were ever set aside."""
    waiting: int
    """Those that were not fed again."""
    reasons: dict[str, int]
    """The waiting rows by reason."""
    folder: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Replayed:
    """What was fed again."""

    name: str
    rows: int
    left: int
    unknown: tuple[str, ...]
    """Ids of mended rows that don't wait, and were not fed."""
    dry: bool
    unread: int = 0
    """Those of the rows left that would come twice to a query, which has yet to read them at their place."""
    behind: tuple[str, ...] = ()
    """Such queries."""
    redefined: bool = False
    """By what rows are set aside has changed since one of these queries was last started."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def ls(file: str | Path) -> tuple[Held, ...]:
    """Every quarantine of a pipeline."""
    return tuple(_held(each) for each in quarantines(load(file, reads=False).folder))


def show(
    file: str | Path,
    name: str,
    *,
    reason: str | None = None,
    ids: tuple[str, ...] = (),
    everything: bool = False,
    limit: int | None = None,
) -> tuple[SetAside, ...]:
    """The rows of one quarantine that wait, oldest first; with `everything` those too that were fed again."""
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
    _refuse_unfit(spec, name)
    texts = _mended(Path(mended)) if mended else None
    wanted = _wanted(reason, ids)
    folder = RunFolder.of(spec)
    unread = unread_of(spec, folder, quarantine, str(file))
    fed = feed(quarantine, wanted, texts, unread=unread, dry=dry)
    if fed.rows and not dry and unread.level and not folder.in_use:
        ask_again(spec.folder, name)
    changed = redefined(spec, folder, name, fed.behind)
    return Replayed(name, fed.rows, fed.left, fed.unknown, dry, fed.unread, fed.behind, changed)


def _held(quarantine: Quarantine) -> Held:
    reasons = Counter(row.reason for row in quarantine.waiting())
    rows = sum(1 for _ in quarantine.rows())
    return Held(quarantine.name, rows, reasons.total(), dict(reasons.most_common()), str(quarantine.folder))


def _named(spec: PipelineSpec, name: str, file: str) -> Quarantine:
    found = {each.name: each for each in quarantines(spec.folder)}
    if name in found:
        return found[name]
    known = f"there are rows of {', '.join(found)}" if found else "no row was"
    raise UsageProblem(NO_QUARANTINE.at(None, name=name, known=known, file=file))


def _wanted(reason: str | None, ids: tuple[str, ...]) -> Callable[[SetAside], bool]:
    return lambda row: (reason is None or row.reason == reason) and (not ids or row.id in ids)


def _refuse_unfit(spec: PipelineSpec, name: str) -> None:
    """PipelineError if a query that reads it can't have one source more."""
    graph = Graph.of(spec)
    below, folder = set(graph.upstream(name)), RunFolder.of(spec)
    problems = [each for sink in graph.readers(name) for each in _unfit(folder, sink, name, below)]
    if problems:
        raise PipelineError.of(problems)


def _unfit(folder: RunFolder, sink: SinkSpec, name: str, below: set[str]) -> Iterator[Problem]:
    if isinstance(sink.trigger, Continuous | RealTime):
        trigger = str(sink.trigger)
        yield REPLAY_NEEDS_BATCHES.at(sink.at("trigger"), sink=sink.name, name=name, trigger=trigger)
    facts = folder.stored_facts(sink.name)
    # Which of its readings share one source is decided by Spark when the query starts, and not before.
    for stream in facts.repeated_streams if facts else ():
        if stream in below:
            yield REPLAY_READ_TWICE.at(sink.position, sink=sink.name, name=name, stream=stream)


def _mended(file: Path) -> dict[str, list[str]]:
    """The texts of mended rows by the ids of the rows; rows that are equal share one."""
    texts: dict[str, list[str]] = {}
    for id_, text in _mended_lines(file):
        texts.setdefault(id_, []).append(text)
    return texts


def _mended_lines(file: Path) -> Iterator[tuple[str, str]]:
    try:
        # Not by splitlines(): a text may hold signs that it takes for the end of a line.
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(MENDED_UNREADABLE.at(None, file=str(file), line=1, reason=str(error))) from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            id_, text = row["id"], row["text"]
            if not isinstance(id_, str) or not isinstance(text, str):
                raise TypeError("`id` and `text` are texts")
        except (ValueError, KeyError, TypeError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            problem = MENDED_UNREADABLE.at(None, file=str(file), line=number, reason=reason)
            raise UsageProblem(problem) from error
        yield id_, text
