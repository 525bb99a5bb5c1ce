"""Which rules there are: built in or from another package, all through one entry point group."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.errors import Problem

GROUP = "headwater.rules"


@cache
def all_rules() -> dict[str, Rule]:
    """Every installed rule by name."""
    return {point.name: point.load()() for point in sorted(entry_points(group=GROUP), key=lambda p: p.name)}


def examine(situation: Situation) -> list[Finding]:
    """What all rules find; of a pipeline that is broken somewhere, those are asked that look at parts."""
    asked = [rule for rule in all_rules().values() if rule.asks_parts or situation.sound]
    return [finding for rule in asked for finding in rule.findings(situation)]


def together(*groups: Iterable[Finding]) -> list[Finding]:
    """Findings of several origins, the gravest first, each once for a sink, in the order of the files.

    A warning is left out where an error says the same; what is accepted comes last.
    """
    distinct: dict[tuple[str, str], Finding] = {}
    for finding in (each for group in groups for each in group):
        distinct.setdefault((str(finding.problem), finding.sink), finding)
    # What concerns a sink is not told once more of the whole pipeline.
    of_sinks = {text for text, sink in distinct if sink}
    found = [each for (text, sink), each in distinct.items() if sink or text not in of_sinks]
    errors = [each.problem for each in found if each.severity is Severity.ERROR]
    told = [
        each
        for each in found
        if each.severity is Severity.ERROR or not any(_covers(error, each.problem) for error in errors)
    ]
    return sorted(told, key=_rank)


def _covers(error: Problem, other: Problem) -> bool:
    """Whether an error says all that another problem at the same place says."""
    return error.place == other.place and other.params.items() <= error.params.items()


def _rank(finding: Finding) -> tuple[bool, int, str, int, int]:
    return bool(finding.accepted), list(Severity).index(finding.severity), *_place(finding.problem)


def _place(problem: Problem) -> tuple[str, int, int]:
    """What concerns no line of the user's comes first."""
    return (problem.file, problem.place.line, problem.place.column) if problem.place else ("", 0, 0)
