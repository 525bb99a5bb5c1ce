"""What the process of a script under check tells the one that started it: lines of JSON."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
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
