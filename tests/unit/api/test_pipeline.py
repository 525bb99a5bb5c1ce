"""What the Python form passes on: everything that the command line can say."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater import runtime
from headwater.api import analysis, batch, explain
from headwater.api import pipeline as api_pipeline
from headwater.runtime import RunOptions


class Asked(Exception):
    """What a function was called with."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__()
        self.given, self.named = given, named


def ask(*given: Any, **named: Any) -> None:
    raise Asked(*given, **named)


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> hw.Pipeline:
    for module, name in (
        (runtime, "start"),
        (batch, "run_batch"),
        (explain, "explain"),
        (analysis, "check_with_spark"),
    ):
        monkeypatch.setattr(module, name, ask)
    p = api_pipeline.Pipeline("p")
    p.source("clicks", hw.rate())
    p.sink("out", hw.noop(), reads="clicks")
    return p


CONF = {"spark.x": "1"}


@pytest.mark.parametrize(
    ("method", "given", "options"),
    [
        ("start", {}, RunOptions()),
        (
            "start",
            {"spark_ui": True, "stop_timeout": 5.0, "fail_fast": True, "until_idle": True},
            RunOptions(spark_ui=True, stop_seconds=5.0, fail_fast=True, until_idle=True),
        ),
        ("start", {"stop_timeout": 0}, RunOptions(stop_seconds=0)),
        ("start", {"master": "local[3]", "conf": CONF}, RunOptions(master="local[3]", conf=CONF)),
        ("run_batch", {}, RunOptions()),
        ("run_batch", {"master": "local[3]", "conf": CONF}, RunOptions(master="local[3]", conf=CONF)),
        ("run_batch", {"spark_ui": True}, RunOptions(spark_ui=True)),
    ],
)
def test_how_to_run(pipeline: hw.Pipeline, method: str, given: dict[str, Any], options: RunOptions) -> None:
    with pytest.raises(Asked) as asked:
        getattr(pipeline, method)(**given)
    assert asked.value.given[1] == options


def test_which_master_is_looked_at(pipeline: hw.Pipeline) -> None:
    with pytest.raises(Asked) as asked:
        pipeline.explain(master="local[3]", conf=CONF)
    assert asked.value.named == {"master": "local[3]", "conf": CONF, "rates": None}
    with pytest.raises(Asked) as asked:
        pipeline.check(master="local[3]", conf=CONF)
    assert asked.value.given[1:3] == ("local[3]", CONF)
