"""The records in a run directory: query metadata, the progress of each query, the findings of the check."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from headwater.checkpoint import Checkpoint, CheckpointState, LocalStore, Read, committed, planned
from headwater.checkpoint.store import Note, NoteError
from headwater.checks import Finding, Reached
from headwater.connectors import sink_side, source_side
from headwater.connectors.connector import ValidatesRows
from headwater.errors import CheckpointError, Problem
from headwater.errors.catalogue import running
from headwater.errors.catalogue.running import REPLAY_OFFSET_UNKNOWN
from headwater.plan import Graph, QueryFacts
from headwater.plan.quarantine import quarantine_fingerprints, quarantine_of, with_quarantine
from headwater.quarantine import Quarantine
from headwater.quarantine.rows import Unread
from headwater.run_directory import RunDirectory
from headwater.spec import PipelineSpec, SinkSpec
from headwater.values import scrub_within

VERSION = 1
UpTo = Callable[[Checkpoint, Sequence[str]], dict[str, Read] | None]


@dataclass(frozen=True)
class _Owner:
    """The pipeline that owns the directory."""

    name: str


@dataclass(frozen=True)
class RunRecords(RunDirectory):
    """A run directory with the contents of its files."""

    @classmethod
    def of(cls, spec: PipelineSpec) -> RunRecords:
        """The pipeline's run directory; CheckpointError if it belongs to a different pipeline."""
        directory = cls(spec.run_dir)
        owner = directory._owner()
        if owner not in (None, spec.name):
            params = {"directory": str(directory.path), "owner": owner, "name": spec.name}
            raise CheckpointError(running.RUN_DIR_CONFLICT.at(spec.position, **params))
        return directory

    def claim(self, spec: PipelineSpec) -> None:
        """Create the directory and record its owner."""
        if self._owner() is None:
            Note.at(self.pipeline, _Owner).write(_Owner(spec.name))

    def locked(self, spec: PipelineSpec) -> list[Path]:
        """What a run locks: each checkpoint, and the directory as a whole.

        Sinks may have been renamed while an older run is still active. Without the last lock, a new start
        would collide with it in files that belong to no sink.
        """
        return [*(self.checkpoint(query.name) for query in spec.queries), self.checkpoints]

    def stored_facts(self, sink: str, group: str | None = None) -> QueryFacts | None:
        """The metadata of a query at its last start, if it ever started; or of a sink of a group."""
        file = self.facts(sink, group)
        try:
            return QueryFacts.from_json(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                running.QUERY_METADATA_UNREADABLE.at(None, file=str(file), says=str(error))
            ) from error

    def stored(self, spec: PipelineSpec) -> dict[str, QueryFacts]:
        """The metadata of each query at its last start, if its checkpoint has started."""
        found: dict[str, QueryFacts] = {}
        for sink in spec.sinks:
            facts = self.stored_facts(sink.name, sink.group)
            if facts is None:
                continue
            # A sink that is now in-process is still bound by its previous connector.
            reset = facts.connector == sink.connector and sink_side(sink.connector).in_process
            if self.state(sink.query, in_process=reset).has_started:
                found[sink.name] = facts
        return found

    def reached(self, spec: PipelineSpec) -> dict[str, Reached]:
        """The progress of each query that does not start from scratch at each start."""
        found: dict[str, Reached] = {}
        for sink in spec.sinks:
            folder = self.checkpoint(sink.query)
            if not self.state_of(sink).has_started:
                continue
            checkpoint = Checkpoint(LocalStore(folder))
            newest = checkpoint.last_offset
            if newest:
                offsets = tuple(newest.sources.values())
                settings, read = checkpoint.settings, partial(self.committed, sink.query)
                any_commit = checkpoint.last_commit is not None
                found[sink.name] = Reached(str(folder), offsets, newest.batch_id, settings, any_commit, read)
        return found

    def state_of(self, sink: SinkSpec) -> CheckpointState:
        """What the next start of a sink finds in its checkpoint."""
        return self.state(sink.query, in_process=sink_side(sink.connector).in_process)

    def written_by(self, spec: PipelineSpec) -> dict[str, str]:
        """The checkpoint of the query that has written a sink, if that is not its query now."""
        found: dict[str, str] = {}
        for sink in (each for each in spec.sinks if not sink_side(each.connector).in_process):
            others = [group for group in self.groups_of(sink.name) if group != sink.group]
            if sink.group and not self.facts(sink.name, sink.group).exists():
                others.append(sink.name)
            started = (each for each in others if self.state(each).has_started)
            if other := next(started, None):
                found[sink.name] = str(self.checkpoint(other))
        return found

    def last_batch(self, sink: str) -> int:
        """The batch before the first one of the next start, which retries an uncommitted batch."""
        checkpoint = Checkpoint(LocalStore(self.checkpoint(sink)))
        unfinished, done = checkpoint.unfinished, checkpoint.last_commit
        if unfinished is not None:
            return unfinished - 1
        return -1 if done is None else done.batch_id

    def committed(self, sink: str) -> dict[str, Read] | None:
        """What a query has read of each source, up to its newest committed batch; None if unknown."""
        return self._read(sink, committed)

    def planned(self, sink: str) -> dict[str, Read] | None:
        """The same, up to the newest planned batch."""
        return self._read(sink, planned)

    def _read(self, sink: str, up_to: UpTo) -> dict[str, Read] | None:
        checkpoint, facts = self.checkpoint(sink), self.stored_facts(sink)
        if facts is None or not facts.inputs or not checkpoint.is_dir():
            return None
        return up_to(Checkpoint(LocalStore(checkpoint)), facts.inputs)

    def store_facts(self, facts: QueryFacts, sinks: Iterable[QueryFacts] = ()) -> None:
        """Store the metadata of a query that is about to start, and of the sinks of a group."""
        self.write(self.facts(facts.sink), facts.to_json())
        files = {self.facts(each.sink, facts.sink): each for each in sinks}
        for file, each in files.items():
            self.write(file, each.to_json())
        for file in self.group_facts(facts.sink):
            if file not in files:
                file.unlink()

    def store_findings(self, run_id: str, epoch: int, findings: Iterable[Finding]) -> None:
        """Store the findings of the check before a start; they replace those of the previous start."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        told = [finding.to_json() for finding in findings]
        record = {"version": VERSION, "at": at, "run_id": run_id, "epoch": epoch, "findings": told}
        self.write(self.findings, json.dumps(scrub_within(record), indent=2) + "\n")

    def _owner(self) -> str | None:
        try:
            noted = Note.at(self.pipeline, _Owner).read()
        except NoteError as error:
            problem = running.QUERY_METADATA_UNREADABLE.at(None, file=str(self.pipeline), says=error.reason)
            raise CheckpointError(problem) from error
        return noted.name if noted else None


# The progress of the queries that read a source or table with quarantined rows.


def unread_of(spec: PipelineSpec, directory: RunRecords, quarantine: Quarantine, file: str) -> Unread:
    """Which queries have not read a row yet; CheckpointError if this is unknown for a query.

    Queries that never started are not included, nor those that start from scratch at each start: a rule
    covers these at startup.
    """
    whole, name = with_quarantine(spec), quarantine.name
    graph, problems = Graph.of(whole), list[Problem]()
    readers = {}
    started = [sink for sink in whole.sinks if directory.state_of(sink).has_started]
    for sink in (each for each in started if _reads(graph, directory, each, name)):
        read = directory.committed(sink.query)
        if read is None:
            problems.append(REPLAY_OFFSET_UNKNOWN.at(sink.position, sink=sink.name, name=name, file=file))
        else:
            readers[sink.query] = read
    quarantined = directory.planned(quarantine_of(name))
    if quarantined is None and readers and name in {table.name for table in spec.tables}:
        sink_name = quarantine_of(name)
        problems.append(REPLAY_OFFSET_UNKNOWN.at(None, sink=sink_name, name=name, file=file))
    if problems:
        raise CheckpointError.of(problems)
    sides = (source_side(source.connector) for source in spec.sources if source.name == name)
    side = next((each for each in sides if isinstance(each, ValidatesRows)), None)
    return Unread.of(quarantine, side, readers, quarantined or {})


def redefined(spec: PipelineSpec, directory: RunRecords, name: str, sinks: tuple[str, ...]) -> bool:
    """Whether the rules that quarantine rows changed since one of these queries was last started."""
    now = quarantine_fingerprints(spec, Graph.of(spec), name).get(name)
    stored = (directory.stored_facts(sink) for sink in sinks)
    before = {facts.verdicts[name] for facts in stored if facts and name in facts.verdicts}
    return bool(before - {now})


def _reads(graph: Graph, directory: RunRecords, sink: SinkSpec, name: str) -> bool:
    names = {each.lower(): each for each in graph.spec.names}
    needed = graph.upstream(names.get(sink.reads.lower(), sink.reads))
    if name in needed:
        return True
    # For a table whose SQL only Spark can parse, the sources are known from the last start.
    known = all(graph.reads.get(each, ()) is not None for each in needed)
    return not known and not set(graph.upstream(name)).isdisjoint(directory.committed(sink.query) or ())
