"""What `check` shows: by sink, with what is suppressed; its exit codes; what `run` shows of the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.api.results import CheckResult, SinkChecked
from headwater.checks import Finding, Severity
from headwater.checks.changes import setting_frozen
from headwater.checks.determinism import source_not_replayable
from headwater.checks.outline import Outline
from headwater.checks.sources import clean_up_new_sink
from headwater.cli.render import show_check
from headwater.cli.views import LineView, view_of
from headwater.errors.catalogue.running import SINK_MODE_UNSUPPORTED
from headwater.events import Found
from headwater.plan import SourceFacts
from headwater.values import Position
from tests.unit.checks.facts import facts
from tests.unit.cli.conftest import Headwater

PIPELINE = """\
name: shop
sources:
  lines: {connector: socket, host: localhost, port: 9999%s}
tables:
  unused: SELECT * FROM lines
sinks:
  kept: {reads: lines, connector: kafka, bootstrap_servers: "h:1", topic: t, value: json, mode: complete,
    suppress: {HW-COMPLETE-TO-APPEND-SINK: a test reads it}}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("pipeline.yml").write_text(PIPELINE % "", encoding="utf-8")
    return "pipeline.yml"


def test_first_the_whole_and_then_by_sink(headwater: Headwater, file: str) -> None:
    answer = headwater("check", "--offline", file)
    assert answer.code == 0
    assert answer.out == "sink kept\npipeline.yml: offline check passed: 2 warnings, 1 suppressed.\n"
    assert [line for line in answer.err.splitlines() if "HW-" in line] == [
        "pipeline.yml:3:3: warning HW-SOURCE-NOT-REPLAYABLE",
        "pipeline.yml:5:3: warning HW-DECLARATION-UNUSED",
        "  pipeline.yml:7:97: suppressed warning HW-COMPLETE-TO-APPEND-SINK",
    ]
    assert answer.err.endswith("\n    Suppressed: a test reads it\n")


def test_what_two_sinks_have_in_common_is_told_once_and_counted_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    problem = source_not_replayable.entry.at(Position("p.yml", 3, 5), name="lines", connector="socket")
    found = tuple(Finding(problem, Severity.WARNING, sink) for sink in ("b", "a"))
    sinks = tuple(SinkChecked(name) for name in ("a", "b", "quiet"))
    show_check(CheckResult("p.yml", "p", False, found, sinks), verbose=False)
    shown = capsys.readouterr()
    assert shown.out == "sink a\nsink b\np.yml: check passed: 1 warning.\n"
    assert shown.err == (
        f"  p.yml:3:5: warning HW-SOURCE-NOT-REPLAYABLE\n    {problem.message}\n    {problem.hint}\n"
        "  p.yml:3:5: warning HW-SOURCE-NOT-REPLAYABLE (see sink a)\n"
    )


def test_a_guarantee_stands_under_its_sink(capsys: pytest.CaptureFixture[str]) -> None:
    socket = SourceFacts("lines", "socket", replayable=False)
    outlines = {
        name: Outline.of(facts(sink=name, sources=(socket,), delivery=delivery))
        for name, delivery in (("kept", "IDEMPOTENT"), ("shown", "DUPLICATES"))
    }
    outlines["sure"] = Outline.of(facts(sink="sure", delivery="IDEMPOTENT"))
    sinks = tuple(SinkChecked(name, outline) for name, outline in outlines.items())
    show_check(CheckResult("p.yml", "p", False, (), sinks), verbose=False)
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert shown.err == ""
    assert lines[0::3] == ["sink kept", "sink shown", "sink sure", "p.yml: check passed: no findings."]
    assert lines[1].startswith("  delivery guarantee: at-most-once (source: `lines`")
    assert "; sink: " in lines[4]
    assert lines[7] == (
        "  delivery guarantee: exactly-once (source: `rows` (files) is replayable; query: it is deterministic; "
        "sink: noop is idempotent: a retried batch changes nothing)"
    )
    twice = "  after a suspension: the batch in progress can be written twice, "
    assert lines[2] == lines[8] == twice + "which changes nothing if the sink identifies it by its ID"
    assert lines[5] == twice + "also after later batches"


def test_strict_counts_warnings_and_not_what_is_accepted(headwater: Headwater, file: str) -> None:
    answer = headwater("check", "--offline", "--strict", file)
    assert (answer.code, answer.out) == (
        3,
        "sink kept\npipeline.yml: strict offline check failed: 2 warnings, 1 suppressed.\n",
    )
    text = Path(file).read_text(encoding="utf-8")
    suppress = "suppress: {HW-SOURCE-NOT-REPLAYABLE: a try, HW-DECLARATION-UNUSED: soon}\n"
    Path(file).write_text(text + suppress, encoding="utf-8")
    answer = headwater("check", "--offline", "--strict", file)
    assert (answer.code, answer.out) == (
        0,
        "sink kept\npipeline.yml: strict offline check passed: no findings, 3 suppressed.\n",
    )


