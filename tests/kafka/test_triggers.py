"""Continuous and real-time queries on a real broker: one checkpoint under every kind of trigger."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from headwater.api.check import check
from headwater.dev import Broker
from headwater.dev.topics import add_partitions
from headwater.errors import QueryFailedError
from headwater.events import EpochCommitted, Event, Notice
from headwater.runtime.handles import Run
from tests.messages import produce
from tests.pipelines import LONGEST, run_until_idle, run_while, wait_for, write
from tests.processes import Program, headwater, jvm_of

pytestmark = pytest.mark.usefixtures("context")

PIPELINE = """
name: quick
sources:
  numbers: {{connector: kafka, bootstrap_servers: "{servers}", topic: {incoming}, schema: {{n: int}}}}
tables:
  doubled: SELECT n, n * 2 AS twice FROM numbers WHERE n >= 0
sinks:
  doubled:
    reads: doubled
    connector: kafka
    bootstrap_servers: "{servers}"
    topic: {outgoing}
    value: json
    mode: update
    {trigger}
"""


class Output:
    """A topic of one partition as another client sees it, read on and on."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.numbers: Counter[int] = Counter()

    def look(self) -> Counter[int]:
        """All numbers that have come so far, each with how often; what stands beside them is right."""
        for message in self._consumer.consume(1000, timeout=0.2):
            # While the broker is away there is nothing but errors.
            if message.error() is None:
                row = json.loads(message.value() or b"")
                assert row["twice"] == 2 * row["n"]
                self.numbers[row["n"]] += 1
        return self.numbers

    def until(self, wanted: range) -> set[int]:
        """What has come when all that is wanted has, or when it takes too long."""
        deadline = time.monotonic() + LONGEST.seconds
        while set(self.look()) != set(wanted) and time.monotonic() < deadline:
            pass  # a look waits a little for what comes
        return set(self.numbers)


