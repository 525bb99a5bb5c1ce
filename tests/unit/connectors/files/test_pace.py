"""A repeated task that uses a part of the time, whatever its clock does."""

from __future__ import annotations

import pytest

from headwater.connectors.files.pace import Pace


class Clock:
    """A clock that a test sets."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def measured(took: float) -> tuple[Pace, Clock]:
    clock = Clock()
    pace = Pace(clock)
    with pace.measured():
        clock.now += took
    return pace, clock


@pytest.mark.parametrize(
    ("took", "passed", "due"),
    [
        (2.0, 19.9, False),
        (2.0, 20.0, True),
        # The process was suspended, or the clock was set forward.
        (3_600.0, 59.9, False),
        (3_600.0, 60.0, True),
        # The clock was set back, after the task or during it.
        (2.0, -1.0, True),
        (-3_600.0, 0.0, True),
    ],
)
def test_when_it_is_due_again(took: float, passed: float, due: bool) -> None:
    pace, clock = measured(took)
    clock.now += passed
    assert pace.is_due is due


def test_a_task_that_failed_is_measured_too() -> None:
    clock = Clock()
    pace = Pace(clock)

    def fail() -> None:
        with pace.measured():
            clock.now += 1
            raise OSError

    with pytest.raises(OSError):
        fail()
    assert not pace.is_due
