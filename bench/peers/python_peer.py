"""What the Python peers share: one process per core, and the queries as functions of a bid."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

BID = 2
Row = list[Any]


def q0(bid: dict[str, Any]) -> Row:
    """The bid as it is."""
    return [bid["auction"], bid["bidder"], bid["price"], bid["dateTime"], bid["extra"]]


def q1(bid: dict[str, Any]) -> Row:
    """The bid, with its price in euros."""
    return [bid["auction"], bid["bidder"], 0.908 * bid["price"], bid["dateTime"], bid["extra"]]


def q2(bid: dict[str, Any]) -> Row | None:
    """The price, of bids on some auctions."""
    return [bid["auction"], bid["price"]] if bid["auction"] % 123 == 0 else None


STATELESS: dict[str, Callable[[dict[str, Any]], Row | None]] = {"q0": q0, "q1": q1, "q2": q2}


def moment(text: str) -> datetime:
    """A time of an event; it has no zone in the event."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@dataclass
class Work:
    """What one process has done, with the clock that all processes share."""

    first: float = 0.0
    last: float = 0.0
    cpu: float = 0.0
    events: int = 0
    rows: int = 0
    late: int = 0
    kept: list[Row] = field(default_factory=list)
    _cpu_before: float = 0.0

    def begin(self) -> None:
        """Note the time of the first event."""
        if not self.first:
            self.first, self._cpu_before = time.monotonic(), time.process_time()

    def end(self) -> None:
        """Note the time of the latest event."""
        self.last, self.cpu = time.monotonic(), time.process_time() - self._cpu_before


def run_processes(worker: Callable[[dict[str, str], int], Work], settings: dict[str, str]) -> None:
    """Run a worker per core, and print what all have done; with `rows`, write their rows to that file."""
    cores = int(settings["cores"])
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        done = pool.starmap(worker, [(settings, number) for number in range(cores)])
    busy = [each for each in done if each.events]
    if settings.get("rows"):
        file = Path(settings["rows"], f"{settings['query']}.json")
        file.write_text("".join(json.dumps(["+I", row]) + "\n" for each in done for row in each.kept))
    total = {
        "seconds": max(each.last for each in busy) - min(each.first for each in busy),
        **{name: sum(asdict(each)[name] for each in done) for name in ("cpu", "events", "rows", "late")},
    }
    print(json.dumps(total))
