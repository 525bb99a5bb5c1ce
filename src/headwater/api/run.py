"""`headwater run`: run a pipeline in the foreground."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.api.results import RunResult
from headwater.checks import Finding, unqueried
from headwater.engine.pipeline_file import load
from headwater.errors import ForcedStopError, Problem
from headwater.errors.catalogue.notices import RUN_STOPPING, START_STOPPED, TIME_LIMIT_REACHED
from headwater.errors.catalogue.running import FORCED_STOP, FORCED_STOP_AT_START
from headwater.events import Emit, Notice
from headwater.runtime import RunOptions, start
from headwater.runtime.signals import Signals, StopRequested
from headwater.values import Duration

if TYPE_CHECKING:
    from headwater.runtime.handles import Run

_LOOK_SECONDS = 0.2
_KILLED_SECONDS = 10.0


def run(
    file: str | Path,
    options: RunOptions,
    *,
    limit: Duration | None = None,
    emit: Emit,
    stdout: Callable[[str], None],
    found: Callable[[list[Finding]], None] = lambda findings: None,
) -> RunResult:
    """Run until every query has stopped, a signal arrives, the time is up, or all data is processed."""
    with Signals() as signals:
        try:
            # A second interrupt ends code that hangs during the start.
            with signals.interruptible():
                spec = load(file)
                # A check could not know that a command runs the pipeline.
                running, session = start(spec, options, emit, stdout, found, signals, unqueried(spec))
        except StopRequested as asked:
            emit(Notice.of(START_STOPPED.at(None, signal=str(asked))))
            return RunResult(0)
        except KeyboardInterrupt:
            raise ForcedStopError(FORCED_STOP_AT_START.at(None)) from None
        try:
            _wait(running, signals, options, limit, emit)
        finally:
            if signals.forced or running.is_stuck:
                session.jvm.kill()
                running.wait(_KILLED_SECONDS)
            else:
                session.jvm.stop()
        # A second interrupt that came when all queries had ended interrupted nothing.
        if signals.forced and running.exit_code in (None, ForcedStopError.exit_code):
            raise ForcedStopError(FORCED_STOP.at(None))
        return RunResult(1 if running.exit_code is None else running.exit_code, running.summary)


def _wait(running: Run, signals: Signals, options: RunOptions, limit: Duration | None, emit: Emit) -> None:
    reason: Problem | None = None
    deadline = time.monotonic() + limit.seconds if limit else None
    while not reason and not running.is_stuck and not running.wait(_LOOK_SECONDS):
        if signals.stop:
            reason = RUN_STOPPING.at(None, signal=signals.stop)
        elif deadline is not None and time.monotonic() >= deadline:
            reason = TIME_LIMIT_REACHED.at(None, limit=str(limit))
        elif options.until_idle:
            reason = running.reason_to_end()
    if not reason:
        return
    emit(Notice.of(reason))
    # Beside the thread that catches signals.
    stopping = threading.Thread(target=running.stop, name="headwater stop", daemon=True)
    stopping.start()
    while stopping.is_alive() and not signals.forced:
        stopping.join(_LOOK_SECONDS)
    if signals.forced:
        running.kill()
