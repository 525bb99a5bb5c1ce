"""Draw the pictures of the docs from the tests of the examples.

Run as `python -m scripts.pictures`. The pictures are committed; the gate compares them with what the tests
draw.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from headwater.testing.chart import draw
from headwater.testing.report import report
from headwater.testing.test_files import load_tests
from headwater.testing.test_runner import TestRunner
from scripts.contract import ROOT

FOLDER = "docs/transform/pictures"


@dataclass(frozen=True)
class Picture:
    """A picture of the docs, relative to the project."""

    name: str
    sink: str | None = None
    """The sink whose batches are drawn; by default, the first of the test."""

    @property
    def svg(self) -> str:
        return f"{FOLDER}/{self.name}.svg"


PICTURES: dict[tuple[str, str], tuple[Picture, ...]] = {
    ("late_words/tests/test_late_words.yml", "update mode emits every changed count"): (
        Picture("late_words_update"),
    ),
    (
        "late_words/tests/test_late_words.yml",
        "append mode emits a window once the watermark has passed its end",
    ): (Picture("late_words_append"),),
    ("windows/tests/test_windows.yml", "tumbling windows do not overlap"): (Picture("tumbling"),),
    ("windows/tests/test_windows.yml", "a row counts in every sliding window that contains it"): (
        Picture("sliding", "sliding"),
    ),
    ("windows/tests/test_windows.yml", "a session stays open until its gap has passed"): (
        Picture("sessions"),
    ),
    ("windows/tests/test_windows.yml", "a late row merges two sessions"): (Picture("sessions_merge"),),
    ("ad_clicks/tests/test_ad_clicks.yml", "a click within one hour matches its impression"): (
        Picture("stream_join_inner"),
    ),
    (
        "ad_clicks/tests/test_ad_clicks.yml",
        "an impression without a click is emitted when no click can arrive anymore",
    ): (Picture("stream_join_outer"),),
    ("ad_clicks/tests/test_ad_clicks.yml", "idle clicks block the watermark"): (Picture("idle_input"),),
    ("chained_operators/tests/test_chained_operators.yml", "deduplicated views in windows of windows"): (
        Picture("chain", "hours"),
    ),
    ("duplicates/tests/test_duplicates.yml", "three ways to drop duplicates"): (Picture("dedup", "within"),),
    ("multiple_watermarks/tests/test_multiple_watermarks.yml", "the slowest watermark is used by default"): (
        Picture("slowest"),
    ),
    (
        "multiple_watermarks/tests/test_multiple_watermarks.yml",
        "the fastest watermark is used if configured",
    ): (Picture("fastest"),),
    (
        "user_sessions/tests/test_user_sessions.yml",
        "a session closes when the watermark is half an hour past its last page",
    ): (Picture("user_sessions"),),
    (
        "user_alerts/tests/test_user_alerts.yml",
        "three failures within ten minutes, in any order of arrival",
    ): (Picture("user_alerts"),),
    ("user_status/tests/test_user_status.yml", "a new action restarts the hour"): (
        Picture("user_status", "status"),
    ),
}
"""By test file below `examples/` and name of the test."""


def main() -> None:
    """Run each test that has a picture, and write the picture."""
    player = TestRunner()
    try:
        for (file, name), pictures in PICTURES.items():
            test = next(test for test in load_tests(ROOT / "examples" / file) if test.name == name)
            result = player.play(test)
            if not result.passed:
                sys.exit("\n".join(report(result)))
            for picture in pictures:
                target = Path(ROOT / picture.svg)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(draw(result, picture.sink), encoding="utf-8")
                print(picture.svg)
    finally:
        player.close()


if __name__ == "__main__":
    main()