@contextmanager
def output(servers: str, topic: str) -> Iterator[Output]:
    settings = {"bootstrap.servers": servers, "group.id": topic, "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        yield Output(consumer)
    finally:
        consumer.close()


class Chain:
    """One checkpoint, gone on with under one trigger after another; numbers go in, and come out doubled."""

    def __init__(self, folder: Path, servers: str, incoming: str, outgoing: str, out: Output) -> None:
        self.folder, self.servers, self.incoming, self.outgoing = folder, servers, incoming, outgoing
        self.out = out
        self.sent = 0
        self.events: list[Event] = []

    def file(self, trigger: str = "") -> Path:
        topics = {"incoming": self.incoming, "outgoing": self.outgoing}
        written = f"trigger: {trigger}" if trigger else ""
        return write(self.folder, PIPELINE.format(servers=self.servers, trigger=written, **topics))

    def feed(self, count: int = 10) -> None:
        produce(self.servers, self.incoming, [{"n": n} for n in range(self.sent, self.sent + count)])
        self.sent += count

    def come(self) -> None:
        """Every number that went in has come out."""
        assert self.out.until(range(self.sent)) == set(range(self.sent))

    def complete(self) -> bool:
        """Whether every number that went in has come out."""
        return set(self.out.look()) == set(range(self.sent))

    def batches(self) -> None:
        self.feed()
        assert run_until_idle(self.file(), self.events).exit_code == 0
        self.come()

    def running(self, trigger: str, then: Callable[[Run], None] = lambda run: None) -> None:
        """Rows come out while it runs; it is stopped after that."""

        def steer(run: Run) -> None:
            self.feed()
            wait_for(self.complete, run)
            then(run)

        run_while(self.file(trigger), steer, self.events)

    @contextmanager
    def process(self, trigger: str) -> Iterator[Program]:
        """The same by the command, in a process of its own; what becomes of it is up to the caller."""
        self.file(trigger)
        with headwater(self.folder, "run", "pipeline.yml", "--json", "--master", "local[2]") as run:
            self.feed()
            run.until(self.complete)
            yield run

    @staticmethod
    def epochs_told(run: Program) -> int:
        return sum(each["event"] == "epoch_committed" for each in run.events)

    def epochs(self) -> int:
        return sum(isinstance(each, EpochCommitted) for each in self.events)


@pytest.mark.feature("E4.1")
@pytest.mark.timeout(600)
def test_one_checkpoint_under_every_kind_of_trigger_loses_nothing(
    tmp_path: Path, broker: Broker, make_topic: Callable[..., str]
) -> None:
    incoming, outgoing = make_topic(2), make_topic()
    with output(broker.servers, outgoing) as out:
        chain = Chain(tmp_path, broker.servers, incoming, outgoing, out)

        def an_epoch_more(run: Run) -> None:
            seen = chain.epochs()
            wait_for(lambda: chain.epochs() > seen, run)

        chain.batches()
        with chain.process("continuous 1 second") as run:
            seen = chain.epochs_told(run)
            run.until(lambda: chain.epochs_told(run) > seen + 1)
            run.signal(signal.SIGTERM)
            assert run.wait() == 0, run.told
            # What Spark and Kafka say when tasks are ended stays in the log.
            assert not re.search("WARN|ERROR|Exception|warning", run.stderr), run.told
            (ended,) = (each["queries"] for each in run.events if each["event"] == "run_finished")
            assert ended["doubled"]["status"] == "stopped"
            assert ended["doubled"]["batch"] > 1
        once = set(range(chain.sent))
        chain.batches()
        with chain.process("continuous 1 second") as run:
            os.kill(jvm_of(tmp_path, "doubled").pid, signal.SIGKILL)
            run.signal(signal.SIGKILL)
            run.wait()
        chain.running("real time 5 seconds")
        chain.batches()
        chain.running("continuous 1 second", an_epoch_more)
        rows = out.look()
    assert set(rows) == set(range(chain.sent))
    # After the epoch that noted them, the first rows never came again.
    assert {n for n, count in rows.items() if count > 1}.isdisjoint(once)
    notices = [each for each in chain.events if isinstance(each, Notice)]
    told = [each.text for each in notices if each.code == "HW-TRIGGER-CONVERTED"]
    assert [text.partition(". ")[0] for text in told[:2]] == [
        "doubled: converted the checkpoint to batches"
    ] * 2
    assert all(Path(text.rpartition(" ")[2].removesuffix("."), "offsets").is_dir() for text in told)


REFUSED = """
name: refused
sources:
  one: {{connector: kafka, bootstrap_servers: "{servers}", topic: {one}, schema: {{n: int}}}}
  wide: {{connector: kafka, bootstrap_servers: "{servers}", topic: {wide}, schema: {{n: int}}}}
  limited: {{connector: kafka, bootstrap_servers: "{servers}", topic: {one}, schema: {{n: int}}, max_rows_per_batch: 9}}
tables:
  counts: SELECT n, count(*) AS times FROM one GROUP BY n
  timed: SELECT n, current_timestamp() AS now FROM one
sinks:
"""
TO_KAFKA = "connector: kafka, bootstrap_servers: '{servers}', topic: {out}, value: json"
CONTINUOUS, REAL_TIME = "continuous 1 second", "real time 5 minutes"
SINKS = {
    "fine": ("one", TO_KAFKA, CONTINUOUS, None),
    "rt_fine": ("timed", TO_KAFKA, REAL_TIME, None),
    "counted": ("counts", TO_KAFKA, CONTINUOUS, "HW-CONTINUOUS-UNSUPPORTED"),
    "rt_counted": ("counts", TO_KAFKA, REAL_TIME, "HW-REAL-TIME-UNSUPPORTED"),
    "timed": ("timed", TO_KAFKA, CONTINUOUS, "HW-CONTINUOUS-TIME-UNSUPPORTED"),
    "marked": ("one", f"{TO_KAFKA}, dedup_headers: true", CONTINUOUS, "HW-KAFKA-DEDUP-TRIGGER-UNSUPPORTED"),
    "rt_marked": ("one", f"{TO_KAFKA}, dedup_headers: true", REAL_TIME, "HW-KAFKA-DEDUP-TRIGGER-UNSUPPORTED"),
    "kept": ("one", "connector: files, path: kept, format: json", CONTINUOUS, "HW-TRIGGER-SINK-UNSUPPORTED"),
    "own": (
        "one",
        "connector: foreach_batch, function: 'out.py:write'",
        CONTINUOUS,
        "HW-TRIGGER-SINK-UNSUPPORTED",
    ),
    "rt_own": (
        "one",
        "connector: foreach_batch, function: 'out.py:write'",
        REAL_TIME,
        "HW-TRIGGER-SINK-UNSUPPORTED",
    ),
    "limited": ("limited", TO_KAFKA, CONTINUOUS, "HW-OPTION-IGNORED-BY-TRIGGER"),
    "rt_limited": ("limited", TO_KAFKA, REAL_TIME, "HW-OPTION-IGNORED-BY-TRIGGER"),
    "wide": ("wide", TO_KAFKA, CONTINUOUS, "HW-CORES-MISSING"),
    "rt_wide": ("wide", TO_KAFKA, REAL_TIME, "HW-CORES-MISSING"),
    "rt_short": ("one", TO_KAFKA, "real time 1 second", "HW-REAL-TIME-INTERVAL"),
    "rt_append": ("one", f"{TO_KAFKA}, mode: append", REAL_TIME, "HW-REAL-TIME-MODE-UNSUPPORTED"),
}


@pytest.mark.feature("E4.2", part="on Kafka")
@pytest.mark.feature("E5", part="what it can't do is refused before the start")
def test_what_can_not_run_so_is_refused_before_the_start(
    tmp_path: Path, broker: Broker, make_topic: Callable[..., str]
) -> None:
    names = {
        "servers": broker.servers,
        "one": make_topic(),
        "wide": make_topic(3),
        "out": make_topic(),
    }
    lines = [REFUSED.format(**names)]
    for sink, (reads, written, trigger, _) in SINKS.items():
        mode = "" if "mode:" in written or "files" in written else ", mode: update"
        lines.append(f"  {sink}: {{reads: {reads}, {written.format(**names)}{mode}, trigger: {trigger}}}\n")
    write(tmp_path, "def write(batch, number):\n    pass\n", "out.py")
    found = [each for each in check(write(tmp_path, "".join(lines))).findings if each.is_error]
    assert {(each.sink, each.problem.code) for each in found} == {
        (sink, code) for sink, (_, _, _, code) in SINKS.items() if code
    }
    assert all(each.problem.place is not None for each in found)
    few = [each.problem.params for each in found if each.problem.code == "HW-CORES-MISSING"]
    assert [(params["slots"], params["cores"]) for params in few] == [(3, 2), (3, 2)]


AT_ONCE = """
  at_once:
    reads: doubled
    connector: kafka
    bootstrap_servers: "{servers}"
    topic: {at_once}
    value: json
    mode: update
    {real_time}
"""


@pytest.mark.feature("E5")
@pytest.mark.timeout(600)
def test_both_outlive_the_broker_are_stopped_when_it_outgrows_them_and_go_on_in_batches(
    tmp_path: Path, broker: Broker, make_topic: Callable[..., str]
) -> None:
    names = {"servers": broker.servers, "incoming": make_topic()}
    names |= {"outgoing": make_topic(), "at_once": make_topic()}
    quick = {"trigger": "trigger: continuous 1 second", "real_time": "trigger: real time 5 seconds"}
    batches = {"trigger": "", "real_time": ""}
    events: list[Event] = []
    with (
        output(broker.servers, names["outgoing"]) as first,
        output(broker.servers, names["at_once"]) as second,
    ):

        def feed(numbers: range) -> None:
            produce(broker.servers, names["incoming"], [{"n": n} for n in numbers])

        def complete(count: int) -> bool:
            return all(set(out.look()) == set(range(count)) for out in (first, second))

        def steer(run: Run) -> None:
            feed(range(10))
            wait_for(lambda: complete(10), run)
            broker.kill()
            broker.start()
            feed(range(10, 20))
            wait_for(lambda: complete(20), run)
            wait_for(lambda: any(isinstance(each, EpochCommitted) for each in events), run)
            # Each has a core for the one partition, and none for a second one.
            add_partitions(broker.servers, names["incoming"], 2)
            assert run.wait(LONGEST.seconds)

        with pytest.raises(QueryFailedError) as failed:
            run_while(write(tmp_path, (PIPELINE + AT_ONCE).format(**names, **quick)), steer, events)
        assert [problem.code for problem in failed.value.problems] == ["HW-KAFKA-TOO-FEW-CORES"] * 2
        feed(range(20, 30))
        # No batch has ever run for `doubled`: Spark's settings for one are made anew.
        assert run_until_idle(write(tmp_path, (PIPELINE + AT_ONCE).format(**names, **batches))).exit_code == 0
        for out in (first, second):
            assert out.until(range(30)) == set(range(30))
