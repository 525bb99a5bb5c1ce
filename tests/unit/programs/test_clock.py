"""What counts of the time that a script has."""

from __future__ import annotations

import threading

from headwater.programs.script import STANDSTILL_SECONDS, Clock


class Hand:
    """The time, moved by hand."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def test_only_the_scripts_own_time_counts() -> None:
    now, heard = Hand(), list[bool]()
    clock = Clock(60, heard.append, now)
    now.at += 50
    assert (clock.left(), clock.runs) == (STANDSTILL_SECONDS - 50, False)
    clock.run()
    now.at += 20
    assert (clock.left(), clock.runs) == (40, True)
    with clock.standing():
        now.at += 90
        with clock.standing():
            now.at += 90
        assert (clock.left(), clock.runs) == (STANDSTILL_SECONDS - 180, False)
    assert clock.left() == 40
    now.at += 41
    assert clock.left() == -1
    assert heard == [True, False, True]


def test_a_clock_may_not_stand_for_ever() -> None:
    now = Hand()
    clock = Clock(60, now=now)
    now.at += STANDSTILL_SECONDS
    assert clock.left() == 0
    clock.wait_until_over()


def test_who_waits_hears_of_a_change() -> None:
    clock, over = Clock(0), threading.Event()

    def wait() -> None:
        clock.wait_until_over()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    assert not over.is_set()
    clock.run()
    assert over.wait(60)
