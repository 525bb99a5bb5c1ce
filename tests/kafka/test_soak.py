"""Spark, the command and the broker are killed again and again: every row arrives as the guarantee promises."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from headwater.checkpoint import LocalStore, SinkLog
from headwater.dev import Broker
from tests.messages import consume, produce
from tests.pipelines import committed, write
from tests.processes import Program, headwater, lock_of

PIPELINE = """
name: soak
restart: {{attempts: 1000, backoff: 200 ms, max_backoff: 2 seconds}}
spark: {{spark.master: "local[2]"}}
sources:
  numbers:
    connector: kafka
    bootstrap_servers: {servers}
    topic: {incoming}
    schema: {{id: int}}
    options: {{kafka.default.api.timeout.ms: 4000, kafka.request.timeout.ms: 2000}}
sinks:
  filed: {{reads: numbers, connector: files, path: filed, format: json}}
  sent:
    reads: numbers
    connector: kafka
    bootstrap_servers: {servers}
    topic: {outgoing}
    value: json
    options: {{kafka.delivery.timeout.ms: 4000, kafka.request.timeout.ms: 2000, kafka.max.block.ms: 4000}}
"""
MINUTES = float(os.environ.get("HEADWATER_SOAK_MINUTES", "10"))
START_FAILURES = ("HW-JVM-START-FAILED", "HW-KAFKA-UNREACHABLE")
"""How a start fails while Spark or the broker dies."""
LONGEST_PAUSE = 10.0
"""How long the soak waits at most before it kills again, in seconds."""


class Soak:
    """A run that is started again whenever it was killed, while a producer sends one number after the other."""

    def __init__(self, folder: Path, broker: Broker, incoming: str, lives: ExitStack) -> None:
        self.folder, self.broker, self.incoming, self._lives = folder, broker, incoming, lives
        self.run = self._start()

    def _start(self) -> Program:
        run: Program = self._lives.enter_context(headwater(self.folder, "run", "pipeline.yml"))
        return run

    def kill(self, victim: str) -> None:
        """Kill one of the three. The run starts Spark again; the other two are started here."""
        if victim == "broker":
            self.broker.kill()
            self.broker.start()
        elif victim == "jvm":
            owner = lock_of(self.folder, "filed")
            if owner is not None and owner.jvm is not None and owner.jvm.alive:
                os.kill(owner.jvm.pid, signal.SIGKILL)
        else:
            self.run.process.kill()
            self.run.wait()
            self.run = self._start()

    def pass_time(self, seconds: float) -> None:
        """Start the command again whenever its start fails, as a service manager does."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.run.process.poll() is not None:
                assert any(f"error {code}\n" in self.run.stderr for code in START_FAILURES), self.run.told
                self.run = self._start()
            time.sleep(0.05)

    def until_further(self, batches: int = 2) -> None:
        """Wait until some more batches are written."""
        before = self.newest
        self.run.until(lambda: self.newest >= before + batches)

    @property
    def newest(self) -> int:
        last = SinkLog(LocalStore(self.folder / "filed")).last_batch
        return -1 if last is None else last

    @contextmanager
    def producer(self) -> Iterator[None]:
        """Send numbers until the end of the block. What was sent once is in the topic once."""
        over = threading.Event()

        def send() -> None:
            first = 0
            while not over.wait(0.1):
                numbers = [{"id": number} for number in range(first, first + 20)]
                produce(self.broker.servers, self.incoming, numbers, enable_idempotence="true")
                first += 20

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield
        finally:
            over.set()
            sender.join()


def three(soak: Soak) -> None:
    """Each is killed once, while batches run."""
    for victim in ("jvm", "broker", "python"):
        soak.until_further()
        soak.kill(victim)
    soak.until_further()


def many(soak: Soak) -> None:
    """Any of them is killed at any time, also while it starts."""
    chance = random.Random(int(os.environ.get("HEADWATER_SOAK", "1")))
    end = time.monotonic() + MINUTES * 60
    while time.monotonic() < end:
        soak.pass_time(chance.uniform(0, LONGEST_PAUSE))
        soak.kill(chance.choice(("jvm", "broker", "python")))
    soak.pass_time(30)
    soak.until_further()


@pytest.mark.feature("H1.1", part="Spark, the command and the broker, with a files and a Kafka sink")
@pytest.mark.parametrize("kills", [three, pytest.param(many, marks=pytest.mark.soak)])
@pytest.mark.timeout(MINUTES * 60 + 600)
def test_every_row_arrives(
    tmp_path: Path, mortal: Broker, make_topic: Callable[..., str], kills: Callable[[Soak], None]
) -> None:
    incoming, outgoing = make_topic(), make_topic()
    write(tmp_path, PIPELINE.format(servers=mortal.servers, incoming=incoming, outgoing=outgoing))
    filed, sent = Counter[int](), Counter[int]()
    with ExitStack() as lives:
        soak = Soak(tmp_path, mortal, incoming, lives)
        with soak.producer():
            kills(soak)
        right = Counter(record.json["id"] for record in consume(mortal.servers, incoming))

        def is_done() -> bool:
            nonlocal filed, sent
            filed = committed(tmp_path / "filed")
            sent = Counter(record.json["id"] for record in consume(mortal.servers, outgoing))
            return filed.total() >= right.total() and sent.keys() >= right.keys()

        soak.run.until(is_done)
        soak.run.signal(signal.SIGTERM)
        assert soak.run.wait() == 0, soak.run.told
    assert right == Counter(range(len(right)))
    assert committed(tmp_path / "filed") == right
    assert sent.keys() == right.keys()
