"""`headwater check`: validate a pipeline or a script before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from headwater.api.plain import TIMEOUT_SECONDS, check_script, is_script
from headwater.api.results import CheckResult, SinkChecked
from headwater.checks import Finding, Situation, examine, suppressed, together
from headwater.checks.guarantees import guarantee_offline
from headwater.checks.outline import Outline, rate_problems
from headwater.engine.pipeline_file import load
from headwater.errors import PipelineError, SetupError, UsageError
from headwater.errors.catalogue.programs import (
    SCRIPT_ARGUMENTS_NOT_ALLOWED,
    SCRIPT_OFFLINE_UNSUPPORTED,
    SUPPRESS_SCRIPT_ONLY,
)
from headwater.events import Emit, SparkStarting
from headwater.plan import Graph, QueryFacts
from headwater.plan.quarantine import with_quarantine
from headwater.spec import PipelineSpec


def loaded(pipeline: PipelineSpec | str | Path) -> PipelineSpec:
    """The pipeline of a file, or the given one, with the quarantines that it declares."""
    return with_quarantine(pipeline if isinstance(pipeline, PipelineSpec) else load(pipeline))


def check(
    pipeline: PipelineSpec | str | Path,
    *,
    offline: bool = False,
    strict: bool = False,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    rates: Mapping[str, float] | None = None,
    arguments: tuple[str, ...] = (),
    timeout: float = TIMEOUT_SECONDS,
    suppress: Mapping[str, str] | None = None,
    network: bool = False,
    emit: Emit = lambda event: None,
) -> CheckResult:
    """Check a pipeline or a pipeline file; offline, no JVM starts. `rates` are rows per second by source.

    A Python file that declares no pipeline is run as a script: with `arguments`, within `timeout` seconds,
    without network access unless `network` is set. `suppress` maps codes of its findings to reasons.
    """
    file = pipeline.declared_in if isinstance(pipeline, PipelineSpec) else str(pipeline)
    try:
        if not isinstance(pipeline, PipelineSpec) and is_script(file):
            if offline:
                raise UsageError(SCRIPT_OFFLINE_UNSUPPORTED.at(None, file=file))
            emit(SparkStarting())
            run = partial(check_script, file, arguments, seconds=timeout, network=network, strict=strict)
            of_script = run(master=master, conf=conf, rates=rates, suppress=suppress)
            if of_script is not None:
                return of_script
        elif arguments:
            raise UsageError(SCRIPT_ARGUMENTS_NOT_ALLOWED.at(None, file=file, arguments=" ".join(arguments)))
        if suppress:
            raise UsageError(SUPPRESS_SCRIPT_ONLY.at(None, file=file))
        spec = loaded(pipeline)
    except PipelineError as error:
        rejected = tuple(together(map(Finding, error.problems)))
        return CheckResult(file, None, offline, rejected, strict=strict)
    refuse_unknown_rates(spec, rates)
    graph = Graph.of(spec)
    found = together(suppressed([*map(Finding, graph.problems), *examine(Situation(spec, graph))], spec))
    facts = dict[str, QueryFacts]()
    if not offline:
        found, facts = _with_spark(spec, found, master, conf, emit)
    outlines = {name: Outline.of(each, rates) for name, each in facts.items()}
    known = {s.name: guarantee_offline(spec, graph, s) for s in spec.sinks if offline}
    sinks = tuple(
        SinkChecked(s.name, outlines.get(s.name), known.get(s.name), group=s.group) for s in spec.sinks
    )
    return CheckResult(file, spec.name, offline, tuple(found), sinks, strict)


def refuse_unknown_rates(spec: PipelineSpec, rates: Mapping[str, float] | None) -> None:
    """Raise UsageError for a rate of something that is not a streaming source."""
    problems = rate_problems(rates or {}, [source.name for source in spec.sources if not source.static])
    if problems:
        raise UsageError.of(problems)


def _with_spark(
    spec: PipelineSpec,
    found: list[Finding],
    master: str | None,
    conf: Mapping[str, str] | None,
    emit: Emit,
) -> tuple[list[Finding], dict[str, QueryFacts]]:
    """The findings, and what Spark would run for each sink without errors."""
    # Imported here, so that an offline check does not load PySpark.
    from headwater.api.analysis import check_with_spark

    emit(SparkStarting())
    try:
        outcome = check_with_spark(spec, master, conf, emit)
        return outcome.findings, dict(outcome.facts)
    except SetupError as error:
        # What is known without Spark is told all the same, if the pipeline would not start anyway.
        if not any(finding.is_error for finding in found):
            raise
        return together(map(Finding, error.problems), found), {}
