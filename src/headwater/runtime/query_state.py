"""What is known of one query while it runs."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from headwater.engine.query import RunningQuery
from headwater.errors import Problem
from headwater.errors.catalogue.pipelines import EXPECTATION_UNMET
from headwater.errors.catalogue.running import EVENT_NOT_HANDLED, PROGRESS_LOST, PROGRESS_NOT_READ
from headwater.events import Event, QueryProgress, QueryStatus, Said, StartPhase
from headwater.events.kinds import Idle, SourceCounts, TableCounts
from headwater.spec import PipelineSpec
from headwater.values import Otherwise, scrub, scrub_within

# Whoever is told what happens in a run: sees no secret, and hurts nothing by failing.

_LOG = logging.getLogger("headwater")


def guarded(emit: Callable[[Event], None]) -> Callable[[Event], None]:
    """The observer as the run calls it.

    One that raises must not end the watch: the run would hang with its locks held.
    """

    def call(event: Event) -> None:
        try:
            emit(without_secrets(event))
        except Exception:  # noqa: BLE001 - an observer is foreign code: whatever it raises is noted
            _LOG.exception("an observer of the run failed at %s", event.kind)

    return call


def without_secrets(event: Event) -> Event:
    """The event as others may see it; Spark's progress and texts of foreign code may hold anything."""
    match event:
        case Said(text=text):
            return replace(event, text=scrub(text))
        case QueryProgress(progress=progress):
            return replace(event, progress=shown(progress))
        case _:
            return event


def shown(progress: Mapping[str, Any]) -> Mapping[str, Any]:
    """Spark's progress without secrets; the names of its fields stay, since others look them up."""
    return {name: scrub_within(each) for name, each in progress.items()}


# Says once in a run, for each expectation, that rows fail it; the counts are in every event.

_WHAT = {
    Otherwise.WARN: "they go on",
    Otherwise.DROP: "they are dropped",
    Otherwise.FAIL: "they fail the query",
    Otherwise.QUARANTINE: "they are set aside",
}


