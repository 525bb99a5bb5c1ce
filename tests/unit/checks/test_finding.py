"""A finding as users of Python read it."""

from __future__ import annotations

from headwater.checks import Finding, Severity
from headwater.checks.declarations import unused_table
from headwater.values import Position


def test_a_finding_tells_what_its_problem_tells() -> None:
    problem = unused_table.entry.at(Position("p.yml", 7), kind="table", name="old")
    finding = Finding(problem, Severity.WARNING)
    assert (finding.code, finding.where) == ("HW-UNUSED", problem.where)
    assert (finding.sentence, finding.remedy) == (problem.sentence, problem.remedy)
    told = finding.to_json()
    assert (told["code"], told["sentence"], told["remedy"]) == (
        finding.code,
        finding.sentence,
        finding.remedy,
    )
    assert "where" not in told


def test_a_finding_without_a_line_is_nowhere() -> None:
    assert Finding(unused_table.entry.at(None, kind="table", name="old")).where == ""
