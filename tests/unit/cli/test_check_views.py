"""Findings as SARIF 2.1.0, and what `check` and `explain` show while Spark starts."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from headwater.api import check
from headwater.api.results import CheckResult
from headwater.checks import Finding, Severity
from headwater.checks.changes import query_metadata_missing, setting_frozen
from headwater.checks.declarations import unused_declaration
from headwater.checks.determinism import source_not_replayable
from headwater.cli.check_views import sarif_of, waiting
from headwater.engine.outcome import CheckOutcome
from headwater.errors.catalogue.running import SINK_MODE_UNSUPPORTED
from headwater.events import Event, Notice, SparkStarting
from headwater.values import Position
from tests.unit.cli.conftest import Headwater

TEXT = {"type": "object", "properties": {"text": {"type": "string", "minLength": 1}}, "required": ["text"]}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
# What the standard demands of the parts that are used here, written down anew.
ESSENTIAL = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "name": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "properties": {
                                                "id": {"type": "string"},
                                                "shortDescription": TEXT,
                                                "fullDescription": TEXT,
                                                "help": TEXT,
                                                "defaultConfiguration": {"properties": {"level": LEVEL}},
                                            },
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message", "ruleId", "ruleIndex", "level", "locations"],
                            "properties": {
                                "message": TEXT,
                                "level": LEVEL,
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "locations": {
                                    "type": "array",
                                    "minItems": 1,
                                    "items": {
                                        "required": ["physicalLocation"],
                                        "properties": {
                                            "physicalLocation": {
                                                "required": ["artifactLocation", "region"],
                                                "properties": {
                                                    "artifactLocation": {"required": ["uri"]},
                                                    "region": {
                                                        "required": ["startLine"],
                                                        "properties": {
                                                            "startLine": {"minimum": 1},
                                                            "startColumn": {"minimum": 1},
                                                        },
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                                "suppressions": {
                                    "type": "array",
                                    "items": {
                                        "required": ["kind"],
                                        "properties": {
                                            "kind": {"enum": ["inSource", "external"]},
                                            "justification": {"type": "string"},
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}
UNREAD = unused_declaration.entry.at(Position("sub folder/p.yml", 7, 3), kind="table", name="few")


def log(*findings: Finding, file: str = "p.yml") -> Any:
    made = sarif_of(CheckResult(file, "p", True, findings))
    Draft202012Validator(ESSENTIAL).validate(made)
    (run,) = made["runs"]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    return run


def place(result: Any) -> tuple[str, dict[str, int]]:
    physical = result["locations"][0]["physicalLocation"]
    return physical["artifactLocation"]["uri"], physical["region"]


def test_nothing_found() -> None:
    run = log()
    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])
    assert run["tool"]["driver"]["name"] == "Headwater"


def test_severities_and_places() -> None:
    mode = SINK_MODE_UNSUPPORTED.at(
        Position("p.yml", 9, 73), sink="out", mode="update", connector="x", hint="Set `mode: append`."
    )
    found = log(
        Finding(mode, sink="out"),
        Finding(UNREAD, Severity.WARNING, table="few"),
        Finding(query_metadata_missing.entry.at(None, sink="out", checkpoint="c"), Severity.NOTE, "out"),
    )
    results = found["results"]
    assert [(each["ruleId"], each["level"]) for each in results] == [
        ("HW-SINK-MODE-UNSUPPORTED", "error"),
        ("HW-DECLARATION-UNUSED", "warning"),
        ("HW-QUERY-METADATA-MISSING", "note"),
    ]
    assert [place(each) for each in results] == [
        ("p.yml", {"startLine": 9, "startColumn": 73}),
        ("sub%20folder/p.yml", {"startLine": 7, "startColumn": 3}),
        ("p.yml", {"startLine": 1}),
    ]
    assert results[0]["message"]["text"] == f"{mode.message} {mode.hint}"
    assert [each.get("properties") for each in results] == [
        {"sink": "out"},
        {"table": "few"},
        {"sink": "out"},
    ]


def test_rules_tell_what_and_why() -> None:
    (rule,) = log(Finding(UNREAD, Severity.WARNING))["tool"]["driver"]["rules"]
    assert rule == {
        "id": "HW-DECLARATION-UNUSED",
        "shortDescription": {"text": "<kind> `<name>`: no sink reads it."},
        "fullDescription": {
            "text": "A source or table that no sink reads has no effect. Usually a name is misspelled."
        },
        "help": {"text": "Remove it, or add a sink that reads it."},
        "defaultConfiguration": {"level": "warning"},
    }


def test_what_is_accepted_is_suppressed_with_its_reason() -> None:
    other = setting_frozen.entry.at(None, sink="out", key="k", kept="1", wanted="2")
    run = log(Finding(other, Severity.WARNING), Finding(UNREAD, Severity.WARNING, suppressed="later"))
    assert [each["suppressions"] for each in run["results"]] == [
        [],
        [{"kind": "inSource", "justification": "later"}],
    ]


def test_one_problem_of_several_sinks_is_one_result() -> None:
    problem = source_not_replayable.entry.at(Position("p.yml", 3), name="lines", connector="socket")
    run = log(*(Finding(problem, Severity.WARNING, sink) for sink in ("a", "b")))
    assert len(run["results"]) == 1


def test_paths_are_seen_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = (str(tmp_path / "p.yml"), "/elsewhere/p.yml")
    here, there = (unused_declaration.entry.at(Position(file, 1), kind="table", name=file) for file in files)
    run = log(
        Finding(here),
        Finding(there),
        Finding(query_metadata_missing.entry.at(None, sink="a", checkpoint="c")),
        file="x.py",
    )
    assert [place(each)[0] for each in run["results"]] == ["p.yml", "file:///elsewhere/p.yml", "x.py"]


GOOD = """
name: p
sources: {clicks: {connector: rate}}
sinks: {out: {reads: clicks, connector: noop}}
"""


class Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("as_json", "event", "shown"),
    [
        (False, SparkStarting(), "Starting Spark …\n"),
        (False, Notice(code="HW-NOTICE", message="waiting for executors"), "waiting for executors\n"),
        (True, Notice(code="HW-NOTICE", message="waiting for executors"), ""),
        (True, SparkStarting(), ""),
    ],
)
def test_elsewhere_a_line_beside_the_output(
    capsys: pytest.CaptureFixture[str], as_json: bool, event: Event, shown: str
) -> None:
    with waiting(as_json=as_json) as emit:
        emit(event)
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == ("", shown)
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_a_status_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with waiting(as_json=False) as emit:
        emit(SparkStarting())
    text = terminal.getvalue()
    assert "Starting Spark …" in text
    # Its line is erased, and the cursor is there again.
    assert text.rindex("\x1b[2K") > text.rindex("Starting Spark")
    assert "\x1b[?25h" in text


def test_a_full_check_says_that_spark_starts_and_an_offline_one_does_not(
    headwater: Headwater, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "good.yml"
    file.write_text(GOOD, encoding="utf-8")
    monkeypatch.setattr("headwater.api.analysis.check_with_spark", lambda *_: CheckOutcome([], {}, {}))
    assert headwater("check", file).err == "Starting Spark …\n"
    assert headwater("check", file, "--json").err == ""
    assert headwater("check", file, "--offline").err == ""
    file.write_text("name: p\n", encoding="utf-8")
    assert "Starting Spark" not in headwater("check", file).err
    assert check.check(file).errors
