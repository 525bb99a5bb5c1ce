"""Watches the queries of a run: their status, their end, and the way to stop them."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.engine.query import RunningQuery
from headwater.errors import Problem
from headwater.errors.catalogue.running import FORCED, NOT_STOPPED_IN_TIME, STOPPED_BY_FAILURE
from headwater.events import Event, QueryEnded, QueryIdle, QueryProgress, QueryStatus, RunEnded, Said

ENDED = (QueryStatus.FINISHED, QueryStatus.STOPPED, QueryStatus.FAILED)
STOP_SECONDS = 60.0
_KEPT = 100
_LOG = logging.getLogger("headwater")
_LOOK_SECONDS = 0.2
_LAST_EVENTS_SECONDS = 5.0


@dataclass
class Track:
    """What is known of one query."""

    query: RunningQuery
    status: QueryStatus = QueryStatus.STARTING
    recent: deque[Mapping[str, Any]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    rows_in: int = 0
    rows_out: int = 0
    problem: Problem | None = None
    stopping: bool = False
    quiet_watermark: str | None = None
    looks: int = 0
    """How often it was seen to be idle."""
    seen_inactive: float | None = None

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def ended(self) -> bool:
        return self.status in ENDED


class Supervisor:
    """Owns the state of a run. Events come in on Spark's threads; everything else waits on a condition.

    A query is over when Spark's listener has said so, because all its progress was said before. Should that
    event be lost, the query's own word is taken after a few seconds.
    """

    def __init__(
        self,
        run_id: str,
        emit: Callable[[Event], None],
        explain: Callable[[str, Exception], Problem],
        *,
        fail_fast: bool = False,
        stop_seconds: float = STOP_SECONDS,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self.run_id = run_id
        self.tracks: dict[str, Track] = {}
        self.closed = False
        self.stuck = False
        self._emit = _unhurt(emit)
        self._explain = explain
        self._fail_fast = fail_fast
        self._stop_seconds = stop_seconds
        self._on_close = on_close
        self._forced = threading.Event()
        self._changed = threading.Condition(threading.RLock())
        self._over: set[str] = set()
        self._thread = threading.Thread(target=self._watch, name=f"headwater run {run_id}", daemon=True)

    def watch(self, queries: Iterable[RunningQuery]) -> None:
        """Begin to watch; called once, when all queries have started."""
        with self._changed:
            for query in queries:
                self.tracks.setdefault(query.name, Track(query))
        self._thread.start()

    def adopt(self, query: RunningQuery) -> None:
        """Know a query from the moment it started; its first events may be here already."""
        with self._changed:
            self.tracks[query.name] = Track(query)

    def handle(self, event: Event) -> None:
        """Take in an event of Spark's listener and pass it on."""
        with self._changed:
            match event:
                case QueryProgress(query=name) if name in self.tracks:
                    self._progressed(self.tracks[name], event)
                case QueryIdle(query=name) if name in self.tracks and not self.tracks[name].ended:
                    self.tracks[name].status = QueryStatus.IDLE
                    self.tracks[name].looks += 1
            self._changed.notify_all()
        self._emit(event)

    def over(self, name: str) -> None:
        """Spark's listener says that a query has ended."""
        with self._changed:
            self._over.add(name)
            self._changed.notify_all()

    @property
    def all_ended(self) -> bool:
        return all(track.ended for track in self.tracks.values())

    @property
    def any_ended(self) -> bool:
        return any(track.ended for track in self.tracks.values())

    @property
    def all_idle(self) -> bool:
        """Every query has committed what its sources hold, or has ended."""
        return all(track.ended or track.status is QueryStatus.IDLE for track in self.tracks.values())

    def wait_idle(self, timeout: float | None) -> bool:
        """Wait until every query has looked anew and found nothing.

        The first look that is reported may have begun before this call, so a second one is waited for.
        """
        before = {name: track.looks for name, track in self.tracks.items()}

        def idle() -> bool:
            anew = (t.ended or t.looks >= before[t.name] + 2 for t in self.tracks.values())
            return self.all_idle and all(anew)

        return self.wait(idle, timeout)

    @property
    def exit_code(self) -> int | None:
        if not self.all_ended:
            return None
        return 1 if any(track.problem for track in self.tracks.values()) else 0

    def wait(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until the condition holds."""
        with self._changed:
            return self._changed.wait_for(condition, timeout)

    def stop(self, names: Iterable[str] | None = None, timeout: float | None = None) -> None:
        """Let the running batches commit, then stop; all queries at once, so that they wait together."""
        chosen = [self.tracks[name] for name in (self.tracks if names is None else names)]
        with self._changed:
            active = [track for track in chosen if not track.ended and not track.stopping]
            for track in active:
                track.stopping = True
        for track in active:
            track.query.begin_no_further_batch()
        limit = self._stop_seconds if timeout is None else timeout
        deadline = time.monotonic() + limit
        late = [each for each in active if not each.query.finish_batch(deadline, self._forced.is_set)]
        if not self._forced.is_set():
            for track in late:
                self._interrupted(track, limit)
        stopped = [track.query.stop() for track in active]
        if not all(stopped):
            self._hangs()

    def force(self, why: Problem | None = None) -> None:
        """Wait no longer for running batches."""
        with self._changed:
            for track in self.tracks.values():
                if not track.ended:
                    track.problem = track.problem or why or FORCED.at(None)
        self._forced.set()

    def _interrupted(self, track: Track, limit: float) -> None:
        problem = NOT_STOPPED_IN_TIME.at(None, sink=track.name, limit=f"{limit:g} seconds")
        with self._changed:
            track.problem = problem
        self._emit(Said(text=f"{problem.sentence} {problem.remedy}"))

    def _hangs(self) -> None:
        """A batch can neither end nor be interrupted: only the end of the JVM stops it."""
        with self._changed:
            self.stuck = True
            self._changed.notify_all()

    def _progressed(self, track: Track, event: QueryProgress) -> None:
        track.recent.append(event.progress)
        track.rows_in += event.rows_in
        track.rows_out += event.rows_out or 0
        if not track.ended:
            quiet = self._is_quiet(track, event)
            track.status = QueryStatus.IDLE if quiet else QueryStatus.RUNNING
            track.looks += quiet

    @staticmethod
    def _is_quiet(track: Track, event: QueryProgress) -> bool:
        """Batches without data and with the watermark where it was: only time-outs keep the query going."""
        if event.rows_in or event.moved:
            track.quiet_watermark = None
            return False
        mark = event.watermark or "none"
        quiet = track.quiet_watermark == mark
        track.quiet_watermark = mark
        return quiet

    def _watch(self) -> None:
        while not self.all_ended:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._over), _LOOK_SECONDS)
                ended = [track for track in self.tracks.values() if not track.ended and self._is_over(track)]
                self._over.clear()
            for track in ended:
                self._end(track)
        self._close()

    def _is_over(self, track: Track) -> bool:
        if track.name in self._over or track.query.is_gone:
            return True
        if track.query.is_active:
            return False
        track.seen_inactive = track.seen_inactive or time.monotonic()
        return time.monotonic() - track.seen_inactive > _LAST_EVENTS_SECONDS

    def _end(self, track: Track) -> None:
        failure = track.query.failure()
        problem = track.problem or (self._explain(track.name, failure) if failure else None)
        # A batch that had to be interrupted may say so in its own way; the reason is known better here.
        if failure and not track.problem:
            status = QueryStatus.FAILED
        else:
            status = QueryStatus.STOPPED if track.stopping else QueryStatus.FINISHED
        with self._changed:
            track.problem, track.status = problem, status
            self._changed.notify_all()
        self._emit(QueryEnded(query=track.name, status=status, problem=problem))
        if status is QueryStatus.FAILED and self._fail_fast:
            self._stop_others(track)

    def _stop_others(self, failed: Track) -> None:
        others = [track.name for track in self.tracks.values() if not track.ended]
        for name in others:
            self._emit(Said(text=STOPPED_BY_FAILURE.at(None, sink=name).sentence))
        threading.Thread(target=self.stop, args=(others,), daemon=True, name="headwater stop").start()

    def _close(self) -> None:
        self._on_close()
        summary = {track.name: summary_of(track) for track in self.tracks.values()}
        self._emit(RunEnded(run_id=self.run_id, exit_code=self.exit_code or 0, queries=summary))
        with self._changed:
            self.closed = True
            self._changed.notify_all()


def _unhurt(emit: Callable[[Event], None]) -> Callable[[Event], None]:
    """An observer that raises must not end the watch: the run would hang with its locks held."""

    def call(event: Event) -> None:
        try:
            emit(event)
        except Exception:  # noqa: BLE001 - an observer is foreign code: whatever it raises is noted
            _LOG.exception("an observer of the run failed at %s", event.kind)

    return call


def summary_of(track: Track) -> dict[str, Any]:
    """One query in the summary of a run."""
    return {
        "status": track.status.value,
        "rows_in": track.rows_in,
        "rows_out": track.rows_out,
        "batch": track.recent[-1]["batchId"] if track.recent else None,
        "problem": track.problem.to_json() if track.problem else None,
    }
