"""`hw.watch`: history, health, metrics and control for the queries of a session that a program starts itself."""

from __future__ import annotations

import atexit
import os
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from headwater.engine.session_queries import Spark
from headwater.errors import CheckpointLockedError
from headwater.errors.catalogue.programs import WATCH_DIRECTORY_IN_USE
from headwater.events import Event, RunFinished, RunStarted
from headwater.run_directory import RunDirectory
from headwater.runtime.locks import RunLocks
from headwater.runtime.observers import Observed, Observers
from headwater.runtime.program_queries import ControlledWatch, ProgramQueries, WatchedQueries
from headwater.runtime.scope import guarded
from headwater.values import Position

_LAST_EVENTS_SECONDS = 5.0
_CLOSE_SECONDS = 20.0


class Watch:
    """The watch over the queries of a session. `hw.watch` starts it; it ends with `stop`, with Spark or with the
    program."""

    def __init__(self, session: ProgramQueries, observed: Observed, locks: RunLocks, run_id: str) -> None:
        self._session = session
        self._locks = locks
        self._observers = Observers(observed, run_id)
        self._emit = guarded(self._observers)
        log = RunDirectory(observed.run_dir).failures_log
        self._watched = WatchedQueries(session, self._emit, log, self._spark_ended)
        self._turn = threading.Lock()
        self._stopping = False
        self._stopped = threading.Event()
        self.run_dir = observed.run_dir

    @property
    def id(self) -> str:
        return self._observers.view.run_id

    @property
    def is_active(self) -> bool:
        """Whether the watch has not been stopped."""
        return not self._stopping

    @property
    def status(self) -> dict[str, Any]:
        """The status of all queries, as `headwater status --json` prints it."""
        return self._observers.view.to_json()

    @property
    def queries(self) -> Mapping[str, dict[str, Any]]:
        """The status of each query, by its name, or by its ID if it has none."""
        return {each["query"]: each for each in self.status["queries"]}

    def stop(self) -> None:
        """End the watch. The queries continue. A second call has no effect."""
        if self._begin_to_stop():
            self._watched.drain(_LAST_EVENTS_SECONDS)
            self._finish()
        else:
            self._stopped.wait(_CLOSE_SECONDS)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        view = self.status
        queries = ", ".join(f"{each['query']}: {each['status']}" for each in view["queries"])
        state = "active" if self.is_active else "stopped"
        return f"<Watch {view['pipeline']}, {state}: {queries or 'no queries'}>"

    def _start(self, on_event: Callable[[Event], object] | None) -> None:
        """Start to watch; called once."""
        view = self._observers.view
        try:
            self._locks.keep_alive()
            self._observers.open()
            if on_event is not None:
                self._observers.call(on_event, getattr(on_event, "__qualname__", repr(on_event)))
            self._emit(
                RunStarted(
                    run_id=self.id,
                    pipeline=view.pipeline,
                    queries=(),
                    run_dir=view.run_dir,
                    spark_version=self._session.spark_version,
                )
            )
            self._observers.control(ControlledWatch(view.pipeline, self._watched))
            self._watched.open()
        except BaseException:
            self._stopping = True
            self._release()
            raise
        atexit.register(self._exit)
        self._locks.when_lost(lambda held: self.stop())

    def _spark_ended(self) -> None:
        # On the listener's thread, for which nothing may wait.
        if self._begin_to_stop():
            self._finish()

    def _exit(self) -> None:
        if self._begin_to_stop():
            self._watched.drain(_LAST_EVENTS_SECONDS)
            self._watched.end_with_program()
            self._finish()
        else:
            self._stopped.wait(_CLOSE_SECONDS)

    def _gives_way_to(self, session: ProgramQueries) -> bool:
        """Whether a new watch of this session replaces it: it has the same session, or one that has ended."""
        if not self.is_active or self._session.status is not Spark.ACTIVE:
            return True
        return session.is_of(self._session.spark)

    def _begin_to_stop(self) -> bool:
        """Whether this is the first request to stop."""
        with self._turn:
            first, self._stopping = not self._stopping, True
        return first

    def _finish(self) -> None:
        with ExitStack() as steps:
            steps.callback(self._release)
            steps.callback(self._say_finished)
            self._watched.close()

    def _say_finished(self) -> None:
        code, queries = self._watched.exit_code, self._watched.summary
        self._emit(RunFinished(run_id=self.id, exit_code=code, queries=queries))

    def _release(self) -> None:
        with ExitStack() as steps:
            steps.callback(self._stopped.set)
            steps.callback(atexit.unregister, self._exit)
            steps.callback(self._locks.release)
            steps.callback(self._observers.close)
            self._watched.close()


_TURN = threading.Lock()
_WATCHES: WeakValueDictionary[Path, Watch] = WeakValueDictionary()
"""The watches of this process, by run directory."""


def start_watch(
    session: ProgramQueries,
    observed: Observed,
    on_event: Callable[[Event], object] | None,
    place: Position,
) -> Watch:
    """Watch a session. An earlier watch of the same session in the same run directory is stopped.

    CheckpointLockedError if something else uses the run directory.
    """
    directory, run_id = RunDirectory(observed.run_dir), uuid.uuid4().hex[:12]
    real = Path(os.path.realpath(directory.path))
    with _TURN:
        earlier = _WATCHES.get(real)
        if earlier is not None and earlier._gives_way_to(session):
            earlier.stop()
        try:
            locks = RunLocks([directory.checkpoints], run_id)
        except CheckpointLockedError as held:
            params = held.problems[0].params
            if "pid" not in params:
                raise
            named = {key: params[key] for key in ("run", "pid", "host")}
            problem = WATCH_DIRECTORY_IN_USE.at(place, directory=str(directory.path), **named)
            raise CheckpointLockedError(problem) from held
        watch = Watch(session, observed, locks, run_id)
        watch._start(on_event)
        _WATCHES[real] = watch
        return watch
