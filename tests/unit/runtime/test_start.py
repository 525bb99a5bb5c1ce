"""A start that loses its lock on the way, or is watched by an observer that fails, without Spark."""

from __future__ import annotations

import importlib
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.api.remote import connect
from headwater.control.client import RunClient
from headwater.errors import CheckpointLockedError, SetupError, UsageError
from headwater.errors.catalogue.running import LOCK_REMOVED
from headwater.events import Emit, Event, Notice, QueryProgress
from headwater.runtime import RunOptions
from headwater.runtime.locks import RunLocks
from headwater.runtime.scope import RunScope, guarded
from headwater.runtime.signals import StopRequested
from headwater.values import Secret
from tests.unit.runtime.queries import SECONDS, running
from tests.unit.specs import spec_of

PIPELINE = """
name: p
sources: {clicks: {connector: rate}}
sinks: {out: {reads: clicks, connector: noop}}
"""

# The package has a function of this name.
module: Any = importlib.import_module("headwater.runtime.start")


class FakeJvm:
    """A JVM that only knows whether it was stopped."""

    pid = None
    start_time = None
    owned = False
    stopped = False

    def stop(self) -> None:
        self.stopped = True


def test_a_lock_that_is_lost_while_spark_starts_refuses_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.runtime.locks.BEAT_SECONDS", 0.01)
    seen = threading.Event()
    lose = RunLocks._lose

    def see(locks: RunLocks, held: CheckpointLockedError) -> None:
        lose(locks, held)
        seen.set()

    monkeypatch.setattr(RunLocks, "_lose", see)
    jvm = FakeJvm()
    lock = tmp_path / ".headwater" / "checkpoints" / "out.lock"

    def connected(*_: object) -> SimpleNamespace:
        # Another run on another host: ours was silent for too long. A beat that was under way may still put
        # the lock back.
        end = time.monotonic() + SECONDS
        while not seen.wait(0.05):
            assert time.monotonic() < end, "the loss was not noticed"
            lock.unlink(missing_ok=True)
        return SimpleNamespace(jvm=jvm)

    def prepare(*_: object) -> None:
        raise AssertionError("the start goes on")

    monkeypatch.setattr("headwater.runtime.application.launch_spark", lambda *_, **__: None)
    monkeypatch.setattr("headwater.runtime.application._connected", connected)
    monkeypatch.setattr("headwater.runtime.start_queries.prepare", prepare)
    events: list[Event] = []
    with pytest.raises(CheckpointLockedError) as caught:
        module.start(spec_of(PIPELINE, tmp_path), RunOptions(), events.append, print)
    assert [problem.code for problem in caught.value.problems] == ["HW-LOCK-REMOVED"]
    assert jvm.stopped
    assert [event.kind for event in events] == ["spark_starting"]


def test_an_observer_that_raises_does_not_stop_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class GotAsFar(Exception):
        pass

    def launch_spark(*_: object, emit: Emit, **__: object) -> None:
        emit(Notice(code="HW-NOTICE", message="Fetched a jar."))
        raise GotAsFar

    def observe(event: Event) -> None:
        raise RuntimeError(event.kind)

    monkeypatch.setattr("headwater.runtime.application.launch_spark", launch_spark)
    with pytest.raises(GotAsFar):
        module.start(spec_of(PIPELINE, tmp_path), RunOptions(), observe, print)
    assert [str(each.exc_info[1]) for each in caplog.records if each.exc_info] == ["spark_starting", "notice"]


