"""`headwater check`: everything that can be said before a start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from headwater.api.results import CheckResult
from headwater.checks import Finding, Severity, Situation, examine, together
from headwater.engine.loading import load
from headwater.errors import EnvironmentProblem, PipelineError
from headwater.events import Event, SparkStarting
from headwater.plan import Graph
from headwater.spec import PipelineSpec


def check(
    file: str | Path,
    *,
    offline: bool = False,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    emit: Callable[[Event], None] = lambda event: None,
) -> CheckResult:
    """Check a pipeline file; offline no JVM is started."""
    try:
        spec = load(file)
    except PipelineError as error:
        return _result(str(file), None, offline, [Finding(problem) for problem in error.problems])
    findings = check_spec(spec, offline=offline, master=master, conf=conf, emit=emit)
    return _result(str(file), spec.name, offline, findings)


def check_spec(
    spec: PipelineSpec,
    *,
    offline: bool = False,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    emit: Callable[[Event], None] = lambda event: None,
) -> list[Finding]:
    """Check a loaded pipeline."""
    graph = Graph.of(spec)
    found = together(map(Finding, graph.problems), examine(Situation(spec, graph)))
    if offline:
        return found
    # Loaded only here, so that an offline check stays free of PySpark.
    from headwater.api.full_check import check_with_spark

    emit(SparkStarting())
    try:
        return check_with_spark(spec, master, conf)
    except EnvironmentProblem as error:
        # What is known without Spark is told all the same, if the pipeline would not start anyway.
        if all(finding.severity is not Severity.ERROR for finding in found):
            raise
        return together(map(Finding, error.problems), found)


def _result(file: str, pipeline: str | None, offline: bool, findings: list[Finding]) -> CheckResult:
    return CheckResult(file, pipeline, offline, tuple(together(findings)))
