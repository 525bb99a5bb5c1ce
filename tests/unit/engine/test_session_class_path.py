"""Jars that came after the start of Spark."""

from __future__ import annotations

from headwater.engine.session import late_problems
from tests.unit.specs import spec_of

PIPELINE = """
    name: quick
    sources:
      ticks: {connector: rate}
    sinks:
      slow: {reads: ticks, connector: console}
      quick: {reads: ticks, connector: console, trigger: continuous 1 second}
"""


def test_only_continuous_queries_need_their_jars_from_the_start() -> None:
    problems = late_problems(spec_of(PIPELINE), ("/jars/kafka.jar", "/jars/pool.jar"))
    assert list(problems) == ["quick"]
    assert problems["quick"].code == "HW-JARS-ADDED-TOO-LATE"
    assert problems["quick"].params["jars"] == "/jars/kafka.jar,/jars/pool.jar"
    assert problems["quick"].place is not None
    assert late_problems(spec_of(PIPELINE), ()) == {}
