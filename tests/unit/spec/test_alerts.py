"""The thresholds of alerts, as users write them in either form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import headwater as hw
from headwater.errors import PipelineError
from headwater.loaders.json_schema import pipeline_schema
from headwater.loaders.python_form import Declarations
from headwater.spec.alerts import Alerts, FreeSpace
from headwater.values import Duration
from tests.unit.specs import spec_of

pytestmark = pytest.mark.feature("G4")

HERE = Path(__file__).parent
YAML = """
    name: shop
    alerts:
      falling_behind: {{for: 5 minutes}}
      growing_state: off
      idle_source: false
      bad_rows: {{warning: 2, critical: 12.5%}}
      disk_almost_full: {{warning: 5 GB, critical: 512MB}}
      {more}
    sources: {{ticks: {{connector: rate}}}}
    sinks: {{out: {{reads: ticks, connector: noop}}}}
"""
SAME: dict[str, Any] = {
    "falling_behind": {"for": "300 seconds"},
    "growing_state": False,
    "idle_source": "off",
    "bad_rows": {"warning": "2 %", "critical": 12.5},
    "disk_almost_full": {"warning": "5120 MB", "critical": "512 MB"},
}


def test_both_forms_have_one_meaning() -> None:
    p = Declarations("shop", alerts=SAME)
    p.source("ticks", hw.rate())
    p.sink("out", hw.noop(), reads="ticks")
    spec = spec_of(YAML.format(more=""), HERE)
    assert p.spec() == spec
    alerts = spec.alerts
    assert alerts.falling_behind is not None
    assert alerts.falling_behind.period == Duration.parse("5 minutes")
    assert alerts.falling_behind.warning == 10
    assert (alerts.growing_state, alerts.idle_source) == (None, None)
    assert alerts.bad_rows is not None
    assert (alerts.bad_rows.warning, alerts.bad_rows.critical) == (2, 12.5)
    assert alerts.disk_almost_full is not None
    assert alerts.disk_almost_full.warning == FreeSpace(bytes=5 << 30)


def test_without_the_key_every_alert_has_its_defaults() -> None:
    p = Declarations("shop")
    p.source("ticks", hw.rate())
    p.sink("out", hw.noop(), reads="ticks")
    assert p.spec().alerts == Alerts()
    assert None not in Alerts().content().values()


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        ("late_row: off", "HW-KEY-UNKNOWN", "late_rows"),
        ("lag: off", "HW-KEY-UNKNOWN", "falling_behind"),
        ("late_rows: {warnin: 5 %}", "HW-KEY-UNKNOWN", "warning"),
        ("late_rows: on", "HW-VALUE-INVALID", "off"),
        ("late_rows:", "HW-VALUE-INVALID", "off"),
        ("late_rows: {warning: five}", "HW-VALUE-INVALID", "5 %"),
        ("late_rows: {warning: 0 %}", "HW-VALUE-INVALID", "greater than 0"),
        ("late_rows: {for: 10}", "HW-VALUE-INVALID", "unit"),
        ("late_rows: {for: 0 s}", "HW-VALUE-INVALID", "zero"),
        ("late_rows: {warning: 20 %}", "HW-VALUE-INVALID", "`critical` (10 %) is below `warning` (20 %)"),
        ("stuck_watermark: {critical: 1 minute}", "HW-VALUE-INVALID", "(1 minute) is below"),
        ("repeated_restarts: {warning: 6}", "HW-VALUE-INVALID", "(5) is below `warning` (6)"),
        ("idle_source: {times_usual: 0.5}", "HW-VALUE-INVALID", "at least 1"),
    ],
)
def test_a_mistake_is_reported_once_with_the_fix(more: str, code: str, says: str) -> None:
    text = YAML.format(more=more).replace("idle_source: false" if "idle" in more else "!", "# ")
    with pytest.raises(PipelineError) as error:
        spec_of(text, HERE)
    (problem,) = error.value.problems
    assert problem.code == code
    assert says in f"{problem.message} {problem.hint}"


@pytest.mark.parametrize(
    ("written", "fails"),
    [
        ({"warning": "5 GB", "critical": "6 GB"}, True),
        ({"warning": "2 %"}, True),
        ({"warning": "6 GB", "critical": "5 GB"}, False),
        ({"warning": "5 GB"}, False),
        ({"critical": "1 GB"}, False),
        ({"warning": "100 %"}, True),
        ({"warning": "much"}, True),
        ({"warning": True}, True),
        ({"warning": 20}, False),
    ],
)
def test_free_space(written: dict[str, Any], fails: bool) -> None:
    if fails:
        with pytest.raises(ValueError, match=r"free space|is above"):
            Alerts.model_validate({"disk_almost_full": written})
    else:
        alert = Alerts.model_validate({"disk_almost_full": written}).disk_almost_full
        assert alert is not None
        shown = alert.model_dump(mode="json")
        assert Alerts.model_validate({"disk_almost_full": shown}).disk_almost_full == alert


def test_the_schema_of_editors_accepts_the_same() -> None:
    validator = Draft202012Validator(pipeline_schema())
    good = {"name": "p", "alerts": {**SAME, "growing_state": "off"}}
    assert not list(validator.iter_errors(good))
    for wrong in ({"lag": "off"}, {"late_rows": None}, {"late_rows": {"warnin": 1}}):
        assert list(validator.iter_errors({"name": "p", "alerts": wrong}))
