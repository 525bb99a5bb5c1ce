"""The client of the latency benchmark: sends events at a rate, and times the rows that come back."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from confluent_kafka import Consumer, Producer, TopicPartition

from headwater.dev.topics import partitions

ROW_SECONDS = 60.0
"""How long a row may take before the run fails."""
_POLL_SECONDS = 0.05


class RowsMissing(Exception):
    """Not every event came back as a row."""


class Client:
    """A producer of one topic and a consumer of another, in one process, so that both read the same clock."""

    def __init__(self, servers: str, incoming: str, outgoing: str) -> None:
        self._topic = incoming
        # Each message leaves immediately.
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "acks": 1, "log_level": 0})
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": outgoing, "enable.auto.commit": False, "log_level": 0}
        )
        self._consumer.assign([TopicPartition(outgoing, n, 0) for n in range(partitions(servers)[outgoing])])
        self._sent = 0
        self._nanoseconds: dict[int, int] = {}
        self._closing = threading.Event()
        self._failure: Exception | None = None
        self._reader = threading.Thread(target=self._read, name="rows")

    def __enter__(self) -> Client:
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._reader.join()
        self._consumer.close()
        self._producer.flush(ROW_SECONDS)

    def send(self, rate: float, seconds: float) -> range:
        """Send events at a rate. Returns their numbers."""
        first, number, began = self._sent, round(rate * seconds), time.monotonic()
        for each in range(number):
            delay = began + each / rate - time.monotonic()
            if delay > 0:
                time.sleep(delay)
            self._send_one()
        return range(first, self._sent)

    def first_row(self, rate: float, check: Callable[[], None], seconds: float) -> None:
        """Send events until the first row arrives; `check` raises an error if the job has ended."""
        deadline = time.monotonic() + seconds
        while not self._nanoseconds:
            check()
            if time.monotonic() > deadline:
                raise RowsMissing(f"no row within {seconds:g} s")
            self.send(rate, 0.1)

    def latencies(self, numbers: range, check: Callable[[], None]) -> list[float]:
        """The milliseconds from sending each event to reading its row; waits until all rows are there."""
        deadline = time.monotonic() + ROW_SECONDS
        while missing := [each for each in numbers if each not in self._nanoseconds]:
            check()
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > deadline:
                raise RowsMissing(
                    f"{len(missing)} of {len(numbers)} rows did not arrive in {ROW_SECONDS:g} s"
                )
            time.sleep(_POLL_SECONDS)
        return [self._nanoseconds[each] / 1e6 for each in numbers]

    def _send_one(self) -> None:
        event = {"id": self._sent, "sent": time.time_ns(), "price": self._sent % 1000 / 8}
        self._producer.produce(self._topic, json.dumps(event).encode())
        self._producer.poll(0)
        self._sent += 1

    def _read(self) -> None:
        try:
            while not self._closing.is_set():
                message = self._consumer.poll(_POLL_SECONDS)
                now = time.time_ns()
                if message is not None and message.error() is None:
                    row = json.loads(message.value() or b"{}")
                    # If a row is repeated, its first arrival counts.
                    self._nanoseconds.setdefault(row["id"], now - row["sent"])
        except (ValueError, KeyError) as error:
            self._failure = error


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least this share of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]
