"""The arguments of `hw.watch`, which are checked before anything else happens."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import UsageError

pytestmark = pytest.mark.feature("L4", part="settings")


def test_wrong_settings_are_reported_together_at_the_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        hw.watch(
            run_dir=tmp_path / "run",
            alerts={"fallin_behind": "off", "late_rows": {"warning": "-1 %"}},
            history={"max_age": "1 minute"},
        )
    problems = sorted(refused.value.problems, key=lambda each: each.code)
    assert [each.code for each in problems] == ["HW-KEY-UNKNOWN", "HW-VALUE-INVALID", "HW-VALUE-INVALID"]
    assert {each.place.file for each in problems if each.place} == {__file__}
    assert "Did you mean `falling_behind`?" in problems[0].hint
    assert not (tmp_path / "run").exists()
