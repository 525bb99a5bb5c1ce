"""Findings that a file suppressions: where, with which reason, and what can't be suppressed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.checks import (
    Finding,
    Match,
    Severity,
    Situation,
    examine,
    pipeline_rule,
    suppressed,
    suppression,
    together,
)
from headwater.checks.changes import query_metadata_missing
from headwater.checks.declarations import unused_declaration
from headwater.errors.catalogue.running import MODE_UNSUPPORTED, SINK_MODE_UNSUPPORTED
from headwater.plan import Graph
from headwater.values import Position
from tests.unit.specs import spec_of

PIPELINE = """
    name: shop
    suppress: {%s}
    sources:
      clicks: {connector: rate}
    tables:
      few: {sql: SELECT * FROM clicks, suppress: {%s}}
    sinks:
      out: {reads: few, connector: noop, suppress: {%s}}
      show: {reads: few, connector: console}
"""
SAID = {"kind": "table", "name": "few"}


def warning(sink: str = "", table: str = "") -> Finding:
    return Finding(unused_declaration.entry.at(Position("p.yml", 7), **SAID), Severity.WARNING, sink, table)


def told(
    *findings: Finding, pipeline: str = "", table: str = "", sink: str = "", complete: bool = False
) -> list[tuple[str, str, str]]:
    spec = spec_of(PIPELINE % (pipeline, table, sink))
    found = suppressed(findings, spec, complete=complete)
    return [(each.problem.code, each.severity.value, each.suppressed) for each in found]


@pytest.mark.parametrize(
    ("level", "where", "reason"),
    [
        ("pipeline", {}, "yes"),
        ("pipeline", {"sink": "out"}, "yes"),
        ("pipeline", {"table": "few"}, "yes"),
        ("table", {}, ""),
        ("table", {"table": "few", "sink": "show"}, "yes"),
        ("table", {"table": "other"}, ""),
        ("sink", {}, ""),
        ("sink", {"sink": "out", "table": "few"}, "yes"),
        ("sink", {"sink": "show"}, ""),
    ],
)
def test_a_finding_is_accepted_where_it_stands(level: str, where: dict[str, str], reason: str) -> None:
    suppress: Any = {level: "HW-DECLARATION-UNUSED: yes"}
    assert told(warning(**where), **suppress) == [("HW-DECLARATION-UNUSED", "warning", reason)]


def test_the_nearest_reason_is_told() -> None:
    finding = warning(sink="out", table="few")
    far, near, nearest = (f"HW-DECLARATION-UNUSED: {word}" for word in ("far", "near", "nearest"))
    found = told(finding, pipeline=far, table=near, sink=nearest, complete=True)
    assert found == [("HW-DECLARATION-UNUSED", "warning", "nearest")]


@pytest.mark.parametrize("suppressible", [True, False])
def test_an_error_is_accepted_only_if_the_pipeline_would_run(suppressible: bool) -> None:
    error = Finding(
        SINK_MODE_UNSUPPORTED.at(None, sink="out", mode="", connector="", hint=""), suppressible=suppressible
    )
    found = suppressed([error], spec_of(PIPELINE % ("HW-SINK-MODE-UNSUPPORTED: why", "", "")))
    assert [each.is_error for each in found] == ([False] if suppressible else [True, True])
    assert found[0].suppressed == ("why" if suppressible else "")
    for refusal in found[1:]:
        assert refusal.problem.code == "HW-SUPPRESS-NOT-ALLOWED"
        assert refusal.problem.place == Position("pipeline.yml", 2, 12)
        assert "rows would be lost or wrong" in refusal.problem.message


def test_what_spark_refuses_is_refused_by_spark() -> None:
    error = Finding(MODE_UNSUPPORTED.at(None, sink="out", mode="append", says="no", hint=""), sink="out")
    (_, refusal) = suppressed([error], spec_of(PIPELINE % ("", "", "HW-MODE-UNSUPPORTED: why")))
    assert refusal.problem.params == {
        "where": "Sink `out`",
        "code": "HW-MODE-UNSUPPORTED",
        "says": "Spark would reject the query",
    }
    assert refusal.sink == "out"


def test_a_code_that_nobody_knows() -> None:
    (finding,) = suppressed([], spec_of(PIPELINE % ("", "hw-declaration-unusd: why", "")))
    assert (finding.problem.code, finding.is_error, finding.table) == (
        "HW-SUPPRESS-CODE-UNKNOWN",
        True,
        "few",
    )
    assert finding.problem.params == {
        "where": "table `few`",
        "code": "hw-declaration-unusd",
        "hint": "Did you mean `HW-DECLARATION-UNUSED`?",
    }
    assert finding.problem.place == Position("pipeline.yml", 6, 47)


def test_a_renamed_code_gives_its_new_one() -> None:
    (finding,) = suppressed([], spec_of(PIPELINE % ("HW-NEVER-FINAL: why", "", "")))
    assert finding.problem.code == "HW-SUPPRESS-CODE-UNKNOWN"
    assert finding.problem.params["hint"] == "Write `HW-APPEND-NEEDS-WATERMARK`: the code was renamed."


def test_a_code_that_is_like_none() -> None:
    (finding,) = suppressed([], spec_of(PIPELINE % ("everything: why", "", "")))
    assert finding.problem.params["hint"] == "Remove it from `suppress`."


def test_what_matches_nothing_is_told_only_where_all_was_asked() -> None:
    assert told(pipeline="HW-DECLARATION-UNUSED: why") == []
    assert told(pipeline="HW-DECLARATION-UNUSED: why", complete=True) == [
        ("HW-SUPPRESS-UNUSED", "warning", "")
    ]
    assert told(warning(), pipeline="HW-DECLARATION-UNUSED: why", complete=True) == [
        ("HW-DECLARATION-UNUSED", "warning", "why")
    ]


def test_what_hangs_on_the_checkpoint_may_be_accepted_in_advance() -> None:
    assert told(pipeline="HW-QUERY-METADATA-MISSING: why", complete=True) == []
    gone = Finding(query_metadata_missing.entry.at(None, sink="out", checkpoint="x"), Severity.WARNING, "out")
    assert told(gone, pipeline="HW-QUERY-METADATA-MISSING: why") == [
        ("HW-QUERY-METADATA-MISSING", "warning", "why")
    ]


def test_a_rule_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    @pipeline_rule("ACME-LOUD", "It is loud.", "Be quiet.", example="name: loud")
    def outside(situation: Situation) -> Iterator[Match]:
        """Something that another package minds."""
        yield Match(None, {}, suppressible=True)

    suppression._codes.cache_clear()
    monkeypatch.setattr(suppression, "all_rules", lambda: {"outside": outside})
    spec = spec_of(PIPELINE % ("ACME-LOUD: we like it", "", ""))
    situation = Situation(spec, Graph.of(spec))
    assert [each.suppressed for each in suppressed(outside.findings(situation), spec)] == ["we like it"]
    assert suppressed([], spec) == []
    suppression._codes.cache_clear()


def test_offline_rules_are_accepted_too() -> None:
    text = PIPELINE.replace("{reads: few", "{reads: clicks") % ("", "HW-DECLARATION-UNUSED: soon", "")
    spec = spec_of(text)
    (finding,) = suppressed(examine(Situation(spec, Graph.of(spec))), spec, complete=True)
    assert (finding.problem.code, finding.table, finding.suppressed) == (
        "HW-DECLARATION-UNUSED",
        "few",
        "soon",
    )


def test_one_table_may_trouble_several_sinks_and_be_accepted_in_one() -> None:
    spec = spec_of(PIPELINE % ("", "", "HW-DECLARATION-UNUSED: fine"))
    found = together(suppressed([warning(sink="out"), warning(sink="show"), warning()], spec))
    assert [(each.sink, each.suppressed) for each in found] == [("show", ""), ("out", "fine")]
