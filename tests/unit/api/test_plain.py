"""Results of `hw.check`, and what `headwater check` does with a script; Spark's part is put in by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.api import plain
from headwater.api.check import check
from headwater.api.plain import QueryChecked
from headwater.checks import Finding, Severity
from headwater.checks.outline import Outline
from headwater.errors import UsageError
from headwater.errors.catalogue.programs import CHECKPOINT_TEMPORARY, SCRIPT_EXIT, SINK_PATH_MISSING
from headwater.plan import Refusal
from headwater.programs import script
from headwater.programs.sandbox.launcher import Kind
from headwater.programs.script import CapturedQuery, ScriptRun
from headwater.values import Position
from headwater.values.secrets import hide
from tests.unit.checks.facts import aggregation, facts, key

PLACE = Position("/jobs/job.py", 7)


def checked(*findings: Finding) -> QueryChecked:
    return QueryChecked("<totals>", findings, Outline.of(facts(aggregation(key("a")))))


def test_a_result_reads_well_and_shows_no_secret() -> None:
    hide("geheim99")
    found = Finding(SINK_PATH_MISSING.at(PLACE, name="<geheim99>", format="csv"))
    doubt = Finding(CHECKPOINT_TEMPORARY.at(PLACE, name="q"), Severity.WARNING)
    result = checked(found, doubt)
    text = repr(result)
    assert text.splitlines()[:2] == [
        "<totals>: check failed: 1 error, 1 warning.",
        "/jobs/job.py:7:1: error HW-SINK-PATH-MISSING",
    ]
    assert "GROUP BY a" in text
    assert not result.ok
    html = result._repr_html_()
    assert "&lt;totals&gt;" in html
    assert "<totals>" not in html
    shown = result.to_json()
    assert [each["code"] for each in shown["findings"]] == ["HW-SINK-PATH-MISSING", "HW-CHECKPOINT-TEMPORARY"]
    assert shown["guarantee"]["level"]
    assert [place for place in (text, html, str(shown)) if "geheim99" in place] == []


def test_a_result_without_an_error() -> None:
    result = checked(Finding(CHECKPOINT_TEMPORARY.at(PLACE, name="q"), Severity.WARNING))
    assert result.ok
    assert repr(result).startswith("<totals>: check passed: 1 warning.")
    assert QueryChecked("q", (), None).to_json() == {"name": "q", "ok": True, "findings": []}


@pytest.mark.parametrize(
    ("given", "code"), [({"mode": "all"}, "HW-MODE-INVALID"), ({"trigger": "often"}, "HW-TRIGGER-INVALID")]
)
def test_calls_that_make_no_sense(given: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError) as error:
        hw.check(None, **given)
    (problem,) = error.value.problems
    assert problem.code == code
    assert problem.place is not None
    assert problem.place.file == __file__


def test_a_result_shows_what_is_accepted() -> None:
    doubt = Finding(
        CHECKPOINT_TEMPORARY.at(PLACE, name="q"), Severity.WARNING, suppressed="<a> demonstration"
    )
    result = checked(doubt)
    assert repr(result).splitlines()[:2] == [
        "<totals>: check passed: no findings, 1 suppressed.",
        "/jobs/job.py:7:1: suppressed warning HW-CHECKPOINT-TEMPORARY",
    ]
    assert "  Suppressed: <a> demonstration" in repr(result).splitlines()
    assert "suppressed warning</b>" in result._repr_html_()
    assert "Suppressed: &lt;a&gt; demonstration" in result._repr_html_()


@pytest.mark.parametrize("reason", ["", "  ", None])
def test_a_reason_is_wanted(reason: Any, job: Path) -> None:
    with pytest.raises(UsageError) as error:
        hw.check(None, suppress={"HW-DECLARATION-UNUSED": reason})
    (problem,) = error.value.problems
    assert problem.params == {
        "code": "HW-DECLARATION-UNUSED",
        "form": "`suppress={'HW-DECLARATION-UNUSED': …}`",
    }
    assert (problem.code, problem.place and problem.place.file) == ("HW-SUPPRESS-REASON-MISSING", __file__)
    with pytest.raises(UsageError) as error:
        check(job, suppress={"HW-DECLARATION-UNUSED": reason})
    assert [each.code for each in error.value.problems] == ["HW-SUPPRESS-REASON-MISSING"]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "job.py"
    file.write_text("print('a job')\n", encoding="utf-8")
    return file


def ran(monkeypatch: pytest.MonkeyPatch, run: ScriptRun) -> list[tuple[object, ...]]:
    orders: list[tuple[object, ...]] = []

    def run_script(*order: object) -> ScriptRun:
        orders.append(order)
        return run

    monkeypatch.setattr(script, "run_script", run_script)
    return orders


def test_a_script_is_run_and_its_queries_are_judged(monkeypatch: pytest.MonkeyPatch, job: Path) -> None:
    caught = CapturedQuery(facts(), PLACE, (SINK_PATH_MISSING.at(PLACE, name="out", format="csv"),))
    problem = SCRIPT_EXIT.at(PLACE, code=3, says="", hint="Mend it.")
    orders = ran(monkeypatch, ScriptRun([caught], problem, ended=True))
    result = check(job, arguments=("--in", "x"), timeout=5, master="local[1]", conf={"spark.a": "b"})
    assert orders == [(str(job), ("--in", "x"), 5, {"spark.a": "b", "spark.master": "local[1]"}, False)]
    assert [(each.problem.code, each.sink) for each in result.errors] == [
        ("HW-SCRIPT-EXIT", ""),
        ("HW-SINK-PATH-MISSING", "out"),
    ]
    assert [sink.name for sink in result.sinks] == ["out"]
    assert result.exit_code == 3


def test_findings_of_a_script_are_accepted_with_a_reason(monkeypatch: pytest.MonkeyPatch, job: Path) -> None:
    caught = CapturedQuery(facts(), PLACE, doubts=(CHECKPOINT_TEMPORARY.at(PLACE, name="out"),))
    ran(monkeypatch, ScriptRun([caught], spark=True, ended=True))
    suppress = {
        "HW-CHECKPOINT-TEMPORARY": " a demonstration ",
        "HW-APPEND-NEEDS-WATERMARK": "why",
        "HW-NEVER-FINL": "why",
    }
    result = check(job, suppress=suppress)
    assert [(each.problem.code, each.severity.value, each.suppressed) for each in result.findings] == [
        ("HW-SUPPRESS-CODE-UNKNOWN", "error", ""),
        ("HW-SUPPRESS-UNUSED", "warning", ""),
        ("HW-CHECKPOINT-TEMPORARY", "warning", "a demonstration"),
    ]
    assert result.findings[0].problem.params["where"] == "this check"


def test_an_error_of_a_script_that_can_not_be_accepted(monkeypatch: pytest.MonkeyPatch, job: Path) -> None:
    caught = CapturedQuery(facts(), PLACE, (SINK_PATH_MISSING.at(PLACE, name="out", format="csv"),))
    ran(monkeypatch, ScriptRun([caught], spark=True, ended=True))
    # With an error not all is asked: what is not found may be there.
    result = check(job, suppress={"HW-SINK-PATH-MISSING": "why", "HW-APPEND-NEEDS-WATERMARK": "why"})
    assert [each.problem.code for each in result.findings] == [
        "HW-SUPPRESS-NOT-ALLOWED",
        "HW-SINK-PATH-MISSING",
    ]
    assert result.exit_code == 3


def test_accept_is_for_scripts(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        check(tmp_path / "p.yml", offline=True, suppress={"HW-DECLARATION-UNUSED": "why"})
    assert [problem.code for problem in error.value.problems] == ["HW-SUPPRESS-SCRIPT-ONLY"]


def test_what_spark_refuses_is_told_once(monkeypatch: pytest.MonkeyPatch, job: Path) -> None:
    refused = Refusal("SOME_CONDITION", "it does not like it")
    caught = CapturedQuery(facts(refusal=refused), PLACE)
    ran(monkeypatch, ScriptRun([caught], spark=True, ended=True))
    assert [each.problem.code for each in check(job).errors] == ["HW-SPARK-ANALYSIS-FAILED"]
    explained = facts(aggregation(key("a")), refusal=refused)
    ran(monkeypatch, ScriptRun([CapturedQuery(explained, PLACE)], spark=True, ended=True))
    assert [each.problem.code for each in check(job).errors] == ["HW-APPEND-NEEDS-WATERMARK"]


@pytest.mark.parametrize(("spark", "code"), [(True, 0), (False, 3)])
def test_a_script_without_a_query(monkeypatch: pytest.MonkeyPatch, job: Path, spark: bool, code: int) -> None:
    ran(monkeypatch, ScriptRun(spark=spark, ended=True))
    result = check(job)
    assert ([each.problem.code for each in result.findings], result.exit_code) == (
        ["HW-SCRIPT-QUERY-MISSING"],
        code,
    )


def test_a_script_that_makes_a_pipeline_after_all(monkeypatch: pytest.MonkeyPatch, job: Path) -> None:
    ran(monkeypatch, ScriptRun(declares=True, spark=False, ended=True))
    assert [each.problem.code for each in check(job).findings] == ["HW-PIPELINE-NOT-FOUND"]


def test_a_script_can_not_be_judged_offline(job: Path) -> None:
    with pytest.raises(UsageError) as error:
        check(job, offline=True)
    assert [problem.code for problem in error.value.problems] == ["HW-SCRIPT-OFFLINE-UNSUPPORTED"]


def test_arguments_are_for_scripts(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        check(tmp_path / "p.yml", offline=True, arguments=("a",))
    assert [problem.code for problem in error.value.problems] == ["HW-SCRIPT-ARGUMENTS-NOT-ALLOWED"]


def test_what_is_no_script(tmp_path: Path, job: Path) -> None:
    assert plain.is_script(job)
    assert not plain.is_script(tmp_path / "missing.py")
    assert not plain.is_script(f"{job}:p")
    assert not plain.is_script(tmp_path / "p.yml")


@pytest.mark.skipif(sys.platform != "linux", reason="the kinds are those of Linux")
@pytest.mark.parametrize(
    ("kind", "effects"),
    [
        (Kind.NAMESPACES, []),
        (Kind.LANDLOCK, [" could not prevent network connections"]),
        (Kind.NONE, [" could not prevent writes and network connections"]),
    ],
)
def test_a_weak_sandbox_is_a_warning(
    kind: Kind, effects: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(script, "KINDS", (kind,))
    (tmp_path / "job.py").write_text("print('no stream')\n", encoding="utf-8")
    result = plain.check_script(str(tmp_path / "job.py"))
    assert result is not None
    weak = [each for each in result.findings if each.problem.code == "HW-SCRIPT-WEAK-SANDBOX"]
    assert len(weak) == len(effects)
    for finding, effect in zip(weak, effects, strict=True):
        assert finding.severity is Severity.WARNING
        assert effect in finding.message