@pytest.mark.parametrize(
    ("error", "status", "code", "problem"),
    [
        (StopRequested("SIGTERM"), "stopped", 0, None),
        (SetupError(LOCK_REMOVED.at(file="f")), "failed", 5, "HW-LOCK-REMOVED"),
        (RuntimeError(), "failed", 70, "HW-INTERNAL-ERROR"),
    ],
)
def test_a_run_that_could_not_start_was_not_killed(
    error: Exception,
    status: str,
    code: int,
    problem: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Event] = []

    def launch_spark(*_: object, **__: object) -> None:
        assert connect(tmp_path / ".headwater").status == "starting"
        raise error

    monkeypatch.setattr("headwater.runtime.application.launch_spark", launch_spark)
    with pytest.raises(type(error)):
        module.start(spec_of(PIPELINE, tmp_path), RunOptions(), seen.append, print)
    run = connect(tmp_path / ".headwater")
    assert (run.status, run.exit_code, run.is_active) == (status, code, False)
    # The history says why, and so does the error: the output of the run does not.
    stored = [each["code"] for each in run.events() if each["event"] == "notice"]
    assert stored == ([] if problem is None else [problem])
    assert (run.to_json().get("problem") or {}).get("code") == problem
    assert [each.kind for each in seen] == ["spark_starting"]


@pytest.mark.feature("F4", part="the command stops a run that is starting")
def test_a_run_that_is_starting_can_be_stopped_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled, jvm, answers = threading.Event(), FakeJvm(), list[Any]()
    cancel = RunScope.cancel

    def seen(scope: RunScope) -> None:
        cancel(scope)
        cancelled.set()

    def stop() -> None:
        answers.append(RunClient(tmp_path / ".headwater").stop(None, None))

    stopping = threading.Thread(target=stop, daemon=True)

    def connected(*_: object) -> SimpleNamespace:
        with pytest.raises(UsageError) as refused:
            RunClient(tmp_path / ".headwater").stop("out", None)
        assert refused.value.problems[0].code == "HW-RUN-STARTING"
        stopping.start()
        assert cancelled.wait(SECONDS)
        return SimpleNamespace(jvm=jvm)

    monkeypatch.setattr(RunScope, "cancel", seen)
    monkeypatch.setattr("headwater.runtime.application.launch_spark", lambda *_, **__: None)
    monkeypatch.setattr("headwater.runtime.application._connected", connected)
    with pytest.raises(StopRequested, match="a request to stop pipeline `p`"):
        module.start(spec_of(PIPELINE, tmp_path), RunOptions(), lambda event: None, print)
    stopping.join(SECONDS)
    assert jvm.stopped
    assert [(each["status"], each["exit_code"]) for each in answers] == [("stopped", 0)]
    # What the next start has to know.
    assert connect(tmp_path / ".headwater").status == "stopped"


def test_a_stop_of_the_run_ends_a_restart_of_spark() -> None:
    with running("out") as (run, queries, _):
        run._supervisor.stop([])
        assert not run._supervisor.scope.is_cancelled
        queries["out"].in_batch = False
        run.stop()
        assert run._supervisor.scope.is_cancelled


def test_a_lost_lock_ends_the_queries_before_anybody_is_told() -> None:
    held = CheckpointLockedError(LOCK_REMOVED.at(file="out.lock"))
    seen = list[bool]()

    with running("out") as (run, queries, _):
        supervisor = run._supervisor
        supervisor.scope = replace(
            supervisor.scope, emit=lambda event: seen.append(supervisor._forced.is_set())
        )
        supervisor.lost(held)
        assert seen == [True]
        assert not queries["out"].is_active
        assert run.wait(SECONDS)
        assert run.queries["out"].problem == held.problems[0]


def test_an_observer_sees_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OBSERVED_TOKEN", "observed-and-secret")
    Secret("${secret:OBSERVED_TOKEN}").reveal()
    events: list[Event] = []
    emit = guarded(events.append)
    emit(Notice(code="HW-NOTICE", message="It said observed-and-secret."))
    progress = {"batchId": 0, "sources": [{"description": "observed-and-secret"}]}
    emit(QueryProgress(query="out", rows_out=None, progress=progress))
    said, progressed = events
    assert isinstance(said, Notice)
    assert isinstance(progressed, QueryProgress)
    assert (said.message, progressed.progress) == (
        "It said ***.",
        {"batchId": 0, "sources": [{"description": "***"}]},
    )
