"""A picture of a test: its batches against event time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from headwater.errors import UsageProblem
from headwater.errors.catalogue.testing import TEST_DRAW, TEST_WRITE
from headwater.testing.drawing.chart import Chart
from headwater.testing.drawing.picture import picture_of
from headwater.testing.results import TestResult


def draw(result: TestResult, sink: str | None = None) -> str:
    """A standalone SVG of one sink's query: of the first that ran a batch unless told.

    From left to right stand its batches; upwards goes event time. Where nothing has an event time, the
    picture shows how many rows each batch brought in and gave out.
    """
    return Chart.of(picture_of(result, sink)).svg()


# Pictures of tests, written to files: one named file, or a folder with one for each test.

_LONGEST_NAME = 80


class Pictures:
    """Draws results and remembers the files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written: list[str] = []

    @classmethod
    def into(cls, path: Path, names: Sequence[str]) -> Pictures:
        """UsageProblem where one file is named for several tests."""
        if path.suffix == ".svg" and len(names) != 1:
            raise UsageProblem(TEST_DRAW.at(None, path=str(path), count=len(names)))
        return cls(path)

    def draw(self, result: TestResult) -> None:
        """Write the picture of one test; one that never began has none."""
        if not result.steps:
            return
        file = self.path if self.path.suffix == ".svg" else self._file(result.name)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(draw(result), encoding="utf-8")
        except OSError as error:
            raise UsageProblem(TEST_WRITE.at(None, path=str(file), reason=error.strerror)) from None
        self.written.append(str(file))

    def _file(self, name: str) -> Path:
        """A file for a test; two tests of one name get two."""
        base = re.sub(r"\W+", "_", name.lower()).strip("_")[:_LONGEST_NAME] or "test"
        file, number = self.path / f"{base}.svg", 1
        while str(file) in self.written:
            number += 1
            file = self.path / f"{base}_{number}.svg"
        return file
