"""The full text of every failure, in a log file of the run folder."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from headwater.errors import Problem
from headwater.values import scrub


class FailureLog:
    """Appends to `logs/failures.log`; the message on the terminal stays short."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "failures.log"

    def write(self, query: str, problem: Problem) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        text = f"{now} {query} {problem}\n{problem.detail}\n\n"
        # A full disk must not keep the run from ending; the problem itself is told all the same.
        with suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as stream:
                stream.write(scrub(text))
