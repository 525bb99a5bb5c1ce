"""Signals that ask for a stop."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from headwater.runtime.signals import Signals, StopRequested

ASKING = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.mark.parametrize("number", ASKING)
def test_a_signal_asks_for_a_stop(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Signals() as signals:
        signals.check_cancelled()
        signal.raise_signal(number)
        assert (signals.stop, signals.forced) == (number.name, False)
        with pytest.raises(StopRequested):
            signals.check_cancelled()
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(("second", "forced"), [(signal.SIGHUP, False), (signal.SIGINT, True)])
def test_only_a_second_interrupt_forces(second: signal.Signals, forced: bool) -> None:
    with Signals() as signals:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(second)
        assert (signals.stop, signals.forced) == ("SIGHUP", forced)


def test_a_second_interrupt_ends_a_start_that_hangs_and_not_its_way_out() -> None:
    with Signals() as signals, signals.interruptible():
        signal.raise_signal(signal.SIGINT)
        assert (signals.stop, signals.forced) == ("SIGINT", False)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert signals.forced
        signal.raise_signal(signal.SIGINT)


def test_a_second_sigterm_does_not_interrupt_a_start() -> None:
    with Signals() as signals, signals.interruptible():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert not signals.forced


def test_nohup_keeps_its_meaning() -> None:
    program = """
import signal
from headwater.runtime.signals import Signals
with Signals() as signals:
    signal.raise_signal(signal.SIGHUP)
    print(repr(signals.stop))
"""
    done = subprocess.run(
        ["nohup", sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "''\n"
