"""`headwater prove`: its options and its output."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.cli.prove import _inputs, _write
from headwater.cli.prove_views import ProofLines, view_of_proof
from headwater.errors import UsageError
from headwater.proof.certificate import Kill, Violation
from headwater.proof.events import Killed, Phase, Planned, Violated


def test_input_can_name_several_files_of_a_source() -> None:
    assert _inputs(["a=x.json", "a=/y", "b=z=1"]) == {
        "a": (os.path.abspath("x.json"), "/y"),
        "b": (os.path.abspath("z=1"),),
    }


@pytest.mark.parametrize("text", ["orders", "=x", "orders="])
def test_input_needs_a_source_and_a_path(text: str) -> None:
    with pytest.raises(UsageError) as error:
        _inputs([text])
    (problem,) = error.value.problems
    assert (problem.code, dict(problem.params)) == ("HW-PROVE-INPUT-INVALID", {"text": text})


def test_a_certificate_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        _write(tmp_path / "none" / "c.json", {})
    assert error.value.problems[0].code == "HW-PROVE-OUTPUT-UNWRITABLE"


def test_a_proof_is_shown_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    with view_of_proof(as_json=False) as view:
        assert type(view) is ProofLines
        view.event(Phase("Starting Spark"))
        view.event(Planned(2))
        view.event(
            Killed(
                Kill(1, "before-spark-commit", "a", "driver and JVM", True, 3, "batch 3 was planned", True)
            )
        )
        view.event(Killed(Kill(2, "worker", "a", "Python worker", False, 3, "no worker runs", False)))
        view.event(Violated(Violation("a", "rows differ", 2)))
    assert capsys.readouterr().out.splitlines() == [
        "Starting Spark …",
        "2 kills planned",
        "   1  before-spark-commit  driver and JVM  `a`  batch 3 was planned, as a crash leaves the log",
        "   2  worker               Python worker   `a`  not reached: no worker runs",
        "VIOLATION `a`: rows differ (after kill 2)",
    ]


def test_json_shows_nothing_before_the_certificate(capsys: pytest.CaptureFixture[str]) -> None:
    with view_of_proof(as_json=True) as view:
        view.event(Phase("Starting Spark"))
    assert capsys.readouterr().out == ""