class UnmetExpectations:
    """Passes every event on, and a warning after the first batch in which rows fail an expectation."""

    def __init__(self, spec: PipelineSpec, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._left = {
            (table.name, each.name): _WHAT[each.otherwise] for table in spec.tables for each in table.expect
        }

    def __call__(self, event: Event) -> None:
        self._emit(event)
        if isinstance(event, QueryProgress) and self._left:
            self._warn(event)

    def _warn(self, event: QueryProgress) -> None:
        for table, counts in event.table_counts.items():
            for expectation, rows in counts.failed.items():
                # Whoever takes it out says it: several queries may read the table.
                what = self._left.pop((table, expectation), None) if rows else None
                if what:
                    params = {"table": table, "expectation": expectation, "rows": rows, "what": what}
                    problem = EXPECTATION_UNMET.at(
                        None, **params, all=counts.rows, sink=event.query, batch=event.batch_id
                    )
                    self._emit(Said(text=f"{problem.sentence} {problem.remedy}"))


# The phases of a start, reported while the user waits for it.

FIRST_SECONDS = 3.0
NEXT_SECONDS = 5.0


class Phase:
    """One phase of a start, with a count where it has one."""

    def __init__(self, name: str, text: str, total: int | None) -> None:
        self._name = name
        self._text = text
        self._began = time.monotonic()
        self._count = (None if total is None else 0, total)

    def count(self, done: int, total: int | None = None) -> None:
        """So many are done, of as many as before or of another total."""
        self._count = (done, self._count[1] if total is None else total)

    def event(self) -> StartPhase:
        """The phase as it is now."""
        done, total = self._count
        seconds = round(time.monotonic() - self._began)
        return StartPhase(phase=self._name, text=self._text, seconds=seconds, done=done, total=total)


class Phases:
    """Emits an event for a phase that takes longer than some seconds, and then again every few seconds.

    A quick start thus emits nothing.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit

    @contextmanager
    def phase(
        self, name: str, text: str, *, total: int | None = None, first: float = FIRST_SECONDS
    ) -> Iterator[Phase]:
        """Run a phase; the first event comes after `first` seconds."""
        phase, over = Phase(name, text, total), threading.Event()
        thread = threading.Thread(target=self._tell, args=(phase, over, first), daemon=True)
        if not first:
            self._emit(phase.event())
        thread.start()
        try:
            yield phase
        finally:
            over.set()
            thread.join()

    def _tell(self, phase: Phase, over: threading.Event, first: float) -> None:
        seconds = first or NEXT_SECONDS
        while not over.wait(seconds):
            self._emit(phase.event())
            seconds = NEXT_SECONDS


ENDED = (QueryStatus.FINISHED, QueryStatus.STOPPED, QueryStatus.FAILED)
_KEPT = 100


@dataclass
class Track:
    """What is known of one query."""

    query: RunningQuery
    status: QueryStatus = QueryStatus.STARTING
    recent: deque[Mapping[str, Any]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    rows_in: int = 0
    rows_out: int = 0
    sources: dict[str, SourceCounts] = field(default_factory=dict)
    """Good and bad rows since the start, by the source that tells them apart."""
    late: dict[str, int] = field(default_factory=dict)
    """Rows dropped behind the watermark since the start, by operator."""
    tables: dict[str, TableCounts] = field(default_factory=dict)
    """What failed expectations since the start, by the table that has them."""
    epoch: int | None = None
    """The newest epoch of a continuous query, which has no batches."""
    problem: Problem | None = None
    stopping: bool = False
    must_end: bool = False
    """Its problem was found beside it, and it was stopped for that: it has failed."""
    quiet_watermark: str | None = None
    looks: int = 0
    """How often it was seen to be idle."""
    look_begun: str = ""
    """When the last of these looks began; empty where nobody said."""
    seen_inactive: float | None = None
    newest: int = -1
    """The newest batch that was taken in, or the last one of the runs before."""
    restarts: int = 0
    """How often it was started again since its last progress."""
    brought: dict[str, int] = field(default_factory=dict)
    """The newest batch since its start to which each source brought rows."""
    waits_for: tuple[Idle, ...] = ()
    """The idle inputs that hold its watermark back."""

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    def has_looked(self, times: int, since: str) -> bool:
        """Whether it was seen to be idle so often, the last time by a look that began after a moment."""
        return self.ended or (self.looks >= times and (not self.look_begun or self.look_begun >= since))

    def take_in(self, event: QueryProgress) -> None:
        """A batch was committed."""
        self.newest = event.batch_id
        self.restarts = 0
        # What is decided here is decided by what Spark said; what others see of it holds no secret.
        self.recent.append(shown(event.progress))
        self.brought |= dict.fromkeys(self.query.inputs.rows_in(event.progress), event.batch_id)
        self.rows_in += event.rows_in
        self.rows_out += event.rows_out or 0
        for name, counts in event.source_counts.items():
            self.sources[name] = self.sources.get(name, SourceCounts()) + counts
        for name, failed in event.table_counts.items():
            self.tables[name] = self.tables.get(name, TableCounts()) + failed
        for operator, rows in event.late_rows.items():
            self.late[operator] = self.late.get(operator, 0) + rows
        if not self.ended:
            quiet = self._is_quiet(event)
            self.status = QueryStatus.IDLE if quiet else QueryStatus.RUNNING
            self.looks += quiet
            self.look_begun = str(event.progress.get("timestamp") or "")

    def _is_quiet(self, event: QueryProgress) -> bool:
        """Batches without data and with the watermark where it was: only time-outs keep the query going."""
        if event.rows_in or event.moved:
            self.quiet_watermark = None
            return False
        mark = event.watermark or "none"
        quiet = self.quiet_watermark == mark
        self.quiet_watermark = mark
        return quiet


def summary_of(track: Track) -> dict[str, Any]:
    """One query in the summary of a run."""
    return {
        "status": track.status.value,
        "rows_in": track.rows_in if track.query.has_batches else None,
        "rows_out": track.rows_out if track.query.has_batches else None,
        "sources": {name: counts.to_json() for name, counts in track.sources.items()},
        "expectations": {name: counts.to_json() for name, counts in track.tables.items()},
        "late_rows": dict(track.late),
        "batch": track.recent[-1]["batchId"] if track.recent else track.epoch,
        "waits_for": [idle.to_json(track.name) for idle in track.waits_for],
        "problem": track.problem.to_json() if track.problem else None,
    }


# What comes from Spark's listener: each batch once, in order, and none left out.


class Listener(Protocol):
    """What brings the events of the queries."""

    def drain(self, seconds: float) -> bool:
        """Wait until all that has happened so far is handled; False if that takes longer."""

    def close(self) -> None:
        """Bring no more."""


def in_order(tracks: Mapping[str, Track], event: Event) -> Iterator[Event]:
    """An event after the batches before it that did not arrive; nothing if its batch was taken in before."""
    if not isinstance(event, QueryProgress):
        yield event
        return
    track = tracks.get(event.query)
    # A query that is not known yet is caught up with as soon as it is. One that ended has its final counts.
    if track is None or track.ended or event.batch_id <= track.newest:
        return
    gap = event.batch_id - track.newest - 1
    if gap:
        before = [each for each in track.query.progress_after(track.newest) if each.batch_id < event.batch_id]
        if len(before) < gap:
            yield _said(PROGRESS_LOST.at(None, sink=track.name, lost=gap - len(before)))
        yield from before
    yield event


def missed(tracks: Mapping[str, Track]) -> Iterator[Event]:
    """Batches that were committed and whose events have not arrived."""
    for track in list(tracks.values()):
        if track.query.has_batches and not track.ended:
            for event in track.query.progress_after(track.newest):
                yield from in_order(tracks, event)


def not_read(name: str, seconds: float) -> Said:
    """A query has ended before its last events were handled."""
    return _said(PROGRESS_NOT_READ.at(None, sink=name, limit=f"{seconds:g} s"))


def not_handled(error: Exception) -> Said:
    """What went wrong with an event; those after it are handled all the same."""
    says = f"{type(error).__name__}: {error}".splitlines()[0]
    return _said(EVENT_NOT_HANDLED.at(None, says=scrub(says)))


def _said(problem: Problem) -> Said:
    return Said(text=f"{problem.code} {problem.sentence} {problem.remedy}")
