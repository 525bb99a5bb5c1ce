"""When batches start, judged by the times that Spark reports for them."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.events import Event, QueryIdle, QueryProgress
from headwater.runtime.handles import Run
from tests.pipelines import (
    batches,
    capture,
    captured,
    feed,
    run_to_its_end,
    run_while,
    wait_for,
    write,
)


def begin_ms(batch: QueryProgress) -> int:
    return round(datetime.fromisoformat(batch.progress["timestamp"]).timestamp() * 1000)


def end_ms(batch: QueryProgress) -> int:
    return begin_ms(batch) + int(batch.progress["durationMs"]["triggerExecution"])


UNPACED = """
name: unpaced
sources:
  numbers: {connector: files, path: in, format: json, schema: {x: int}}
sinks:
  numbers: {reads: numbers, connector: foreach_batch, function: "slow.py:numbers"}
"""
# The first batch tells that it runs, and ends when it is let go.
SLOW = """
import threading
from pathlib import Path

import capture

HERE = Path(__file__).parent


def numbers(batch, batch_id):
    capture.keep("numbers", batch, batch_id)
    if batch_id == 0:
        (HERE / "runs").touch()
        wait = threading.Event()
        for _ in range(2400):
            if (HERE / "go").exists():
                return
            wait.wait(0.05)
        raise TimeoutError("nobody let the batch go")
"""


@pytest.mark.feature("E1")
def test_without_a_trigger_the_next_batch_starts_when_the_last_one_ends(
    spark: SparkSession, tmp_path: Path
) -> None:
    capture(tmp_path, "numbers")
    write(tmp_path, SLOW, "slow.py")
    feed(tmp_path / "in", "1", [{"x": 1}])
    events = list[Event]()

    def steer(run: Run) -> None:
        wait_for((tmp_path / "runs").exists, run)
        # These two come while the first batch runs: they wait for its end, and are the next batch together.
        feed(tmp_path / "in", "2", [{"x": 2}])
        feed(tmp_path / "in", "3", [{"x": 3}])
        (tmp_path / "go").touch()
        wait_for(lambda: len(batches(events, "numbers")) == 2, run)

    run_while(write(tmp_path, UNPACED), steer, events)
    first, second = batches(events, "numbers")
    assert captured(tmp_path, "numbers") == [Counter([(1,)]), Counter([(2,), (3,)])]
    assert begin_ms(second) >= end_ms(first)
    # Nothing was looked for and not found between the two.
    assert [type(event) for event in events[events.index(first) : events.index(second)]] == [QueryProgress]


INTERVAL_MS = 2000
PACED = f"""
name: paced
sources:
  numbers: {{connector: files, path: in, format: json, schema: {{x: int}}, max_files_per_batch: 1}}
sinks:
  numbers:
    reads: numbers
    connector: foreach_batch
    function: "late.py:numbers"
    trigger: every {INTERVAL_MS} milliseconds
"""
# The second batch works on until shortly after the next one was due.
LATE = f"""
import threading
import time


def numbers(batch, batch_id):
    if batch_id == 1:
        now = time.time() * 1000
        due = (now // {INTERVAL_MS} + 1) * {INTERVAL_MS}
        threading.Event().wait((due + 50 - now) / 1000)
"""


@pytest.mark.feature("E2")
def test_at_an_interval_early_batches_wait_late_ones_are_followed_at_once_and_none_is_empty(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, LATE, "late.py")
    for number in range(4):
        feed(tmp_path / "in", str(number), [{"x": number}], at=1000 + number)
    events = list[Event]()

    def idle_twice() -> bool:
        last = max((events.index(batch) for batch in batches(events, "numbers")), default=0)
        return sum(isinstance(event, QueryIdle) for event in events[last:]) >= 2

    def steer(run: Run) -> None:
        wait_for(lambda: len(batches(events, "numbers")) == 4, run)
        wait_for(idle_twice, run)

    run_while(write(tmp_path, PACED), steer, events)
    committed = batches(events, "numbers")
    assert [(batch.batch_id, batch.rows_in) for batch in committed] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    due = [(begin_ms(batch) // INTERVAL_MS + 1) * INTERVAL_MS for batch in committed]
    early = [end_ms(batch) < next_due for batch, next_due in zip(committed, due, strict=True)]
    assert early[1] is False
    assert True in early[:3]
    for number in range(3):
        begins, ended = begin_ms(committed[number + 1]), end_ms(committed[number])
        if early[number]:
            # It waits for its turn, though its file was there.
            assert begins >= due[number]
        else:
            # It does not wait for the turn after the one that was missed.
            assert ended <= begins < (ended // INTERVAL_MS + 1) * INTERVAL_MS


ENDING = """
name: ending
sources:
  numbers: {connector: files, path: in, format: json, schema: {x: int}, max_files_per_batch: 1}
sinks:
  at_once: {reads: numbers, connector: foreach_batch, function: "capture.py:at_once", trigger: once}
  in_steps: {reads: numbers, trigger: available now, connector: foreach_batch, function: "capture.py:steps"}
"""


@pytest.mark.feature("E3.1")
def test_once_and_available_now_end_by_themselves(spark: SparkSession, tmp_path: Path) -> None:
    capture(tmp_path, "at_once", "steps")
    for number in range(3):
        feed(tmp_path / "in", str(number), [{"x": number}], at=1000 + number)
    file = write(tmp_path, ENDING)
    first = run_to_its_end(file)
    assert first.exit_code == 0
    assert {name: query.status for name, query in first.queries.items()} == {
        "at_once": "finished",
        "in_steps": "finished",
    }
    steps = [Counter([(number,)]) for number in range(3)]
    assert captured(tmp_path, "at_once") == [sum(steps, Counter())]
    assert captured(tmp_path, "steps") == steps

    feed(tmp_path / "in", "3", [{"x": 3}])
    second, third = run_to_its_end(file), run_to_its_end(file)
    assert captured(tmp_path, "at_once")[1:] == captured(tmp_path, "steps")[3:] == [Counter([(3,)])]
    assert {name: query.rows_in for name, query in second.queries.items()} == {"at_once": 1, "in_steps": 1}
    assert {name: query.status for name, query in third.queries.items()} == {
        "at_once": "finished",
        "in_steps": "finished",
    }
