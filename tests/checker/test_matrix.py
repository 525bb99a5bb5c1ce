"""The matrix of queries, modes, sinks and triggers: what the check says is what a real start shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark import SparkContext

from tests.checker.cases import Case, modes
from tests.checker.matrix import Matrix, all_cases, run_matrix
from tests.checker.outcomes import known_outcomes, outcomes, recorded, text_hash

# All cases are judged in the set-up of the first test; a busy machine may take long.
pytestmark = pytest.mark.timeout(1_800)

# What stands for a rule that does not exist: Spark's own sentence.
IN_SPARKS_WORDS = {"HW-STREAM-OPERATION-UNSUPPORTED", "HW-MODE-UNSUPPORTED", "HW-SPARK-ANALYSIS-FAILED"}


@pytest.fixture(scope="module")
def matrix(context: SparkContext, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    cases = all_cases()
    known = known_outcomes(cases)
    unknown = [case.id for case in cases if case.id not in known]
    assert not unknown, (
        f"no real start of these is recorded for this Spark and text: run `make outcomes`: {unknown}"
    )
    return run_matrix(cases, tmp_path_factory.mktemp("matrix"), known)


@pytest.mark.feature("D1")
def test_the_check_judges_each_case_as_a_real_start_did(
    matrix: Matrix, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{matrix}")  # noqa: T201 (the confusion matrix is for the reader of the gate's output)
    assert len(matrix.judged) >= 200
    assert matrix.off_diagonal == [], str(matrix)


@pytest.mark.feature("D1", part="the table of the docs says what the check says")
def test_the_recorded_codes_are_those_of_this_check(matrix: Matrix) -> None:
    assert outcomes(matrix) == recorded(), "run `make outcomes`"


@pytest.mark.soak
def test_a_real_start_of_each_case_shows_what_is_recorded(context: SparkContext, tmp_path: Path) -> None:
    assert outcomes(run_matrix(all_cases(), tmp_path)) == recorded()


def test_a_changed_case_or_helper_has_another_text() -> None:
    case = Case("a kind", "SELECT 1")
    assert text_hash(case) == text_hash(replace(case))
    changed = [
        replace(case, query="SELECT 2"),
        replace(case, settings={"a": "b"}),
        replace(case, batch="any"),
    ]
    calls_another = replace(case, query=modes.chained)
    assert len({text_hash(each) for each in (case, *changed, calls_another)}) == 5


@pytest.mark.feature("C14.1", part="every case")
def test_a_refusal_is_explained_by_a_rule_at_a_line_with_what_to_do_instead(matrix: Matrix) -> None:
    refused = [each for each in matrix.judged if not each.accepted]
    told = {
        (each.case.id, error.problem.code)
        for each in refused
        for error in each.errors
        if error.problem.code in IN_SPARKS_WORDS or error.problem.place is None or not error.problem.hint
    }
    assert told == set()


def test_no_case_is_told_the_same_twice(matrix: Matrix) -> None:
    twice = [
        each.case.id
        for each in matrix.judged
        if len({error.problem.code for error in each.errors}) < len(each.errors)
    ]
    assert twice == []


def test_each_case_has_a_name_of_its_own() -> None:
    cases: list[Case] = all_cases()
    assert len({case.id for case in cases}) == len(cases)
