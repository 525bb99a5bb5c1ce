"""Rules, each over a situation made for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from headwater.checks import Finding, Rule, Severity, Situation, all_rules, examine
from headwater.checks.changes import OutputSchemaChanged, PlaceChanged, SettingKept, TimezoneChanged
from headwater.checks.declared import NotKnownOffline, SecretNotSet, UnusedTable
from headwater.plan import Graph, QueryFacts, SourceFacts
from headwater.spec import PipelineSpec
from tests.unit.specs import spec_of

PIPELINE = """
    name: shop
    sources:
      clicks: {connector: rate, options: {key: "${secret:KEY}"}}
      unread: {connector: rate}
    tables:
      few: SELECT * FROM clicks
      none: SELECT * FROM few
    sinks:
      out: {reads: Few, connector: files, path: out, format: parquet}
"""
FACTS = QueryFacts(
    sink="out",
    connector="files",
    mode="append",
    root="/project",
    timezone="UTC",
    sources=(SourceFacts("clicks", "files", ("/project/in",)),),
    output_schema={"id": "int", "Cost": "double"},
)


def situation(text: str = PIPELINE, **keys: Any) -> Situation:
    spec: PipelineSpec = spec_of(text)
    return Situation(spec, Graph.of(spec), **{"environ": {}, **keys})


def changed(stored: Mapping[str, Any] | None = None, **now: Any) -> Situation:
    """A pipeline whose facts differ from those of its checkpoint."""
    before = replace(FACTS, **(stored or {}))
    return situation(facts={"out": replace(FACTS, **now)}, stored={"out": before})


def said(rule: Rule, situation: Situation) -> list[tuple[str, Severity, int | None]]:
    return [
        (each.problem.code, each.severity, each.problem.place.line if each.problem.place else None)
        for each in rule.findings(situation)
    ]


def test_what_no_sink_reads_is_named() -> None:
    assert said(UnusedTable(), situation()) == [
        ("HW-UNUSED", Severity.WARNING, 4),
        ("HW-UNUSED", Severity.WARNING, 7),
    ]


def test_nothing_is_called_unread_while_some_sql_is_not_known() -> None:
    text = PIPELINE.replace("SELECT * FROM few", "SELECT k:a.b FROM few")
    assert said(UnusedTable(), situation(text)) == []
    assert said(NotKnownOffline(), situation(text)) == [("HW-NOT-KNOWN-OFFLINE", Severity.ADVICE, 7)]


def test_a_secret_that_is_not_set_is_named_once_for_each_thing() -> None:
    assert said(SecretNotSet(), situation()) == [("HW-SECRET-NOT-SET", Severity.WARNING, 3)]
    assert said(SecretNotSet(), situation(environ={"KEY": "x"})) == []


def test_before_the_first_start_nothing_has_changed() -> None:
    first = situation(facts={"out": FACTS})
    for rule in (PlaceChanged(), TimezoneChanged(), SettingKept(), OutputSchemaChanged()):
        assert said(rule, first) == []


def test_another_folder_is_refused() -> None:
    now = (SourceFacts("clicks", "files", ("/project/other",)),)
    assert said(PlaceChanged(), changed(sources=now)) == [("HW-PLACE-CHANGED", Severity.ERROR, 3)]


def test_another_order_of_folders_is_refused_as_spark_tells_them_apart_by_it() -> None:
    one, two = ("/project/a", "/project/b"), ("/project/b", "/project/a")
    before = {"sources": (SourceFacts("clicks", "files", one),)}
    assert said(PlaceChanged(), changed(before, sources=(SourceFacts("clicks", "files", two),))) == [
        ("HW-PLACE-CHANGED", Severity.ERROR, 3)
    ]


def test_a_static_source_may_move() -> None:
    before = {"sources": (SourceFacts("clicks", "files", ("/a",), streaming=False),)}
    assert said(PlaceChanged(), changed(before)) == []


def test_a_moved_project_is_told_as_such() -> None:
    before = {"root": "/old", "sources": (SourceFacts("clicks", "files", ("/old/in",)),)}
    assert said(PlaceChanged(), changed(before)) == [("HW-MOVED", Severity.ERROR, 1)]


def test_a_moved_project_with_another_folder_is_told_by_the_folder() -> None:
    before = {"root": "/old", "sources": (SourceFacts("clicks", "files", ("/old/other",)),)}
    assert said(PlaceChanged(), changed(before)) == [("HW-PLACE-CHANGED", Severity.ERROR, 3)]


def test_another_time_zone_is_refused() -> None:
    assert said(TimezoneChanged(), changed(timezone="Europe/Berlin")) == [
        ("HW-TIMEZONE-CHANGED", Severity.ERROR, 1)
    ]


def test_a_setting_that_is_not_used_is_named() -> None:
    key = "spark.sql.shuffle.partitions"
    now = changed(settings={key: "2"}, passed_over={key: "4"})
    (finding,) = SettingKept().findings(now)
    assert (finding.problem.code, finding.severity, finding.sink) == (
        "HW-SETTING-KEPT",
        Severity.WARNING,
        "out",
    )
    assert finding.problem.params == {"sink": "out", "key": key, "kept": "2", "wanted": "4"}


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"id": "int", "cost": "double"}, []),
        ({"ID": "int", "Cost": "double"}, []),
        ({"id": "bigint", "Cost": "double"}, [("HW-OUTPUT-TYPE-CHANGED", Severity.ERROR, 9)]),
        ({"id": "int"}, [("HW-OUTPUT-COLUMNS-CHANGED", Severity.WARNING, 9)]),
        (
            {"id": "int", "Cost": "double", "more": "int"},
            [("HW-OUTPUT-COLUMNS-CHANGED", Severity.WARNING, 9)],
        ),
        ({"id": "bigint"}, [("HW-OUTPUT-TYPE-CHANGED", Severity.ERROR, 9)]),
    ],
)
def test_another_schema_than_the_folder_holds(schema: dict[str, str], found: list[Any]) -> None:
    assert said(OutputSchemaChanged(), changed(output_schema=schema)) == found


def test_what_the_files_hold_counts_more_than_what_was_stored() -> None:
    now = changed({"output_schema": {"id": "bigint"}}, held_schema=FACTS.output_schema)
    assert said(OutputSchemaChanged(), now) == []


def test_every_rule_says_what_it_is_for_and_is_found() -> None:
    rules = all_rules()
    built_in = {UnusedTable, SecretNotSet, NotKnownOffline, PlaceChanged, TimezoneChanged, SettingKept}
    assert built_in | {OutputSchemaChanged} <= {type(rule) for rule in rules.values()}
    assert [name for name, rule in rules.items() if not type(rule).__doc__] == []


def test_examine_asks_every_rule() -> None:
    codes = sorted(finding.problem.code for finding in examine(changed(timezone="Asia/Tokyo")))
    assert codes == ["HW-SECRET-NOT-SET", "HW-TIMEZONE-CHANGED", "HW-UNUSED", "HW-UNUSED"]


def test_a_finding_as_json() -> None:
    finding: Finding = next(TimezoneChanged().findings(changed(timezone="Asia/Tokyo")))
    as_json = finding.to_json()
    assert (as_json["severity"], as_json["sink"], as_json["code"], as_json["line"]) == (
        "error",
        "out",
        "HW-TIMEZONE-CHANGED",
        1,
    )
