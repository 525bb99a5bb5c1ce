"""The demo: writes orders to work/arrivals/ and runs pipeline.yml on them until you press Ctrl-C.

Arguments are passed to `headwater run`, for example `--for=60s`. The contents of a file depend only on its
number, and files appear atomically. After a stop or a crash, the feeder continues with the next number.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from headwater.cli.main import main as headwater

HERE = Path(__file__).resolve().parent
ARRIVALS = HERE / "work" / "arrivals"

SEED = 2026
START = datetime(2026, 1, 1, 8, tzinfo=UTC)
SPAN = timedelta(seconds=20)  # of event time in one file
LATE = timedelta(seconds=20)
PAUSE_SECONDS = 1.0  # between two files: event time runs twenty times as fast as the clock
ORDERS = 100
TOO_LATE_FROM, TOO_LATE_EVERY = 15, 5

NUMBERED = re.compile(r"orders-(\d{7})\.json")


def arrivals(number: int) -> list[dict[str, Any]]:
    """The rows of one file: new orders, some duplicates, and sometimes an order from the day before."""
    chance = random.Random(f"{SEED} arrivals {number}")
    rows = new_orders(number)
    if number:
        rows += chance.sample(new_orders(number - 1), chance.randint(1, 5))
    rows += chance.sample(rows, 3)
    if number >= TOO_LATE_FROM and number % TOO_LATE_EVERY == 0:
        rows.append(_order(f"{number:07}-late", START + number * SPAN - timedelta(days=1), chance))
    chance.shuffle(rows)
    return rows


def new_orders(number: int) -> list[dict[str, Any]]:
    """The new orders of a file; one in ten is older than the others."""
    chance = random.Random(f"{SEED} orders {number}")
    return [
        _order(f"{number:07}-{place:03}", START + number * SPAN + _moment(chance), chance)
        for place in range(ORDERS)
    ]


def _moment(chance: random.Random) -> timedelta:
    moment = chance.random() * SPAN
    return moment - chance.random() * LATE if chance.random() < 0.1 else moment


def _order(name: str, at: datetime, chance: random.Random) -> dict[str, Any]:
    moment = at.isoformat(timespec="milliseconds")
    return {
        "order_id": name,
        "at": moment,
        "product_id": chance.randint(1, 10),
        "quantity": chance.randint(1, 4),
    }


def write(folder: Path, number: int) -> None:
    """Write one file atomically, because Spark reads a file once, as soon as it appears."""
    name = f"orders-{number:07}.json"
    part = folder / f".{name}.part"
    part.write_text("".join(json.dumps(row) + "\n" for row in arrivals(number)), encoding="utf-8")
    os.replace(part, folder / name)


def numbers(folder: Path) -> Iterator[int]:
    """The numbers of the existing files."""
    for file in folder.iterdir():
        match = NUMBERED.fullmatch(file.name)
        if match:
            yield int(match[1])


class Feeder:
    """A daemon thread that writes a file each second."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.first = max(numbers(folder), default=-1) + 1
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder", daemon=True)

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _feed(self) -> None:
        number = self.first
        while not self._done.is_set():
            write(self.folder, number)
            number += 1
            self._done.wait(PAUSE_SECONDS)


def main() -> None:
    """Start the feeder and run the pipeline."""
    with Feeder(ARRIVALS) as feeder:
        print(
            f"Writing orders to {os.path.relpath(ARRIVALS)} from file {feeder.first} on. Press Ctrl-C to stop."
        )
        print(f"Results: {os.path.relpath(HERE / 'work')}/priced and /revenue. Starting Spark …", flush=True)
        sys.argv = ["headwater", "run", str(HERE / "pipeline.yml"), *sys.argv[1:]]
        headwater()


if __name__ == "__main__":
    main()
