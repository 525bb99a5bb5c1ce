from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headwater.spark.callbacks import StepClock

LIMIT = 10.0


@contextmanager
def waiting(clock: StepClock, trigger: Callable[[], bool]) -> Iterator[threading.Thread]:
    """A thread that does what Spark's executor of triggers does: a trigger, then a wait at the clock."""

    def loop() -> None:
        while trigger():
            clock.waitTillTime(clock.getTimeMillis() + 1)

    thread = threading.Thread(target=loop)
    thread.start()
    yield thread
    clock.open()
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_one_tick_is_one_trigger_and_time_stands_still() -> None:
    clock, seen, ended = StepClock(5_000), list[int](), threading.Event()

    def trigger() -> bool:
        seen.append(clock.getTimeMillis())
        return not ended.is_set()

    with waiting(clock, trigger) as thread:
        assert clock.await_waiting(thread.is_alive, LIMIT)
        for _ in range(3):
            clock.tick()
            assert clock.await_waiting(thread.is_alive, LIMIT)
        assert seen == [5_000] * 4
        clock.milliseconds += 7
        clock.tick()
        assert clock.await_waiting(thread.is_alive, LIMIT)
        assert seen[-1] == 5_007
        assert clock.nanoTime() == 5_007_000_000
        ended.set()


def test_a_query_that_died_is_not_waited_for() -> None:
    clock = StepClock(0)
    dead = threading.Thread(target=lambda: None)
    dead.start()
    dead.join(LIMIT)
    assert not clock.await_waiting(dead.is_alive, LIMIT)


def test_a_trigger_that_does_not_end_is_given_up() -> None:
    clock = StepClock(0)
    with pytest.raises(TimeoutError):
        clock.await_waiting(lambda: True, 0.2)
