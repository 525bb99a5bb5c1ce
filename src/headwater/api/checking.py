"""`headwater check`: everything that can be said before a start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headwater.api.loading import load
from headwater.api.results import CheckResult
from headwater.checks import Finding, Severity, Situation, examine
from headwater.errors import PipelineError, Problem
from headwater.plan import Graph
from headwater.spec import PipelineSpec

_ORDER = (Severity.ERROR, Severity.WARNING, Severity.ADVICE)


def check(
    file: str | Path,
    *,
    offline: bool = False,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> CheckResult:
    """Check a pipeline file; offline no JVM is started."""
    try:
        spec = load(file)
    except PipelineError as error:
        return _result(str(file), None, offline, [Finding(problem) for problem in error.problems])
    findings = check_spec(spec, offline=offline, master=master, conf=conf)
    return _result(str(file), spec.name, offline, findings)


def check_spec(
    spec: PipelineSpec,
    *,
    offline: bool = False,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Check a loaded pipeline."""
    graph = Graph.of(spec)
    if graph.problems:
        return [Finding(problem) for problem in graph.problems]
    if offline:
        return examine(Situation(spec, graph))
    # Loaded only here, so that an offline check stays free of PySpark.
    from headwater.api.full_check import check_with_spark

    return check_with_spark(spec, master, conf)


def _result(file: str, pipeline: str | None, offline: bool, findings: list[Finding]) -> CheckResult:
    ordered = sorted(findings, key=lambda each: (_ORDER.index(each.severity), *_place(each.problem)))
    return CheckResult(file, pipeline, offline, tuple(ordered))


def _place(problem: Problem) -> tuple[str, int, int]:
    """What concerns no line of the user's comes first."""
    return (problem.place.file, problem.place.line, problem.place.column) if problem.place else ("", 0, 0)
