"""What the process of a script under check tells the one that started it: lines of JSON."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

from headwater.errors import Entry, Problem
from headwater.plan import QueryFacts
from headwater.values import Position


@dataclass(frozen=True)
class Order:
    """What the process is to do."""

    file: str
    arguments: tuple[str, ...]
    seconds: float
    scratch: str
    """The directory in which alone its writes last."""
    network: bool
    """Whether it may use the network."""
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Caught:
    """A query that the script would have started."""

    facts: QueryFacts
    place: Position | None
    problems: tuple[Problem, ...] = ()
    doubts: tuple[Problem, ...] = ()
    """What does not keep it from starting, and is most likely not as meant."""

    def to_json(self) -> dict[str, Any]:
        return {
            "facts": json.loads(self.facts.to_json()),
            "place": asdict(self.place) if self.place else None,
            "problems": [problem_to_json(problem) for problem in self.problems],
            "doubts": [problem_to_json(problem) for problem in self.doubts],
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Caught:
        return cls(
            QueryFacts.from_json(json.dumps(told["facts"])),
            Position(**told["place"]) if told["place"] else None,
            tuple(map(problem_from_json, told["problems"])),
            tuple(map(problem_from_json, told["doubts"])),
        )


class Teller:
    """The script's end of the pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._turn = threading.Lock()

    def tell(self, **message: Any) -> None:
        """One message, whole, before anything else can end the process."""
        line = json.dumps(message, default=str).encode() + b"\n"
        # Several threads may have something to tell, and a long message goes out in pieces.
        with self._turn:
            while line:
                line = line[os.write(self._descriptor, line) :]


def problem_to_json(problem: Problem) -> dict[str, Any]:
    """A problem with all that its words are made of; `Problem.to_json` has only the words."""
    place = problem.place
    return {
        "entry": asdict(problem.entry),
        "params": {key: _plain(value) for key, value in problem.params.items()},
        "place": {"file": place.file, "line": place.line, "column": place.column} if place else None,
        "detail": problem.detail,
    }


def problem_from_json(told: Mapping[str, Any]) -> Problem:
    place = Position(**told["place"]) if told["place"] else None
    return Problem(Entry(**told["entry"]), told["params"], place, told["detail"])


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | None) else str(value)


# The time that a script under check has: Spark's start and the judging of its queries do not count.

STANDSTILL_SECONDS = 600.0
"""For how long the clock may stand at a stretch, should Spark never come up or never answer."""


class Clock:
    """It stands at first; `heard` is told each time that it begins to run or to stand."""

    def __init__(
        self,
        seconds: float,
        heard: Callable[[bool], None] = lambda runs: None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._left, self._heard, self._now = seconds, heard, now
        self._changed = threading.Condition()
        self._holds, self._since = 1, now()

    @property
    def runs(self) -> bool:
        """Whether the script's own time passes."""
        return not self._holds

    def run(self) -> None:
        """Take one hold away; without any it runs."""
        self._hold(-1)

    def stand(self) -> None:
        """Hold it, until there are as many calls of `run`."""
        self._hold(1)

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Hold it for a while; scripts may do so in several threads."""
        self.stand()
        try:
            yield
        finally:
            self.run()

    def left(self) -> float:
        """The seconds until the time is over, if it goes on as now."""
        with self._changed:
            allowed = STANDSTILL_SECONDS if self._holds else self._left
            return allowed - (self._now() - self._since)

    def wait_until_over(self) -> None:
        """Return once no time is left."""
        with self._changed:
            while (left := self.left()) > 0:
                self._changed.wait(left)

    def _hold(self, change: int) -> None:
        with self._changed:
            before, self._holds = self._holds, self._holds + change
            if bool(before) == bool(self._holds):
                return
            if not before:
                self._left -= self._now() - self._since
            self._since = self._now()
            self._heard(not self._holds)
            self._changed.notify_all()
