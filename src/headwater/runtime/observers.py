"""Whoever is told what happens in a run: sees no secret, and hurts nothing by failing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from headwater.errors.catalogue.pipelines import EXPECTATION_UNMET
from headwater.events import Event, QueryProgress, Said, StartPhase
from headwater.spec import PipelineSpec
from headwater.values import Otherwise, scrub, scrub_within

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
