"""Draw the pictures of the docs anew, from the tests of the examples.

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

FOLDER = "docs/transformations/pictures"


@dataclass(frozen=True)
class Picture:
    """A picture of the docs, relative to the project."""

    name: str
    sink: str | None = None
    """The sink whose batches are drawn; else the first of the test."""

    @property
    def svg(self) -> str:
        return f"{FOLDER}/{self.name}.svg"


PICTURES: dict[tuple[str, str], tuple[Picture, ...]] = {
    ("late_words/tests/test_late_words.yml", "update mode gives every count that has changed"): (
        Picture("late_words_update"),
    ),
    (
        "late_words/tests/test_late_words.yml",
        "append mode gives a window once, when the watermark has passed its end",
    ): (Picture("late_words_append"),),
    ("windows/tests/test_windows.yml", "tumbling windows lie side by side"): (Picture("tumbling"),),
    ("windows/tests/test_windows.yml", "a row counts in every sliding window that it lies in"): (
        Picture("sliding", "sliding"),
    ),
    ("windows/tests/test_windows.yml", "a session goes on until its gap has passed"): (Picture("sessions"),),
    ("windows/tests/test_windows.yml", "a late row makes one session of two"): (Picture("sessions_merge"),),
    ("ad_clicks/tests/test_ad_clicks.yml", "a click within the hour finds its impression"): (
        Picture("stream_join_inner"),
    ),
    (
        "ad_clicks/tests/test_ad_clicks.yml",
        "an impression that nobody clicked comes out when no click can come any more",
    ): (Picture("stream_join_outer"),),
    ("ad_clicks/tests/test_ad_clicks.yml", "silent clicks hold everything back"): (Picture("idle_input"),),
    ("chains/tests/test_chains.yml", "distinct views in windows of windows"): (Picture("chain", "hours"),),
    ("duplicates/tests/test_duplicates.yml", "three ways to drop repeats"): (Picture("dedup", "within"),),
    ("two_shops/tests/test_two_shops.yml", "the slowest watermark counts"): (Picture("slowest"),),
    ("two_shops/tests/test_two_shops.yml", "the fastest watermark counts where that is chosen"): (
        Picture("fastest"),
    ),
    (
        "user_sessions/tests/test_user_sessions.yml",
        "a session is over when the watermark is half an hour past its last page",
    ): (Picture("user_sessions"),),
    (
        "user_alerts/tests/test_user_alerts.yml",
        "three failures within ten minutes, in whatever order they come",
    ): (Picture("user_alerts"),),
    ("user_status/tests/test_user_status.yml", "a new action begins a new hour"): (
        Picture("user_status", "status"),
    ),
}
"""By test file below `examples/` and name of the test."""


def main() -> None:
    """Play each test that has a picture, and write what it draws."""
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
