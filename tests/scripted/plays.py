"""Test files of the examples, played on the shared JVM: tests pass, pictures are the committed ones."""

from __future__ import annotations

from pathlib import Path

from headwater.testing.chart import draw
from headwater.testing.report import report
from headwater.testing.results import TestResult
from headwater.testing.test_files import load_tests
from headwater.testing.test_runner import TestRunner
from scripts.contract import ROOT
from scripts.pictures import PICTURES

EXAMPLES = ROOT / "examples"


def play_file(player: TestRunner, file: str) -> dict[str, TestResult]:
    """Play a test file below `examples/`; each of its tests passes and looks as in the docs."""
    results = {test.name: player.play(test) for test in load_tests(EXAMPLES / file)}
    for name, result in results.items():
        assert result.passed, "\n".join(report(result))
        for picture in PICTURES.get((file, name), ()):
            drawn = draw(result, picture.sink)
            assert (ROOT / picture.svg).read_text(encoding="utf-8") == drawn, (
                f"{picture.svg} is not what {name!r} draws; run `make pictures`"
            )
    return results


def play_here(player: TestRunner, folder: Path, pipeline: str, tests: str) -> dict[str, TestResult]:
    """Play tests of a pipeline that a test of ours writes down; the results are the caller's to judge."""
    (folder / "pipeline.yml").write_text(pipeline, encoding="utf-8")
    file = folder / "test_pipeline.yml"
    file.write_text(f"pipeline: pipeline.yml\n{tests}", encoding="utf-8")
    return {test.name: player.play(test) for test in load_tests(file)}
