"""Findings that a file accepts: where, with which reason, and what can't be accepted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.checks import (
    Finding,
    Match,
    Severity,
    Situation,
    accepted,
    examine,
    pipeline_rule,
    suppression,
    together,
)
from headwater.checks.changes import facts_gone
from headwater.checks.declarations import unused_table
from headwater.errors.catalogue.running import MODE_UNSUPPORTED, SINK_MODE_UNSUPPORTED
from headwater.plan import Graph
from headwater.values import Position
from tests.unit.specs import spec_of

PIPELINE = """
    name: shop
    accept: {%s}
    sources:
      clicks: {connector: rate}
    tables:
      few: {sql: SELECT * FROM clicks, accept: {%s}}
    sinks:
      out: {reads: few, connector: noop, accept: {%s}}
      show: {reads: few, connector: console}
"""
SAID = {"kind": "table", "name": "few"}


def warning(sink: str = "", table: str = "") -> Finding:
    return Finding(unused_table.entry.at(Position("p.yml", 7), **SAID), Severity.WARNING, sink, table)


def told(
    *findings: Finding, pipeline: str = "", table: str = "", sink: str = "", complete: bool = False
) -> list[tuple[str, str, str]]:
    spec = spec_of(PIPELINE % (pipeline, table, sink))
    found = accepted(findings, spec, complete=complete)
    return [(each.problem.code, each.severity.value, each.accepted) for each in found]


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
    accept: Any = {level: "HW-DECLARATION-UNUSED: yes"}
    assert told(warning(**where), **accept) == [("HW-DECLARATION-UNUSED", "warning", reason)]


def test_the_nearest_reason_is_told() -> None:
    finding = warning(sink="out", table="few")
    far, near, nearest = (f"HW-DECLARATION-UNUSED: {word}" for word in ("far", "near", "nearest"))
    found = told(finding, pipeline=far, table=near, sink=nearest, complete=True)
    assert found == [("HW-DECLARATION-UNUSED", "warning", "nearest")]


@pytest.mark.parametrize("acceptable", [True, False])
def test_an_error_is_accepted_only_if_the_pipeline_would_run(acceptable: bool) -> None:
    error = Finding(
        SINK_MODE_UNSUPPORTED.at(None, sink="out", mode="", connector="", modes=""), acceptable=acceptable
    )
    found = accepted([error], spec_of(PIPELINE % ("HW-SINK-MODE-UNSUPPORTED: why", "", "")))
    assert [each.is_error for each in found] == ([False] if acceptable else [True, True])
    assert found[0].accepted == ("why" if acceptable else "")
    for refusal in found[1:]:
        assert refusal.problem.code == "HW-SUPPRESS-NOT-ALLOWED"
        assert refusal.problem.place == Position("pipeline.yml", 2, 10)
        assert "rows would be lost or wrong" in refusal.problem.sentence


def test_what_spark_refuses_is_refused_by_spark() -> None:
    error = Finding(MODE_UNSUPPORTED.at(None, sink="out", mode="append", says="no", hint=""), sink="out")
    (_, refusal) = accepted([error], spec_of(PIPELINE % ("", "", "HW-MODE-UNSUPPORTED: why")))
    assert refusal.problem.params == {
        "where": "The sink `out`",
        "code": "HW-MODE-UNSUPPORTED",
        "says": "Spark would refuse the query",
    }
    assert refusal.sink == "out"


def test_a_code_that_nobody_knows() -> None:
    (finding,) = accepted([], spec_of(PIPELINE % ("", "hw-declaration-unusd: why", "")))
    assert (finding.problem.code, finding.is_error, finding.table) == (
        "HW-SUPPRESS-CODE-UNKNOWN",
        True,
        "few",
    )
    assert finding.problem.params == {
        "where": "the table `few`",
        "code": "hw-declaration-unusd",
        "hint": "Did you mean `HW-DECLARATION-UNUSED`?",
    }
    assert finding.problem.place == Position("pipeline.yml", 6, 45)


def test_a_code_that_is_like_none() -> None:
    (finding,) = accepted([], spec_of(PIPELINE % ("everything: why", "", "")))
    assert finding.problem.params["hint"] == "Take it out of `accept`."


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
    gone = Finding(facts_gone.entry.at(None, sink="out", checkpoint="x"), Severity.WARNING, "out")
    assert told(gone, pipeline="HW-QUERY-METADATA-MISSING: why") == [
        ("HW-QUERY-METADATA-MISSING", "warning", "why")
    ]


def test_a_rule_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    @pipeline_rule("ACME-LOUD", "It is loud.", "Be quiet.", example="name: loud")
    def outside(situation: Situation) -> Iterator[Match]:
        """Something that another package minds."""
        yield Match(None, {}, acceptable=True)

    suppression._codes.cache_clear()
    monkeypatch.setattr(suppression, "all_rules", lambda: {"outside": outside})
    spec = spec_of(PIPELINE % ("ACME-LOUD: we like it", "", ""))
    situation = Situation(spec, Graph.of(spec))
    assert [each.accepted for each in accepted(outside.findings(situation), spec)] == ["we like it"]
    assert accepted([], spec) == []
    suppression._codes.cache_clear()


def test_offline_rules_are_accepted_too() -> None:
    text = PIPELINE.replace("{reads: few", "{reads: clicks") % ("", "HW-DECLARATION-UNUSED: soon", "")
    spec = spec_of(text)
    (finding,) = accepted(examine(Situation(spec, Graph.of(spec))), spec, complete=True)
    assert (finding.problem.code, finding.table, finding.accepted) == ("HW-DECLARATION-UNUSED", "few", "soon")


def test_one_table_may_trouble_several_sinks_and_be_accepted_in_one() -> None:
    spec = spec_of(PIPELINE % ("", "", "HW-DECLARATION-UNUSED: fine"))
    found = together(accepted([warning(sink="out"), warning(sink="show"), warning()], spec))
    assert [(each.sink, each.accepted) for each in found] == [("show", ""), ("out", "fine")]