def test_advice_is_no_failure_even_if_strict(headwater: Headwater, file: str) -> None:
    text = "name: p\nsources: {a: {connector: rate}}\ntables: {t: 'SELECT v:x.y FROM a'}\n"
    Path(file).write_text(text + "sinks: {out: {reads: t, connector: noop}}\n", encoding="utf-8")
    answer = headwater("check", "--offline", "--strict", file)
    assert (answer.code, "note HW-SQL-UNKNOWN-OFFLINE" in answer.err) == (0, True)


def test_json_is_complete(headwater: Headwater, file: str) -> None:
    answer = headwater("check", "--offline", "--strict", "--json", file)
    assert (answer.code, answer.err) == (3, "")
    assert {key: answer.json[key] for key in ("ok", "strict")} == {"ok": False, "strict": True}
    (kept,) = answer.json["sinks"]
    assert kept["after_suspension"] is None
    assert (kept["name"], kept["bounds"], kept["guarantee"]["level"]) == ("kept", None, "at-most-once")
    told = [
        (each["code"], each["sink"], each["table"], each["suppressed"]) for each in answer.json["findings"]
    ]
    assert told == [
        ("HW-SOURCE-NOT-REPLAYABLE", None, None, None),
        ("HW-DECLARATION-UNUSED", None, "unused", None),
        ("HW-COMPLETE-TO-APPEND-SINK", "kept", None, "a test reads it"),
    ]


def test_sarif_on_stdout(headwater: Headwater, file: str) -> None:
    answer = headwater("check", "--offline", "--sarif", file)
    assert (answer.code, answer.err) == (0, "")
    (run,) = answer.json["runs"]
    assert [each["ruleId"] for each in run["results"]] == [
        "HW-SOURCE-NOT-REPLAYABLE",
        "HW-DECLARATION-UNUSED",
        "HW-COMPLETE-TO-APPEND-SINK",
    ]
    assert [len(each["suppressions"]) for each in run["results"]] == [0, 0, 1]


def test_a_file_that_can_not_be_read_gives_sarif_too(headwater: Headwater, file: str) -> None:
    Path(file).write_text(PIPELINE % ", prt: 1", encoding="utf-8")
    answer = headwater("check", "--sarif", file)
    (result,) = answer.json["runs"][0]["results"]
    assert (answer.code, result["ruleId"], result["level"]) == (3, "HW-KEY-UNKNOWN", "error")


def test_one_form_at_a_time(headwater: Headwater, file: str) -> None:
    answer = headwater("check", "--offline", "--sarif", "--json", file)
    assert (answer.code, answer.json["problems"][0]["code"]) == (2, "HW-OPTIONS-CONFLICT")


MODE = SINK_MODE_UNSUPPORTED.at(None, sink="a", mode="update", connector="files", hint="Set `mode: append`.")
FINDINGS = [
    Finding(setting_frozen.entry.at(None, sink="a", key="k", kept="1", wanted="2"), Severity.WARNING, "a"),
    Finding(clean_up_new_sink.entry.at(None, sink="a", name="in", done="deleted"), Severity.NOTE, "a"),
    Finding(MODE, sink="a", suppressible=True, suppressed="for a day"),
]


def test_a_run_shows_warnings_and_what_is_accepted_and_counts_advice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    LineView().findings(FINDINGS, "p.yml")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == (
        f"warning HW-SETTING-FROZEN\n  {FINDINGS[0].problem.message}\n  {FINDINGS[0].problem.hint}\n"
        f"suppressed error HW-SINK-MODE-UNSUPPORTED\n  {MODE.message}\n  Suppressed: for a day\n"
        "1 note: run `headwater check p.yml` for details.\n"
    )


def test_a_run_that_is_refused_leaves_errors_to_the_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    LineView().findings([Finding(MODE), FINDINGS[1]], "p.yml")
    assert capsys.readouterr().err == ""


def test_as_json_a_run_tells_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    with view_of(as_json=True) as view:
        for finding in FINDINGS:
            view.event(Found(finding=finding.to_json()))
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["severity"], each["suppressed"]) for each in told] == [
        ("warning", None),
        ("note", None),
        ("error", "for a day"),
    ]
