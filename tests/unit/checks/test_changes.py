"""Rules over what a sink's place holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.checks import Finding, Reached, Rule, Severity, Situation, all_rules
from headwater.checks.changes import (
    query_metadata_missing,
    sink_ahead_of_checkpoint,
    sink_log_path_invalid,
    sink_output_unreadable,
)
from headwater.plan import Graph, QueryFacts
from tests.unit.checks.facts import facts
from tests.unit.specs import spec_of

PIPELINE = """
    name: shop
    sources: {clicks: {connector: rate}}
    sinks:
      out: {reads: clicks, connector: files, path: out, format: parquet}
"""
FACTS = facts(connector="files", sources=(), output_schema={"value": "bigint"}, places=("/project/out",))
REACHED = Reached("/project/.headwater/checkpoints/out", (7,), batch=3)


def found(rule: Rule, now: QueryFacts, **keys: Any) -> list[Finding]:
    spec = spec_of(PIPELINE)
    findings = list(rule.findings(Situation(spec, Graph.of(spec), {"out": now}, environ={}, **keys)))
    assert [each.problem.place and each.problem.place.line for each in findings] == [4] * len(findings)
    assert [each.sink for each in findings] == ["out"] * len(findings)
    return findings


@pytest.mark.parametrize("held", [None, 0, 2, 3])
def test_a_place_that_is_not_ahead_of_its_checkpoint(held: int | None) -> None:
    assert found(sink_ahead_of_checkpoint, replace(FACTS, held_batch=held), reached={"out": REACHED}) == []


@pytest.mark.parametrize(
    ("held", "reached", "stands"),
    [(0, {}, "is empty"), (12, {}, "is empty"), (4, {"out": REACHED}, "is at batch 3")],
)
def test_a_place_that_would_pass_batches_over(held: int, reached: dict[str, Reached], stands: str) -> None:
    (finding,) = found(sink_ahead_of_checkpoint, replace(FACTS, held_batch=held), reached=reached)
    assert (finding.problem.code, finding.severity) == ("HW-SINK-AHEAD-OF-CHECKPOINT", Severity.ERROR)
    assert finding.problem.params == {"sink": "out", "place": "/project/out", "held": held, "stands": stands}


def test_a_folder_that_was_moved() -> None:
    now = replace(FACTS, held_outside="/project/old/part-0.parquet", held_unreadable="it is gone")
    (finding,) = found(sink_log_path_invalid, now)
    assert (finding.problem.code, finding.severity) == ("HW-SINK-LOG-PATH-INVALID", Severity.ERROR)
    assert finding.problem.params == {"folder": "/project/out", "file": "/project/old/part-0.parquet"}
    assert found(sink_output_unreadable, now) == []


def test_of_a_moved_project_its_folders_are_not_told_as_well() -> None:
    then = replace(FACTS, root="/old", places=("/old/out",))
    now = replace(FACTS, held_outside="/old/out/part-0.parquet")
    assert found(sink_log_path_invalid, now, stored={"out": then}) == []


def test_rows_that_can_not_be_read() -> None:
    (finding,) = found(sink_output_unreadable, replace(FACTS, held_unreadable="part-0 is gone"))
    assert (finding.problem.code, finding.severity) == ("HW-SINK-OUTPUT-UNREADABLE", Severity.WARNING)
    assert finding.problem.params == {"sink": "out", "place": "/project/out", "says": "part-0 is gone"}
    assert found(sink_output_unreadable, FACTS) == []


def test_a_checkpoint_without_facts() -> None:
    (finding,) = found(query_metadata_missing, FACTS, reached={"out": REACHED})
    assert (finding.problem.code, finding.severity) == ("HW-QUERY-METADATA-MISSING", Severity.WARNING)
    assert finding.problem.params == {"sink": "out", "checkpoint": REACHED.checkpoint}
    assert found(query_metadata_missing, FACTS, reached={"out": REACHED}, stored={"out": FACTS}) == []
    assert found(query_metadata_missing, FACTS) == []


def test_the_rules_are_found() -> None:
    rules = set(all_rules().values())
    assert {
        query_metadata_missing,
        sink_ahead_of_checkpoint,
        sink_log_path_invalid,
        sink_output_unreadable,
    } <= rules
