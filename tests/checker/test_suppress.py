"""Findings that a pipeline suppressions, through real checks and a real run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from headwater.api.check import check
from headwater.api.results import CheckResult
from headwater.api.run import Output, run
from headwater.checks import Finding, Match, Situation, all_rules, pipeline_rule, rules, suppression
from headwater.errors import PipelineError
from headwater.events import Event, RunStarted
from headwater.runtime import RunOptions
from tests.pipelines import LONGEST, feed, write

PIPELINE = """
name: orders
suppress: {HW-LOUD: the neighbours are away}
sources:
  orders: {connector: files, path: in, format: json, schema: {id: int}, max_files_per_batch: 10}
tables:
  few: SELECT id FROM orders WHERE id > 1
  later: {sql: SELECT id FROM orders, suppress: {HW-DECLARATION-UNUSED: the next release reads it}}
sinks:
  few: {reads: few, connector: files, path: out, format: json, suppress: {HW-SOURCE-NOT-REPLAYABLE: a try}}
"""


@pipeline_rule("HW-LOUD", "The sink `{sink}` is loud.", "Write quietly.", example="sinks: {loud: …}")
def loud(situation: Situation) -> Iterator[Match]:
    """An error with which Spark would run all the same."""
    for sink in situation.spec.sinks:
        yield Match(sink.position, {}, sink.name, suppressible=True)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A pipeline, with one more rule installed."""
    installed = {**all_rules(), "loud": loud}
    for module in (rules, suppression):
        monkeypatch.setattr(module, "all_rules", lambda: installed)
    suppression._codes.cache_clear()
    feed(tmp_path / "in", "a", [{"id": 1}, {"id": 2}])
    yield write(tmp_path, PIPELINE)
    suppression._codes.cache_clear()


def told(result: CheckResult) -> dict[str, tuple[str, str, str]]:
    return {each.problem.code: (each.severity.value, each.sink, each.suppressed) for each in result.findings}


def start(file: Path) -> tuple[list[Finding], str]:
    """Run until nothing is left: what was found before the start, and the name of the run."""
    events: list[Event] = []
    found: list[Finding] = []
    options = RunOptions(until_idle=True)
    output = Output(events.append, lambda line: None, lambda findings, file: found.extend(findings))
    (result,) = run([file], options, output, limit=LONGEST)
    assert result.exit_code == 0
    return found, next(event.run_id for event in events if isinstance(event, RunStarted))


def test_what_is_accepted_keeps_nothing_from_starting(context: SparkContext, file: Path) -> None:
    result = check(file, strict=True)
    found = told(result)
    assert found["HW-LOUD"] == ("error", "few", "the neighbours are away")
    assert found["HW-DECLARATION-UNUSED"] == ("warning", "", "the next release reads it")
    # Everything was asked, so what matches nothing is a mistake; only a strict check fails by it.
    assert found["HW-SUPPRESS-UNUSED"] == ("warning", "few", "")
    assert [each.problem.code for each in result.errors] == []
    assert (result.exit_code, check(file).exit_code) == (3, 0)

    findings, run_id = start(file)
    assert {each.problem.code for each in findings if each.suppressed} == {"HW-LOUD", "HW-DECLARATION-UNUSED"}
    stored = json.loads((file.parent / ".headwater" / "findings.json").read_text(encoding="utf-8"))
    assert stored["run_id"] == run_id
    assert stored["findings"] == [each.to_json() for each in findings]
    written: list[Any] = [
        json.loads(line)
        for part in (file.parent / "out").glob("part-*")
        for line in part.read_text(encoding="utf-8").splitlines()
    ]
    assert written == [{"id": 2}]


def test_without_its_reason_the_same_error_is_a_refusal(context: SparkContext, file: Path) -> None:
    write(file.parent, PIPELINE.replace("suppress: {HW-LOUD: the neighbours are away}", "timezone: UTC"))
    with pytest.raises(PipelineError) as refused:
        start(file)
    assert [problem.code for problem in refused.value.problems] == ["HW-LOUD"]
    stored = json.loads((file.parent / ".headwater" / "findings.json").read_text(encoding="utf-8"))
    assert [each["code"] for each in stored["findings"] if each["severity"] == "error"] == ["HW-LOUD"]


def test_what_could_not_run_can_not_be_accepted(context: SparkContext, file: Path) -> None:
    suppress = "suppress: {HW-SQL-SYNTAX: it looks right, "
    wrong = PIPELINE.replace("FROM orders WHERE", "FROM orders WHER").replace(
        "suppress: {HW-LOUD", f"{suppress}HW-LOUD"
    )
    result = check(write(file.parent, wrong))
    assert [each.problem.code for each in result.errors] == ["HW-SUPPRESS-NOT-ALLOWED", "HW-SQL-SYNTAX"]
    assert result.errors[0].problem.params["says"] == "Spark would reject the query"
