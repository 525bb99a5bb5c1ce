"""`--rate` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Headwater

PIPELINE = """
name: p
sources: {clicks: {connector: rate}}
sinks: {out: {reads: clicks, connector: noop}}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    file = tmp_path / "pipeline.yml"
    file.write_text(PIPELINE, encoding="utf-8")
    return file


def test_a_rate_of_a_source_is_taken(headwater: Headwater, pipeline: Path) -> None:
    assert headwater("check", "--offline", pipeline, "--rate", "clicks=1000/s").code == 0


@pytest.mark.parametrize(
    ("rate", "code"),
    [("clicks", "HW-BAD-RATE"), ("clicks=5/x", "HW-BAD-RATE"), ("clik=5", "HW-UNKNOWN-RATE")],
)
def test_what_is_no_rate_is_refused(headwater: Headwater, pipeline: Path, rate: str, code: str) -> None:
    for command in (("check", "--offline"), ("explain",)):
        answer = headwater(*command, pipeline, "--rate", rate, "--json")
        assert (answer.code, [each["code"] for each in answer.json["problems"]]) == (2, [code])
