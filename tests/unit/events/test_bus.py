"""Consumers of events: each on its own thread, with a queue that can be full."""

from __future__ import annotations

import threading
import time

import pytest

from headwater.events import Event, EventsDropped, Notice, QueryIdle
from headwater.events.bus import EventBus

SECONDS = 20.0


def notice(number: int) -> Notice:
    return Notice(code="HW-NOTICE", message=str(number))


def test_each_consumer_receives_every_event_in_order() -> None:
    bus, first, second = EventBus(), list[Event](), list[Event]()
    bus.add("first", first.append)
    bus.add("second", second.append)
    sent = [notice(number) for number in range(100)]
    for event in sent:
        bus(event)
    bus.close(SECONDS)
    assert first == second == sent


def test_a_slow_consumer_delays_nobody_and_its_losses_are_reported() -> None:
    reports, fast, slow, go_on = list[Event](), list[Event](), list[Event](), threading.Event()
    bus = EventBus(reports.append)

    def wait(event: Event) -> None:
        assert go_on.wait(SECONDS)
        slow.append(event)

    bus.add("slow", wait, capacity=3)
    bus.add("fast", fast.append)
    began = time.monotonic()
    for number in range(50):
        bus(notice(number))
    assert time.monotonic() - began < SECONDS / 2
    go_on.set()
    bus.close(SECONDS)
    assert [each.message for each in fast if isinstance(each, Notice)] == [str(n) for n in range(50)]
    reported = sum(each.dropped for each in fast if isinstance(each, EventsDropped))
    assert reports == [each for each in fast if isinstance(each, EventsDropped)]
    received = sum(isinstance(each, Notice) for each in slow)
    assert {each.consumer for each in fast if isinstance(each, EventsDropped)} == {"slow"}
    assert received + reported == 50
    assert 3 <= received <= 4


def test_what_a_consumer_could_not_write_is_reported_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reports, seen, lost = list[Event](), list[Event](), 0
    bus = EventBus(reports.append)
    bus.add("history", lambda event: None, lost=lambda: lost)
    bus.add("seen", seen.append)
    bus.report_dropped()
    assert reports == []
    lost = 3
    bus.report_dropped()
    bus.report_dropped()
    lost = 5
    bus.close(SECONDS)
    assert [(each.consumer, each.dropped) for each in reports if isinstance(each, EventsDropped)] == [
        ("history", 3),
        ("history", 2),
    ]
    assert seen == reports
    assert [record.message.partition(": ")[0] for record in caplog.records] == ["HW-EVENTS-DROPPED"]
    assert "Events are missing in history" in caplog.text


def test_what_is_still_queued_at_the_end_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    reports, began, go_on = list[Event](), threading.Event(), threading.Event()
    bus = EventBus(reports.append)

    def wait(event: Event) -> None:
        began.set()
        assert go_on.wait(SECONDS)

    bus.add("webhook", wait)
    bus(notice(0))
    assert began.wait(SECONDS)
    for number in range(4):
        bus(notice(number))
    bus.close(0.01)
    go_on.set()
    assert [(each.consumer, each.dropped) for each in reports if isinstance(each, EventsDropped)] == [
        ("webhook", 4)
    ]
    assert [record.message.partition(": ")[0] for record in caplog.records] == ["HW-EVENTS-DROPPED"]


def test_a_consumer_that_raises_receives_the_next_event(caplog: pytest.LogCaptureFixture) -> None:
    bus, seen = EventBus(), list[Event]()

    def consume(event: Event) -> None:
        seen.append(event)
        raise RuntimeError("no")

    bus.add("broken", consume)
    bus(notice(1))
    bus(notice(2))
    bus.close(SECONDS)
    assert [each.message for each in seen if isinstance(each, Notice)] == ["1", "2"]
    assert [record.message for record in caplog.records] == ["broken failed at notice"] * 2


def test_only_the_newest_of_repeated_idle_events_waits() -> None:
    bus, seen, go_on, began = EventBus(), list[Event](), threading.Event(), threading.Event()

    def consume(event: Event) -> None:
        began.set()
        assert go_on.wait(SECONDS)
        seen.append(event)

    bus.add("slow", consume)
    bus(notice(0))
    assert began.wait(SECONDS)
    polls = [QueryIdle(query="a", started_at=str(number)) for number in range(20)]
    for poll in polls:
        bus(poll)
    bus(QueryIdle(query="b"))
    go_on.set()
    bus.close(SECONDS)
    assert [(each.query, each.started_at) for each in seen if isinstance(each, QueryIdle)] == [
        ("a", "19"),
        ("b", ""),
    ]


def test_a_tick_comes_between_events_on_the_same_thread() -> None:
    bus, threads, ticked = EventBus(), set[str](), threading.Event()

    def tick() -> None:
        threads.add(threading.current_thread().name)
        ticked.set()

    bus.add("health", lambda event: threads.add(threading.current_thread().name), tick=tick, seconds=0.01)
    bus(notice(1))
    assert ticked.wait(SECONDS)
    bus.close(SECONDS)
    assert threads == {"headwater health"}


def test_what_is_removed_receives_nothing_more() -> None:
    bus, seen = EventBus(), list[Event]()
    consumer = bus.add("short", seen.append)
    bus(notice(1))
    assert consumer.drain(time.monotonic() + SECONDS)
    bus.remove(consumer)
    bus(notice(2))
    bus.close(SECONDS)
    assert [each.message for each in seen if isinstance(each, Notice)] == ["1"]
