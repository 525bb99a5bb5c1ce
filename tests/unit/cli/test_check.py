"""`--suppress` and `--rate` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors.catalogue.programs import CHECKPOINT_TEMPORARY
from headwater.programs import script
from headwater.programs.script import CapturedQuery, ScriptRun
from tests.unit.checks.facts import facts
from tests.unit.cli.conftest import Headwater

CODE = "HW-CHECKPOINT-TEMPORARY"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script with one finding."""
    run = ScriptRun(
        [CapturedQuery(facts(), None, doubts=(CHECKPOINT_TEMPORARY.at(name="out"),))], spark=True, ended=True
    )
    monkeypatch.setattr(script, "run_script", lambda *order: run)
    file = tmp_path / "job.py"
    file.write_text("print('a job')\n", encoding="utf-8")
    return file


def test_a_finding_is_accepted_with_its_reason(headwater: Headwater, job: Path) -> None:
    assert headwater("check", job, "--strict", "--json").code == 3
    answer = headwater("check", job, "--strict", "--json", "--suppress", f"{CODE}=for a = b only")
    (found,) = answer.json["findings"]
    assert (answer.code, found["code"], found["suppressed"]) == (0, CODE, "for a = b only")


@pytest.mark.parametrize("given", [CODE, f"{CODE}=", f"{CODE}= "])
def test_a_reason_is_wanted(headwater: Headwater, job: Path, given: str) -> None:
    answer = headwater("check", job, "--json", "--suppress", given)
    assert answer.code == 2
    assert [each["code"] for each in answer.json["problems"]] == ["HW-SUPPRESS-REASON-MISSING"]


PIPELINE = """
name: p
sources: {clicks: {connector: rate}}
sinks: {out: {reads: clicks, connector: noop}}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    file = tmp_path / "pipeline.yml"
    file.write_text(PIPELINE, encoding="utf-8")
    return file


def test_a_rate_of_a_source_is_taken(headwater: Headwater, pipeline: Path) -> None:
    assert headwater("check", "--offline", pipeline, "--rate", "clicks=1000/s").code == 0


@pytest.mark.parametrize(
    ("rate", "code"),
    [
        ("clicks", "HW-RATE-INVALID"),
        ("clicks=5/x", "HW-RATE-INVALID"),
        ("clik=5", "HW-RATE-SOURCE-NOT-FOUND"),
    ],
)
def test_what_is_no_rate_is_refused(headwater: Headwater, pipeline: Path, rate: str, code: str) -> None:
    for command in (("check", "--offline"), ("explain",)):
        answer = headwater(*command, pipeline, "--rate", rate, "--json")
        assert (answer.code, [each["code"] for each in answer.json["problems"]]) == (2, [code])
