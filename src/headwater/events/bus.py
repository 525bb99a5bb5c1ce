"""Passes events on to consumers, each with its own bounded queue and thread.

No consumer can slow a query or another consumer. If a queue is full, the consumer misses events, and it can lose
others itself, such as on a full disk. All of them are counted, and reported to all consumers with `EventsDropped`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from headwater.errors.catalogue.running import EVENTS_DROPPED
from headwater.events.kinds import Event, EventsDropped, QueryIdle

_LOG = logging.getLogger("headwater")
CAPACITY = 10_000
"""How many events may wait for a consumer."""
_CLOSE_SECONDS = 5.0
_REPORT_SECONDS = 1.0
_JOIN_SECONDS = 0.5


class Consumer:
    """One consumer with its queue."""

    def __init__(
        self,
        name: str,
        consume: Callable[[Event], None],
        capacity: int = CAPACITY,
        tick: Callable[[], None] | None = None,
        seconds: float = 1.0,
        lost: Callable[[], int] = lambda: 0,
    ) -> None:
        self.name = name
        self._consume = consume
        self._lost, self._lost_before = lost, 0
        self._capacity = capacity
        self._tick, self._seconds = tick, seconds
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._busy = False
        self._dropped = 0
        self._thread = threading.Thread(target=self._work, name=f"headwater {name}", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        """Queue an event; if the queue is full, drop it."""
        with self._changed:
            if self._closed:
                return
            if len(self._events) >= self._capacity:
                # That it missed events is reported again after those that it misses now.
                self._dropped += not isinstance(event, EventsDropped)
                return
            # Idle queries poll several times a second; a consumer that is behind needs only the newest.
            if isinstance(event, QueryIdle) and self._events and _same_idle(self._events[-1], event):
                self._events.pop()
            self._events.append(event)
            self._changed.notify_all()

    def take_dropped(self) -> int:
        """How many events it has missed since the last call."""
        with self._changed:
            lost = self._lost()
            dropped, self._dropped = self._dropped + lost - self._lost_before, 0
            self._lost_before = lost
            return dropped

    def drain(self, deadline: float) -> bool:
        """Wait until the queue is empty; False if it is not at `deadline`."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._events and not self._busy, max(0.0, deadline - time.monotonic())
            )

    def close(self) -> None:
        """Take no more events; what is still queued is dropped."""
        with self._changed:
            self._closed = True
            self._dropped += sum(not isinstance(event, EventsDropped) for event in self._events)
            self._events.clear()
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_SECONDS)

    def _work(self) -> None:
        due = time.monotonic() + self._seconds
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                wait = max(0.0, due - time.monotonic()) if self._tick else None
                self._changed.wait_for(lambda: self._events or self._closed, wait)
                if self._closed:
                    return
                event = self._events.popleft() if self._events else None
                self._busy = event is not None
            try:
                if event is not None:
                    self._consume(event)
                if self._tick and time.monotonic() >= due:
                    due = time.monotonic() + self._seconds
                    self._tick()
            except Exception:  # noqa: BLE001 - a consumer is foreign code: whatever it raises is logged
                _LOG.exception("%s failed%s", self.name, f" at {event.kind}" if event else "")


def _same_idle(before: Event, event: QueryIdle) -> bool:
    return isinstance(before, QueryIdle) and before.query == event.query


class EventBus:
    """Receives the events of a run, and passes each on to every consumer."""

    def __init__(self, report: Callable[[Event], None] = lambda event: None) -> None:
        """`report` also receives each `EventsDropped`."""
        self._report = report
        self._consumers: list[Consumer] = []
        self._report_due = 0.0
        self._logged: set[str] = set()

    def add(
        self,
        name: str,
        consume: Callable[[Event], None],
        capacity: int = CAPACITY,
        tick: Callable[[], None] | None = None,
        seconds: float = 1.0,
        lost: Callable[[], int] = lambda: 0,
    ) -> Consumer:
        """Pass every later event on to a consumer; `tick` is called every `seconds` on the same thread.

        `lost` returns how many events the consumer has received so far, but could not write or send.
        """
        consumer = Consumer(name, consume, capacity, tick, seconds, lost)
        self._consumers = [*self._consumers, consumer]
        return consumer

    def remove(self, consumer: Consumer) -> None:
        """Pass no more events on to a consumer."""
        consumer.close()
        self.report_dropped()
        self._consumers = [each for each in self._consumers if each is not consumer]

    def __call__(self, event: Event, /) -> None:
        for consumer in self._consumers:
            consumer.put(event)
        if time.monotonic() >= self._report_due:
            self._report_due = time.monotonic() + _REPORT_SECONDS
            self.report_dropped()

    def report_dropped(self) -> None:
        """Report what consumers have missed since the last report; logged once for each of them."""
        for consumer in self._consumers:
            dropped = consumer.take_dropped()
            if dropped:
                event = EventsDropped(consumer=consumer.name, dropped=dropped)
                self._report(event)
                for each in self._consumers:
                    each.put(event)
                if consumer.name not in self._logged:
                    self._logged.add(consumer.name)
                    _LOG.warning("%s", EVENTS_DROPPED.at(None, consumer=consumer.name))

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Wait until every consumer has handled what is queued, `seconds` at most, and end their threads.

        What is still queued then is dropped.
        """
        deadline = time.monotonic() + seconds
        self.report_dropped()
        for consumer in self._consumers:
            consumer.drain(deadline)
        for consumer in self._consumers:
            consumer.close()
        self.report_dropped()
