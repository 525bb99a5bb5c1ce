"""What a run passes to its parts: options, directory, locks, observer, cancellation."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from headwater.errors import Problem
from headwater.errors.catalogue.pipelines import EXPECTATION_VIOLATED
from headwater.events import Emit, Event, Notice, QueryProgress, StartPhase
from headwater.runtime.locks import RunLocks
from headwater.runtime.records import RunRecords
from headwater.runtime.signals import StopRequested
from headwater.spec import PipelineSpec
from headwater.values import OnViolation, scrub, scrub_within

if TYPE_CHECKING:
    from headwater.runtime.host import Controlled

_LOG = logging.getLogger("headwater")
STOP_SECONDS = 60.0


@dataclass(frozen=True)
class RunOptions:
    """How to run; nothing here changes the meaning of the pipeline."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    fail_fast: bool = False
    restarts: bool = True
    """Whether failed queries are restarted, and Spark if its process dies, as the pipeline's `restart` says."""
    observed: bool = True
    """Whether the run has a history and a control socket."""
    until_idle: bool = False
    metrics: str | None = None
    """The address of the endpoint for Prometheus: `PORT` or `HOST:PORT`; None for no endpoint."""
    spark_ui: bool = False
    stop_seconds: float = STOP_SECONDS


class Cancellation(Protocol):
    """Can cancel a start before its queries run."""

    def check_cancelled(self) -> None:
        """Raise if the start is cancelled."""


class RunObservers(Protocol):
    """Observes the run."""

    def control(self, run: Controlled) -> None:
        """The queries run; other processes can control them from now on."""

    def call(self, function: Callable[[Event], object], name: str) -> None:
        """Call a function of the user with every later event."""

    def close(self) -> None:
        """Deliver what has happened, and stop to observe."""


@dataclass(frozen=True)
class RunScope:
    """One run of one pipeline; created when the run holds its locks."""

    run_id: str
    spec: PipelineSpec
    options: RunOptions
    directory: RunRecords
    locks: RunLocks
    emit: Emit
    observers: RunObservers | None = None
    cancellation: Cancellation | None = None
    stop_requested: threading.Event = field(default_factory=threading.Event)

    def cancel(self) -> None:
        """Stop the start of the run, or a restart of Spark, at its next step."""
        self.stop_requested.set()

    def notify(self, problem: Problem) -> None:
        """Notify the user."""
        self.emit(Notice.of(problem))

    def log_failure(self, query: str, problem: Problem) -> None:
        """Append the full text to `logs/failures.log`; the message on the terminal stays short."""
        append_failure(self.directory.failures_log, query, problem)

    def phase(
        self, name: str, text: str, *, total: int | None = None, first: float | None = None
    ) -> AbstractContextManager[Phase]:
        """A phase of the start, reported while the user waits for it."""
        return phase_of(self.emit, name, text, total=total, first=first)

    @property
    def is_cancelled(self) -> bool:
        """Whether a stop of the whole run was requested."""
        try:
            self.check_cancelled()
        except Exception:  # noqa: BLE001 - each caller raises its own
            return True
        return False

    def check_cancelled(self) -> None:
        """Raise if the start must stop: a lock was lost, or the start was cancelled."""
        self.locks.refuse_if_lost()
        if self.stop_requested.is_set():
            raise StopRequested(f"a request to stop pipeline `{self.spec.name}`")
        if self.cancellation is not None:
            self.cancellation.check_cancelled()


def append_failure(file: Path, query: str, problem: Problem) -> None:
    """Append the full text of a failure to a log file."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    text = f"{now} {query} {problem}\n{problem.detail}\n\n"
    # A full disk must not keep the run from stopping; the problem itself is reported anyway.
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as stream:
            stream.write(scrub(text))


# Observers of a run: they see no secrets, and their failures have no effect.


def guarded(emit: Emit) -> Emit:
    """The observer as the run calls it.

    If it raises, monitoring must continue: otherwise, the run would hang while it holds its locks.
    """

    def call(event: Event) -> None:
        try:
            emit(without_secrets(event))
        except Exception:  # noqa: BLE001 - an observer is foreign code: whatever it raises is logged
            _LOG.exception("an observer of the run failed at %s", event.kind)

    return call


def without_secrets(event: Event) -> Event:
    """The event as others may see it: Spark's progress and texts of foreign code can contain secrets."""
    match event:
        case Notice(message=message, hint=hint, fields=fields):
            return replace(event, message=scrub(message), hint=scrub(hint), fields=shown(fields))
        case QueryProgress(progress=progress):
            return replace(event, progress=shown(progress))
        case _:
            return event


def shown(progress: Mapping[str, Any]) -> Mapping[str, Any]:
    """Spark's progress without secrets; field names stay, because others look them up."""
    return {name: scrub_within(each) for name, each in progress.items()}


_ACTIONS = {
    OnViolation.WARN: "passed on",
    OnViolation.DROP: "dropped",
    OnViolation.FAIL: "query failed",
    OnViolation.QUARANTINE: "quarantined",
}


class UnmetExpectations:
    """Passes every event on, and adds a warning when an expectation fails for the first time in a run.

    Every event contains the counts.
    """

    def __init__(self, spec: PipelineSpec, emit: Emit) -> None:
        self._emit = emit
        self._left = {
            (table.name, each.name): _ACTIONS[each.on_violation]
            for table in spec.tables
            for each in table.expect
        }

    def __call__(self, event: Event) -> None:
        self._emit(event)
        if isinstance(event, QueryProgress) and self._left:
            self._warn(event)

    def _warn(self, event: QueryProgress) -> None:
        for table, counts in event.table_counts.items():
            for expectation, rows in counts.failed.items():
                # The first query that removes it reports it: several queries may read the table.
                action = self._left.pop((table, expectation), None) if rows else None
                if action:
                    params = {"table": table, "expectation": expectation, "rows": rows, "action": action}
                    problem = EXPECTATION_VIOLATED.at(
                        None, **params, all=counts.rows, sink=event.query, batch=event.batch_id
                    )
                    self._emit(Notice.of(problem))


# The phases of a start, reported while the user waits for it.

FIRST_SECONDS = 3.0
NEXT_SECONDS = 5.0


class Phase:
    """One phase of a start, with a count if it has one."""

    def __init__(self, name: str, text: str, total: int | None) -> None:
        self._name = name
        self._text = text
        self._began = time.monotonic()
        self._count = (None if total is None else 0, total)

    def count(self, done: int, total: int | None = None) -> None:
        """The given number is done, of the same or a new total."""
        self._count = (done, self._count[1] if total is None else total)

    def event(self) -> StartPhase:
        """The phase as it is now."""
        done, total = self._count
        seconds = round(time.monotonic() - self._began)
        return StartPhase(phase=self._name, message=self._text, seconds=seconds, done=done, total=total)


@contextmanager
def phase_of(
    emit: Emit, name: str, text: str, *, total: int | None = None, first: float | None = None
) -> Iterator[Phase]:
    """Emit an event if a phase takes longer than a few seconds, then again every few seconds.

    A quick start emits nothing. `first` sets the delay of the first event in seconds.
    """
    phase, over = Phase(name, text, total), threading.Event()

    def tell(seconds: float) -> None:
        while not over.wait(seconds):
            emit(phase.event())
            seconds = NEXT_SECONDS

    if first == 0:
        emit(phase.event())
    begin = FIRST_SECONDS if first is None else first or NEXT_SECONDS
    thread = threading.Thread(target=tell, args=(begin,), daemon=True)
    thread.start()
    try:
        yield phase
    finally:
        over.set()
        thread.join()
