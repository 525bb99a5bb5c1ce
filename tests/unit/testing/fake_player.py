"""A player without Spark: the name of a test says how it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import ClassVar

import pytest

from headwater.testing.results import StepTrace, TestResult
from headwater.testing.steps import Test
from tests.unit.testing.played_results import at, batch, failed, refused, result, step

MODULE = "headwater.testing.test_runner"


class FakePlayer:
    """Remembers what it played; `fails`, `refused` and `waits` in a name end the test that way."""

    made: ClassVar[list[FakePlayer]] = []

    def __init__(
        self, conf: Mapping[str, str], say: Callable[[str], None], limit: float | None = None
    ) -> None:
        self.conf, self.limit = dict(conf), limit
        self.played: list[Test] = []
        self.closed = False
        FakePlayer.made.append(self)

    def play(self, test: Test, on_step: Callable[[StepTrace], None] = lambda trace: None) -> TestResult:
        assert not self.closed
        self.played.append(test)
        print("printed by the user's code")  # noqa: T201
        given = self._result(test.name)
        for trace in given.steps:
            on_step(trace)
        return replace(given, name=test.name, file=test.file, place=test.place)

    def close(self) -> None:
        self.closed = True

    def _result(self, name: str) -> TestResult:
        if "fails" in name:
            return failed()
        if "refused" in name:
            return refused()
        idle = {"joined": ("clicks",)} if "waits" in name else {}
        return result(step(1, batches={"joined": (batch(0),)}, watermarks={"joined": at(11, 57)}, idle=idle))


def put_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `headwater test` and the plugin find this player."""
    module = ModuleType(MODULE)
    module.TestRunner = FakePlayer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULE, module)
    FakePlayer.made.clear()
