"""Watches the queries of a run: their status, their end, and the way to stop them."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.connectors.contract import Moment
from headwater.engine.query import RunningQuery
from headwater.errors import CheckpointError, HeadwaterError, Interrupted, PipelineError, Problem
from headwater.errors.catalogue.running import (
    FORCED,
    NEVER_IDLE,
    NOT_STOPPED_IN_TIME,
    STOPPED_BY_FAILURE,
    WATCH_FAILED,
)
from headwater.events import (
    EpochCommitted,
    Event,
    QueryEnded,
    QueryIdle,
    QueryProgress,
    QueryStatus,
    RunEnded,
    Said,
)
from headwater.events.kinds import now
from headwater.runtime.query_state import Listener, Track, in_order, missed, not_handled, not_read, summary_of
from headwater.values import scrub

STOP_SECONDS = 60.0
_LOOK_SECONDS = 0.2
_LAST_EVENTS_SECONDS = 5.0
_RESTARTS = 3


class Supervisor:
    """Owns the state of a run. Events come in on the listener's thread; everything else waits on a condition.

    A query is over when Spark's listener has said so. Should that event be lost, the query's own word is
    taken after a few seconds. Progress whose event is late or lost is taken from the query itself.
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
        at_looks: Callable[[], None] = lambda: None,
        upkeep: Callable[[Moment], None] = lambda moment: None,
        again: Callable[[Track, Exception], RunningQuery | None] = lambda track, failure: None,
        caught_up: Callable[[], int | None] = lambda: 0,
        hindrance: Callable[[], Problem | None] = lambda: None,
    ) -> None:
        self.run_id = run_id
        self.tracks: dict[str, Track] = {}
        self.closed = False
        self.stuck = False
        self._emit = emit
        self._explain = explain
        self._fail_fast = fail_fast
        self._stop_seconds = stop_seconds
        self._on_close = on_close
        self._at_looks = at_looks
        self._upkeep = upkeep
        self._again = again
        self._caught_up = caught_up
        self._hindrance = hindrance
        self._found = 0
        self._looks_then: dict[str, int] = {}
        self._committed: set[str] = set()
        self._progress: dict[str, tuple[Mapping[str, Any], ...]] = {}
        self._listener: Listener | None = None
        self._not_handled: set[str] = set()
        self._forced = threading.Event()
        self._interrupted_by_user = False
        self._changed = threading.Condition(threading.RLock())
        self._over: set[str] = set()
        self._thread = threading.Thread(target=self._watch, name=f"headwater run {run_id}", daemon=True)

    def watch(self, queries: Iterable[RunningQuery], listener: Listener | None = None) -> None:
        """Begin to watch; called once, when all queries have started. The listener is closed at the end."""
        self._listener = listener
        with self._changed:
            for query in queries:
                self.tracks.setdefault(query.name, Track(query))
            # What a crash left undone is done at the first look.
            self._committed |= self.tracks.keys()
        self._thread.start()

    def adopt(self, query: RunningQuery, newest: int = -1) -> None:
        """Know a query from the moment it started, with the last batch of the runs before."""
        with self._changed:
            self.tracks[query.name] = Track(query, newest=newest)

    def handle(self, event: Event) -> None:
        """Take in an event of Spark's listener and pass it on."""
        for each in in_order(self.tracks, event):
            self._take_in(each)

    def catch_up(self) -> None:
        """Take in every batch that was committed, whether or not Spark's listener has said so."""
        for each in missed(self.tracks):
            self._take_in(each)

    def listener_failed(self, error: Exception) -> None:
        """Say that an event could not be handled, once for each reason."""
        said = not_handled(error)
        if said.text not in self._not_handled:
            self._not_handled.add(said.text)
            self._emit(said)

    def say(self, text: str) -> None:
        """Tell something about the run as a whole."""
        self._emit(Said(text=text))

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
        return self._all_quiet and self._nothing_new()

    @property
    def _all_quiet(self) -> bool:
        return all(track.ended or track.status is QueryStatus.IDLE for track in self.tracks.values())

    @property
    def hindrance(self) -> Problem | None:
        """What keeps the queries, which have nothing else to read, from ever being idle; else None."""
        return self._hindrance() if self._all_quiet else None

    def _nothing_new(self) -> bool:
        """Whether every query has looked since something new was last handed to it.

        Some input is opened by us before Spark sees it, so what Spark knows is not all that is there.
        """
        found = self._found_now()
        if found is None:
            return False
        if found != self._found:
            self._found = found
            self._looks_then = {name: track.looks for name, track in self.tracks.items()}
        then = self._looks_then
        return all(t.ended or t.looks >= then.get(t.name, -2) + 2 for t in self.tracks.values())

    def _found_now(self) -> int | None:
        try:
            return self._caught_up()
        except HeadwaterError:
            # The watch says it at its own look; nothing is idle while input can't be looked at.
            return None

    def wait_idle(self, timeout: float | None) -> bool:
        """Wait until every query has looked anew and found nothing.

        The first look that is reported may have begun before this call, so a second one is waited for; on a
        busy machine even that may be old news, so the time when it began counts, too.
        """
        lasting = [t for t in self.tracks.values() if not t.ended and not t.query.ends_batches]
        if lasting:
            raise PipelineError.of(
                NEVER_IDLE.at(None, sink=t.name, trigger=str(t.query.trigger)) for t in lasting
            )
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._found_now() is None and not self.all_ended:
            if self.hindrance:
                raise CheckpointError(self.hindrance)
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        before, called = {name: track.looks for name, track in self.tracks.items()}, now()

        def idle() -> bool:
            anew = (t.has_looked(before[t.name] + 2, called) for t in self.tracks.values())
            return self._all_quiet and all(anew)

        return self.wait(idle, None if deadline is None else max(0.0, deadline - time.monotonic()))

    @property
    def exit_code(self) -> int | None:
        if not self.all_ended:
            return None
        if self._interrupted_by_user:
            return Interrupted.exit_code
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
        """Wait no longer for running batches, because of `why` or because the user wants it so."""
        with self._changed:
            for track in self.tracks.values():
                if not track.ended:
                    track.problem = track.problem or why or FORCED.at(None)
                    self._interrupted_by_user |= why is None
        self._forced.set()

    def end(self, problems: Mapping[str, Problem]) -> None:
        """Stop queries that must not go on, which have failed then; the running batches may commit."""
        with self._changed:
            active = [track for track in self.tracks.values() if track.name in problems and not track.ended]
            for track in active:
                track.problem, track.must_end = track.problem or problems[track.name], True
        names = [track.name for track in active if not track.stopping]
        threading.Thread(target=self.stop, args=(names,), daemon=True, name="headwater stop").start()

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

    def _take_in(self, event: Event) -> None:
        with self._changed:
            match event:
                case QueryProgress(query=name) if self.tracks[name].ended:
                    return
                case QueryProgress(query=name):
                    self._progressed(self.tracks[name], event)
                case EpochCommitted(query=name) if name in self.tracks and not self.tracks[name].ended:
                    self.tracks[name].status = QueryStatus.RUNNING
                    self.tracks[name].epoch = event.epoch
                case QueryIdle(query=name) if name in self.tracks and not self.tracks[name].ended:
                    self.tracks[name].status = QueryStatus.IDLE
                    self.tracks[name].looks += 1
                    self.tracks[name].look_begun = event.begun
            self._changed.notify_all()
        self._emit(event)

    def _progressed(self, track: Track, event: QueryProgress) -> None:
        self._committed.add(track.name)
        self._progress[track.name] = (*self._progress.get(track.name, ()), event.progress)
        track.take_in(event)

    def _watch(self) -> None:
        try:
            while not self.all_ended:
                self._look()
            self._upkeep(self._last_moment())
        except BaseException as error:  # noqa: BLE001 - no one else hears it: who waits would wait for ever
            self._give_up(error)
        finally:
            self._close()

    def _look(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._over), _LOOK_SECONDS)
            ended = [track for track in self.tracks.values() if not track.ended and self._is_over(track)]
            self._over.clear()
            committed, self._committed = frozenset(self._committed), set()
            progress, self._progress = self._progress, {}
        # The last batches of those that ended may still be on their way.
        complete = not (ended and self._listener) or self._listener.drain(_LAST_EVENTS_SECONDS)
        for track in ended:
            self._end(track, complete)
        self._at_looks()
        self._upkeep(Moment(committed, progress=progress))

    def _give_up(self, error: BaseException) -> None:
        """End the queries that nobody watches any more, and say why."""
        says = scrub(f"{type(error).__name__}: {error}".splitlines()[0])
        problem = replace(WATCH_FAILED.at(None, says=says), detail=scrub(traceback.format_exc()))
        self._emit(Said(text=f"{problem.sentence} {problem.remedy}"))
        unwatched = [track for track in self.tracks.values() if not track.ended]
        self.stop()
        # Nothing may write any more when the locks are free; what can't be stopped ends with its JVM.
        while any(track.query.is_active for track in unwatched):
            time.sleep(_LOOK_SECONDS)
        for track in unwatched:
            self._ended(track, QueryStatus.FAILED, track.problem or problem)

    def _last_moment(self) -> Moment:
        failed = any(track.problem for track in self.tracks.values())
        return Moment(frozenset(self.tracks), last=True, sound=not failed and not self._forced.is_set())

    def _is_over(self, track: Track) -> bool:
        if track.name in self._over or track.query.is_gone:
            return True
        if track.query.is_active:
            return False
        track.seen_inactive = track.seen_inactive or time.monotonic()
        return time.monotonic() - track.seen_inactive > _LAST_EVENTS_SECONDS

    def _end(self, track: Track, complete: bool) -> None:
        failure = track.query.failure()
        if failure and self._restarted(track, failure):
            return
        problem = track.problem or (self._explain(track.name, failure) if failure else None)
        # A batch that had to be interrupted may say so in its own way; the reason is known better here.
        if track.must_end or (failure and not track.problem):
            status = QueryStatus.FAILED
        else:
            status = QueryStatus.STOPPED if track.stopping else QueryStatus.FINISHED
        if not complete and track.query.has_batches:
            self._emit(not_read(track.name, _LAST_EVENTS_SECONDS))
        self._ended(track, status, problem)
        if status is QueryStatus.FAILED and self._fail_fast:
            self._stop_others(track)

    def _ended(self, track: Track, status: QueryStatus, problem: Problem | None) -> None:
        with self._changed:
            track.problem, track.status = problem, status
            self._changed.notify_all()
        self._emit(QueryEnded(query=track.name, status=status, problem=problem))

    def _restarted(self, track: Track, failure: Exception) -> bool:
        """Whether a query goes on with a new start, because what it failed of passes by itself."""
        if track.stopping or track.problem or track.restarts >= _RESTARTS:
            return False
        try:
            query = self._again(track, failure)
        except Exception as error:  # noqa: BLE001 - code from outside may raise anything: the others go on
            # What the query failed of is told when it ends; this only says why it ends.
            says = scrub(f"{type(error).__name__}: {error}".splitlines()[0])
            self._emit(Said(text=f"The query `{track.name}` could not be started again ({says})."))
            return False
        if query is None:
            return False
        with self._changed:
            track.query, track.status, track.seen_inactive = query, QueryStatus.STARTING, None
            track.restarts, track.brought = track.restarts + 1, {}
        # A stop that was asked for meanwhile has met the old start only.
        if track.stopping or track.problem:
            query.stop()
        return True

    def _stop_others(self, failed: Track) -> None:
        others = [track.name for track in self.tracks.values() if not track.ended]
        for name in others:
            self._emit(Said(text=STOPPED_BY_FAILURE.at(None, sink=name).sentence))
        threading.Thread(target=self.stop, args=(others,), daemon=True, name="headwater stop").start()

    def _close(self) -> None:
        with ExitStack() as steps:
            steps.callback(self._tell_the_end)
            steps.callback(self._on_close)
            if self._listener:
                self._listener.close()

    def _tell_the_end(self) -> None:
        summary = {track.name: summary_of(track) for track in self.tracks.values()}
        try:
            code = 1 if self.exit_code is None else self.exit_code
            self._emit(RunEnded(run_id=self.run_id, exit_code=code, queries=summary))
        finally:
            with self._changed:
                self.closed = True
                self._changed.notify_all()


# How to run a pipeline.


@dataclass(frozen=True)
class RunOptions:
    """How to run; nothing here changes what the pipeline means."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    fail_fast: bool = False
    until_idle: bool = False
    spark_ui: bool = False
    stop_seconds: float = STOP_SECONDS
