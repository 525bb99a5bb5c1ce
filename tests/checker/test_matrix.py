"""The matrix of queries, modes, sinks and triggers: what the check says is what a real start shows."""

from __future__ import annotations

import pytest
from pyspark import SparkContext

from tests.checker.cases import Case
from tests.checker.matrix import Matrix, all_cases, first_cases, run_matrix
from tests.checker.outcomes import committed, known_outcomes, outcomes

# All cases run in the set-up of the first test; a busy machine may take long.
pytestmark = pytest.mark.timeout(1_800)

# What stands for a rule that does not exist: Spark's own sentence.
IN_SPARKS_WORDS = {"HW-NOT-ON-A-STREAM", "HW-MODE-NOT-SUPPORTED", "HW-SPARK-REFUSES"}


@pytest.fixture(scope="module")
def matrix(context: SparkContext, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    cases = first_cases()
    return run_matrix(cases, tmp_path_factory.mktemp("matrix"), known_outcomes(cases))


@pytest.mark.feature("D1")
def test_the_check_judges_each_case_as_a_real_start_does(
    matrix: Matrix, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{matrix}")  # noqa: T201 (the confusion matrix is for the reader of the gate's output)
    assert sum(each.started for each in matrix.judged) >= 150
    assert matrix.off_diagonal == [], str(matrix)


@pytest.mark.feature("D1", part="the table of the docs is of this run")
def test_the_committed_outcomes_are_those_of_this_run(matrix: Matrix) -> None:
    whole = committed()
    assert set(whole) == {case.id for case in all_cases()}, "run `make outcomes`"
    fresh = outcomes(matrix)
    assert fresh == {name: whole[name] for name in fresh}, "run `make outcomes`"


@pytest.mark.feature("C14.1", part="every case")
def test_a_refusal_is_explained_by_a_rule_at_a_line_with_what_to_do_instead(matrix: Matrix) -> None:
    refused = [each for each in matrix.judged if not each.accepted]
    told = {
        (each.case.id, error.problem.code)
        for each in refused
        for error in each.errors
        if error.problem.code in IN_SPARKS_WORDS or error.problem.place is None or not error.problem.remedy
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
