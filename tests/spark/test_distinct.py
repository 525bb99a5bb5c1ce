"""Deduplication without Python: what can't be made distinct; what can, is played in tests/scripted."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.api.check import check
from tests.pipelines import write


@pytest.mark.usefixtures("spark")
def test_what_can_not_be_made_distinct_is_refused_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    wrong = """
name: clicks
sources:
  clicks: {connector: files, path: in, format: json, schema: {id: string}}
tables:
  misspelt: {reads: clicks, deduplicate: idd}
  unmarked: {reads: clicks, deduplicate: id, within: watermark}
sinks:
  misspelt: {reads: misspelt, connector: noop}
  unmarked: {reads: unmarked, connector: noop}
"""
    findings = check(write(tmp_path, wrong)).findings

    told = [(each.problem.code, each.problem.place and each.problem.place.line) for each in findings]
    assert told == [("HW-COLUMN-NOT-FOUND", 6), ("HW-DEDUP-NEEDS-WATERMARK", 7)]
    offline = check(tmp_path / "pipeline.yml", offline=True).findings
    assert [(each.problem.code, each.problem.place.line) for each in offline if each.problem.place] == [
        ("HW-DEDUP-NEEDS-WATERMARK", 7)
    ]
