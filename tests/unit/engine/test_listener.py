"""Events on their way from Spark's threads to the run, without a JVM."""

from __future__ import annotations

import json
import threading
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from headwater.engine.listener import EventListener
from headwater.engine.session_queries import SessionListener
from headwater.events import Event, QueryIdle, QueryProgress, QueryStarted

SECONDS = 20.0
STARTED = {"id": "i", "runId": "r", "name": "out", "timestamp": "t"}


class SparkEvent:
    """An event of Spark as the callback gets it, which counts the calls into the JVM."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content
        self.calls = 0

    def json(self) -> str:
        self.calls += 1
        return json.dumps(self._content)


def progress(batch: int) -> SparkEvent:
    sink = {"description": "memory", "numOutputRows": 1}
    return SparkEvent({"progress": {"batchId": batch, "runId": "r", "id": "i", "name": "out", "sink": sink}})


class Heard:
    """What a listener handed on; the batch numbered `bad` can't be handled."""

    def __init__(self, bad: int = -1, wait: threading.Event | None = None) -> None:
        self.log: list[str] = []
        self.errors: list[str] = []
        self._bad = bad
        self._wait = wait

    def handle(self, event: Event) -> None:
        if self._wait:
            assert self._wait.wait(SECONDS)
        match event:
            case QueryProgress() if event.batch_id == self._bad:
                raise ValueError("no such column")
            case QueryProgress():
                self.log.append(f"{event.query} {event.batch_id}")
            case QueryStarted() | QueryIdle():
                self.log.append(f"{event.query} {event.kind}")

    def over(self, name: str) -> None:
        self.log.append(f"{name} ended")

    def catch_up(self) -> None:
        """Nothing was left out."""

    def not_handled(self, error: Exception) -> None:
        self.errors.append(str(error))

    def listener(self) -> EventListener:
        listener = EventListener(self)
        listener._thread.start()
        return listener


@pytest.mark.feature("F1", part="every batch, in order")
def test_events_are_handed_on_in_their_order_and_spark_does_not_wait() -> None:
    handled = threading.Event()
    heard = Heard(wait=handled)
    listener = heard.listener()
    listener.onQueryStarted(SparkEvent(STARTED))
    for batch in range(50):
        listener.onQueryProgress(progress(batch))
    listener.onQueryIdle(SparkEvent({"id": "i", "runId": "r", "timestamp": "t"}))
    listener.onQueryTerminated(SparkEvent({"id": "i", "runId": "r", "exception": None}))
    # Every callback has returned, and nothing is handled yet.
    assert heard.log == []
    handled.set()
    listener.close()
    assert heard.log == [
        "out query_started",
        *(f"out {batch}" for batch in range(50)),
        "out query_idle",
        "out ended",
    ]


def test_an_event_costs_one_call_into_the_jvm() -> None:
    event = progress(0)
    listener = Heard().listener()
    listener.onQueryProgress(event)
    listener.close()
    assert event.calls == 1


def test_an_event_that_can_not_be_handled_is_reported_and_the_next_ones_are_handled() -> None:
    heard = Heard(bad=1)
    listener = heard.listener()
    for batch in range(3):
        listener.onQueryProgress(progress(batch))
    assert listener.drain(SECONDS)
    assert (heard.log, heard.errors) == (["out 0", "out 2"], ["no such column"])
    listener.close()


def test_the_end_of_an_earlier_start_of_a_query_is_no_news() -> None:
    heard = Heard()
    listener = heard.listener()
    for run_id in ("r", "s"):
        listener.onQueryStarted(SparkEvent({**STARTED, "runId": run_id}))
    for run_id in ("r", "s"):
        listener.onQueryTerminated(SparkEvent({"id": "i", "runId": run_id}))
    listener.close()
    assert heard.log == ["out query_started", "out query_started", "out ended"]


def test_a_session_listener_forgets_what_has_terminated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.engine.session_queries.active_query", lambda spark, query_id: None)
    heard = Heard()
    listener = SessionListener(cast(SparkSession, None), heard)
    listener._thread.start()
    for name in ("a", "b"):
        listener.onQueryStarted(SparkEvent({**STARTED, "runId": f"{name}1", "name": name}))
    listener.onQueryStarted(SparkEvent({**STARTED, "runId": "b2", "name": "b"}))
    for run_id in ("a1", "b1"):
        listener.onQueryTerminated(SparkEvent({"id": "i", "runId": run_id}))
    assert listener.drain(SECONDS)
    # The end of the first start of `b` is no news, and its second one is still known.
    assert heard.log[3:] == ["a ended"]
    assert (listener._names, listener._newest) == ({"b2": "b"}, {"b": "b2"})
    listener.onQueryTerminated(SparkEvent({"id": "i", "runId": "b2"}))
    assert listener.drain(SECONDS)
    assert heard.log[3:] == ["a ended", "b ended"]
    assert (listener._names, listener._newest) == ({}, {})
    listener.close()


def test_what_was_not_told_is_looked_for_every_second_and_when_the_listener_is_drained() -> None:
    looks: list[str] = []
    looked = threading.Event()

    class Looking(Heard):
        def catch_up(self) -> None:
            looks.append(threading.current_thread().name)
            looked.set()

    listener = Looking().listener()
    assert looked.wait(SECONDS)
    before = len(looks)
    assert listener.drain(SECONDS)
    assert len(looks) > before
    listener.close()
    assert set(looks) == {"headwater listener"}
    assert not listener._thread.is_alive()


def test_a_handler_that_hangs_delays_the_end_only_for_a_while() -> None:
    stuck = threading.Event()
    heard = Heard(wait=stuck)
    listener = heard.listener()
    listener.onQueryProgress(progress(0))
    assert not listener.drain(0.05)
    stuck.set()
    assert listener.drain(SECONDS)
    listener.close()
