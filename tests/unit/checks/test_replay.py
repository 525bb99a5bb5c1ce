"""Rules about sources whose rows come only once."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.checks import Reached, Severity, Situation, examine, together
from headwater.checks.determinism import not_replayable, not_replayable_checkpoint, not_replayable_shared
from headwater.plan import Graph
from headwater.spec import PipelineSpec
from tests.unit.specs import spec_of

PIPELINE = """
    name: lines
    sources:
      lines: {connector: socket, host: localhost, port: 9999}
      ticks: {connector: rate}
    tables:
      words: SELECT explode(split(value, ' ')) AS word FROM lines
      other: SELECT value FROM ticks
    sinks:
      one: {reads: Words, connector: console}
      two: {reads: %s, connector: %s}
"""


def situation(reads: str, connector: str = "console", **keys: Any) -> Situation:
    spec: PipelineSpec = spec_of(PIPELINE % (reads, connector))
    return Situation(spec, Graph.of(spec), **{"environ": {}, **keys})


@pytest.mark.parametrize("reads", ["other", "ticks", "words"])
def test_a_source_that_comes_once_is_named(reads: str) -> None:
    (found,) = not_replayable.findings(situation(reads))
    assert (found.problem.code, found.severity) == ("HW-NOT-REPLAYABLE", Severity.WARNING)
    assert found.problem.params == {"name": "lines", "connector": "socket"}
    assert found.problem.place
    assert found.problem.place.line == 3


@pytest.mark.parametrize(("reads", "shared"), [("LINES", True), ("words", True), ("ticks", False)])
def test_two_sinks_on_a_source_that_comes_once(reads: str, shared: bool) -> None:
    found = list(not_replayable_shared.findings(situation(reads)))
    assert [each.problem.params["sinks"] for each in found] == (["`one`, `two`"] if shared else [])
    assert all(each.severity is Severity.ERROR for each in found)


def test_the_refusal_says_all_that_the_warning_says() -> None:
    codes = [each.problem.code for each in together(examine(situation("lines")))]
    assert codes == ["HW-NOT-REPLAYABLE-SHARED", "HW-UNUSED", "HW-UNUSED"]


@pytest.mark.parametrize(
    ("offsets", "connector", "sinks"),
    [
        ((4,), "console", ["one"]),
        (({"logOffset": 3}, 0), "console", ["one"]),
        ((-1,), "console", []),
        ((None,), "console", []),
        ((), "console", []),
    ],
)
def test_a_checkpoint_that_has_read_lines(offsets: tuple[Any, ...], connector: str, sinks: list[str]) -> None:
    reached = {"one": Reached("/run/one", offsets), "two": Reached("/run/two", (7,))}
    found = list(not_replayable_checkpoint.findings(situation("ticks", connector, reached=reached)))
    assert [each.problem.params["sink"] for each in found] == sinks
    assert [each.problem.params["checkpoint"] for each in found] == [f"/run/{sink}" for sink in sinks]


def test_a_sink_that_lives_in_one_process_begins_anew_anyway() -> None:
    reached = {"two": Reached("/run/two", (7,))}
    rule = not_replayable_checkpoint
    assert list(rule.findings(situation("lines", "memory", reached=reached))) == []
    assert len(list(rule.findings(situation("lines", "noop", reached=reached)))) == 1
