"""Rules and findings: each rule over a situation made for it, and what every rule says of itself."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.checks import GROUP, Finding, Rule, Severity, Situation, all_rules, examine, rules, together
from headwater.checks.changes import (
    setting_frozen,
    sink_schema_changed,
    source_path_changed,
    timezone_changed,
)
from headwater.checks.declarations import (
    secret_not_set,
    sink_columns,
    sink_mode,
    sql_unknown_offline,
    unused_declaration,
    watermark_column,
)
from headwater.errors import Entry, SetupError
from headwater.errors.catalogue.pipelines import SECRET_MISSING
from headwater.plan import Graph, SourceFacts
from headwater.plan.predicates import secret_problems
from headwater.spec import PipelineSpec
from headwater.values import Position
from tests.unit.checks.facts import facts
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
FACTS = facts(
    connector="files",
    sources=(SourceFacts("clicks", "files", ("/project/in",)),),
    output_schema={"id": "int", "Cost": "double"},
)


def situation(text: str = PIPELINE, **keys: Any) -> Situation:
    spec: PipelineSpec = spec_of(text)
    return Situation(spec, Graph.of(spec), **{"environ": {}, **keys})


def changed(stored: Mapping[str, Any] | None = None, text: str = PIPELINE, **now: Any) -> Situation:
    """A pipeline whose facts differ from those of its checkpoint."""
    before = replace(FACTS, **(stored or {}))
    return situation(text, facts={"out": replace(FACTS, **now)}, stored={"out": before})


def said(rule: Rule, situation: Situation) -> list[tuple[str, Severity, int | None]]:
    return [
        (each.problem.code, each.severity, each.problem.place.line if each.problem.place else None)
        for each in rule.findings(situation)
    ]


def test_what_no_sink_reads_is_named() -> None:
    assert said(unused_declaration, situation()) == [
        ("HW-DECLARATION-UNUSED", Severity.WARNING, 4),
        ("HW-DECLARATION-UNUSED", Severity.WARNING, 7),
    ]


def test_nothing_is_called_unread_while_some_sql_is_not_known() -> None:
    text = PIPELINE.replace("SELECT * FROM few", "SELECT k:a.b FROM few")
    assert said(unused_declaration, situation(text)) == []
    assert said(sql_unknown_offline, situation(text)) == [("HW-SQL-UNKNOWN-OFFLINE", Severity.NOTE, 7)]


def test_a_secret_that_is_not_set_is_named_once_for_each_thing() -> None:
    assert said(secret_not_set, situation()) == [("HW-SECRET-NOT-SET", Severity.WARNING, 3)]
    assert said(secret_not_set, situation(environ={"KEY": "x"})) == []


def test_a_secret_is_told_at_its_option() -> None:
    text = PIPELINE.replace("{key: ", "{other: x, key: ")
    (finding,) = secret_not_set.findings(situation(text))
    assert finding.problem.params == {"name": "KEY"}
    assert finding.problem.place == Position("pipeline.yml", 3, 54)


def test_why_a_secret_can_not_be_had() -> None:
    (source, _) = spec_of(PIPELINE).sources
    (missing,) = secret_problems(source, {})
    (unreadable,) = secret_problems(source, {"KEY_FILE": "/nowhere"})
    assert (missing.code, missing.params) == ("HW-SECRET-MISSING", {"name": "KEY"})
    assert (unreadable.code, unreadable.params["file"]) == ("HW-SECRET-FILE-UNREADABLE", "/nowhere")
    assert missing.place == unreadable.place == Position("pipeline.yml", 3, 44)
    assert list(secret_problems(source, {"KEY": "x"})) == []


def test_a_mode_that_the_connector_does_not_take() -> None:
    text = PIPELINE.replace("format: parquet", "format: parquet, mode: update")
    (finding,) = sink_mode.findings(situation(text))
    assert (finding.problem.code, finding.severity, finding.sink) == (
        "HW-SINK-MODE-UNSUPPORTED",
        Severity.ERROR,
        "out",
    )
    assert finding.problem.params == {
        "sink": "out",
        "mode": "update",
        "connector": "files",
        "hint": "Set `mode: append`.",
    }
    assert finding.problem.place == Position("pipeline.yml", 9, 73)
    assert said(sink_mode, situation()) == []


def test_a_broken_pipeline_is_asked_about_its_parts() -> None:
    text = PIPELINE.replace("FROM few", "FROM nothing").replace(
        "format: parquet", "format: orc, mode: update"
    )
    broken = situation(text)
    assert [problem.code for problem in broken.graph.problems] == ["HW-TABLE-NOT-FOUND"]
    assert sorted(finding.problem.code for finding in examine(broken)) == [
        "HW-SECRET-NOT-SET",
        "HW-SINK-MODE-UNSUPPORTED",
    ]


def test_a_part_of_a_pipeline_is_not_asked_as_a_whole() -> None:
    assert [finding.problem.code for finding in examine(situation(whole=False))] == ["HW-SECRET-NOT-SET"]


def test_findings_are_told_together_in_order_and_once() -> None:
    here, there = Position("a.yml", 2), Position("a.yml", 3)
    error = Finding(SECRET_MISSING.at(there, name="KEY"), sink="out")
    again = Finding(SECRET_MISSING.at(there, name="KEY"))
    warning = Finding(secret_not_set.entry.at(there, name="KEY"), Severity.WARNING)
    elsewhere = Finding(secret_not_set.entry.at(here, name="KEY"), Severity.WARNING)
    first = Finding(SECRET_MISSING.at(here, name="OTHER"))
    assert together([error, warning], [elsewhere, again, first]) == [first, error, elsewhere]


def test_before_the_first_start_nothing_has_changed() -> None:
    first = situation(facts={"out": FACTS})
    for rule in (source_path_changed, timezone_changed, setting_frozen, sink_schema_changed):
        assert said(rule, first) == []


def read_at(*places: str, streaming: bool = True) -> dict[str, Any]:
    return {"sources": (SourceFacts("clicks", "files", places, streaming=streaming),)}


@pytest.mark.parametrize(
    ("stored", "now", "code", "line"),
    [
        pytest.param({}, read_at("/project/other"), "HW-SOURCE-PATH-CHANGED", 3, id="another folder"),
        # Spark tells folders apart by their order.
        pytest.param(
            read_at("/a", "/b"), read_at("/b", "/a"), "HW-SOURCE-PATH-CHANGED", 3, id="another order"
        ),
        pytest.param({"root": "/old", **read_at("/old/in")}, {}, "HW-PROJECT-MOVED", 9, id="a moved project"),
        pytest.param(
            {"root": "/old", **read_at("/old/x")}, {}, "HW-SOURCE-PATH-CHANGED", 3, id="moved and changed"
        ),
        pytest.param(read_at("/a", streaming=False), {}, "", 0, id="a static source may move"),
    ],
)
def test_another_place_is_refused(stored: Any, now: Any, code: str, line: int) -> None:
    assert said(source_path_changed, changed(stored, **now)) == (
        [(code, Severity.ERROR, line)] if code else []
    )


def test_a_moved_project_is_told_by_its_sinks_too() -> None:
    here = changed({"root": "/old", "places": ("/old/out",)}, places=("/project/out",))
    (finding,) = source_path_changed.findings(here)
    assert finding.problem.code == "HW-PROJECT-MOVED"
    says = "would write to /project/out, but the log of the sink refers to /old/out"
    assert finding.problem.params == {"sink": "out", "old": "/old", "new": "/project", "says": says}


@pytest.mark.parametrize(
    ("root", "places"), [("/old", ()), ("/old", ("/project/out",)), ("/project", ("/project/other",))]
)
def test_a_sink_that_was_not_moved_with_its_project(root: str, places: tuple[str, ...]) -> None:
    now = changed({"root": root, "places": places}, places=("/project/out",))
    assert said(source_path_changed, now) == []


def test_another_time_zone_is_refused() -> None:
    assert said(timezone_changed, changed(timezone="Europe/Berlin")) == [
        ("HW-TIMEZONE-CHANGED", Severity.ERROR, 1)
    ]
    text = PIPELINE.replace("    sources:", "    timezone: Europe/Berlin\n    sources:")
    (finding,) = timezone_changed.findings(changed(text=text, timezone="Europe/Berlin"))
    assert finding.problem.place == Position("pipeline.yml", 2, 11)


def test_a_setting_that_is_not_used_is_named() -> None:
    key = "spark.sql.shuffle.partitions"
    now = changed(settings={key: "2"}, passed_over={key: "4"})
    (finding,) = setting_frozen.findings(now)
    assert (finding.problem.code, finding.severity, finding.sink) == (
        "HW-SETTING-FROZEN",
        Severity.WARNING,
        "out",
    )
    assert finding.problem.params == {"sink": "out", "key": key, "kept": "2", "wanted": "4"}
    assert finding.problem.place is None


@pytest.mark.parametrize(("wanted", "place"), [("4", Position("pipeline.yml", 3, 33)), ("5", None)])
def test_a_setting_of_the_file_is_told_at_its_line_and_one_of_the_command_at_none(
    wanted: str, place: Position | None
) -> None:
    key = "spark.sql.shuffle.partitions"
    text = PIPELINE.replace("    sources:", f"    spark:\n      {key}: 4\n    sources:")
    now = changed(text=text, settings={key: "2"}, passed_over={key: wanted})
    assert [finding.problem.place for finding in setting_frozen.findings(now)] == [place]


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"id": "int", "cost": "double"}, []),
        ({"ID": "int", "Cost": "double"}, []),
        ({"id": "bigint", "Cost": "double"}, [("HW-SINK-TYPES-CHANGED", Severity.ERROR, 9)]),
        ({"id": "int"}, [("HW-SINK-COLUMNS-CHANGED", Severity.WARNING, 9)]),
        (
            {"id": "int", "Cost": "double", "more": "int"},
            [("HW-SINK-COLUMNS-CHANGED", Severity.WARNING, 9)],
        ),
        ({"id": "bigint"}, [("HW-SINK-TYPES-CHANGED", Severity.ERROR, 9)]),
    ],
)
def test_another_schema_than_the_folder_holds(schema: dict[str, str], found: list[Any]) -> None:
    assert said(sink_schema_changed, changed(output_schema=schema)) == found


def test_what_the_files_hold_counts_more_than_what_was_stored() -> None:
    now = changed({"output_schema": {"id": "bigint"}}, held_schema=FACTS.output_schema)
    assert said(sink_schema_changed, now) == []


def test_another_folder_may_get_other_types() -> None:
    before = {"places": ("/project/old",)}
    now = changed(before, places=("/project/out",), output_schema={"id": "bigint"})
    assert said(sink_schema_changed, now) == []


def test_every_rule_says_what_it_is_for_and_is_found() -> None:
    every = all_rules()
    built_in = {
        unused_declaration,
        secret_not_set,
        sql_unknown_offline,
        source_path_changed,
        timezone_changed,
        setting_frozen,
    }
    built_in |= {sink_columns, sink_mode, watermark_column}
    assert built_in | {sink_schema_changed} <= set(every.values())
    assert [name for name, rule in every.items() if not rule.why] == []


def test_a_rule_of_another_package_is_found_through_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("odd_zone", "headwater.checks.changes:timezone_changed", GROUP)
    monkeypatch.setattr(rules, "entry_points", lambda group: [point] if group == GROUP else [])
    found = all_rules.__wrapped__()
    assert found["odd_zone"] is timezone_changed
    assert list(found) == sorted({*all_rules(), "odd_zone"})


@pytest.mark.parametrize(
    ("name", "module", "code"),
    [
        ("gone", "headwater.no_such_module:rule", "HW-RULE-LOAD-FAILED"),
        ("a_class", "headwater.checks.rules:Rule", "HW-RULE-LOAD-FAILED"),
        ("timezone_changed", "headwater.checks.changes:timezone_changed", "HW-RULE-NAME-CONFLICT"),
    ],
)
def test_a_rule_that_can_not_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str, code: str
) -> None:
    point = EntryPoint(name, module, GROUP)
    monkeypatch.setattr(rules, "entry_points", lambda group: [point])
    with pytest.raises(SetupError) as refused:
        all_rules.__wrapped__()
    (problem,) = refused.value.problems
    assert (problem.code, problem.params["name"]) == (code, name)


def test_examine_asks_every_rule() -> None:
    codes = sorted(finding.problem.code for finding in examine(changed(timezone="Asia/Tokyo")))
    assert codes == [
        "HW-DECLARATION-UNUSED",
        "HW-DECLARATION-UNUSED",
        "HW-SECRET-NOT-SET",
        "HW-TIMEZONE-CHANGED",
    ]


def test_a_finding_as_json() -> None:
    finding: Finding = next(timezone_changed.findings(changed(timezone="Asia/Tokyo")))
    as_json = finding.to_json()
    assert (as_json["severity"], as_json["sink"], as_json["code"], as_json["line"]) == (
        "error",
        "out",
        "HW-TIMEZONE-CHANGED",
        1,
    )


def test_a_finding_tells_what_its_problem_tells() -> None:
    problem = unused_declaration.entry.at(Position("p.yml", 7), kind="table", name="old")
    finding = Finding(problem, Severity.WARNING)
    assert (finding.code, finding.location) == ("HW-DECLARATION-UNUSED", problem.location)
    assert (finding.message, finding.hint) == (problem.message, problem.hint)
    told = finding.to_json()
    assert (told["code"], told["message"], told["hint"]) == (
        finding.code,
        finding.message,
        finding.hint,
    )
    assert "where" not in told


def test_a_finding_without_a_line_is_nowhere() -> None:
    assert Finding(unused_declaration.entry.at(None, kind="table", name="old")).location == ""


RULES = {name: rule for name, rule in all_rules().items() if rule.module.startswith("headwater.")}
MODULES = sorted({rule.module for rule in RULES.values()})


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_explained(name: str) -> None:
    rule = RULES[name]
    assert rule.why, "what it is for"
    assert rule.example, "an example"
    assert rule.entries, "what it can say"
    assert all(entry.code for entry in rule.entries)


@pytest.mark.parametrize("module", MODULES)
def test_what_a_module_of_rules_can_say_is_among_the_entries(module: str) -> None:
    named = {entry for rule in RULES.values() for entry in rule.entries}
    constants = {name: value for name, value in vars(sys.modules[module]).items() if isinstance(value, Entry)}
    assert {name for name, entry in constants.items() if entry not in named} == set()


def test_nothing_outside_imports_a_module_of_rules() -> None:
    root = Path(headwater.__file__).parent
    files = [file for file in root.rglob("*.py") if file.parent.name != "checks"]
    modules = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(map(re.escape, MODULES))})\b", re.MULTILINE)
    assert files
    assert [str(file) for file in files if modules.search(file.read_text(encoding="utf-8"))] == []
