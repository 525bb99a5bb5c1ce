"""Everything that blocks a start: errors from Spark for a prepared pipeline, and findings of the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from headwater.checks import (
    Finding,
    Reached,
    Situation,
    examine,
    query_of,
    refused_quarantines,
    suppressed,
    together,
)
from headwater.checks.suppression import unexplained
from headwater.engine.facts import facts_of, group_facts
from headwater.engine.plan_record import Owners
from headwater.engine.prepare import Prepared, settings_of
from headwater.engine.session import Setting
from headwater.plan import QueryFacts
from headwater.plan.reader import Steps
from headwater.spec import PipelineSpec


@dataclass(frozen=True)
class CheckOutcome:
    """Findings, and the settings and facts of the sinks that Spark accepts."""

    findings: list[Finding]
    settings: Mapping[str, tuple[Setting, ...]]
    facts: Mapping[str, QueryFacts]
    """Of each sink, by name."""
    groups: Mapping[str, QueryFacts] = field(default_factory=dict)
    """Of the query of each group."""

    def with_findings(self, *more: Iterable[Finding]) -> CheckOutcome:
        """The same, with additional findings."""
        return replace(self, findings=together(self.findings, *more))


def kept_settings(
    stored: Mapping[str, QueryFacts], reached: Mapping[str, Reached]
) -> dict[str, Mapping[str, str]]:
    """What froze at each query's first start: from its metadata, else from Spark's checkpoint."""
    by_spark = {sink: each.settings for sink, each in reached.items()}
    return {**by_spark, **{sink: facts.settings for sink, facts in stored.items()}}


def check_outcome(
    prepared: Prepared,
    spec: PipelineSpec,
    stored: Mapping[str, QueryFacts],
    reached: Callable[[], Mapping[str, Reached]],
    written_by: Mapping[str, str] | None = None,
) -> CheckOutcome:
    """Run every rule that applies; an invalid part does not hide problems elsewhere."""
    frames = prepared.frames
    streams = [sink for sink in spec.sinks if sink.name in frames and frames[sink.name].isStreaming]
    kept = kept_settings(_with_siblings(spec, stored), reached())
    settings = {sink.name: settings_of(prepared.session, spec, kept.get(sink.name)) for sink in streams}
    owners, known = Owners.of(prepared.builder.frames), dict[str, Steps]()
    facts = {
        sink.name: facts_of(prepared, spec, sink, settings[sink.name], owners, known) for sink in streams
    }
    groups = {
        query.name: group_facts(prepared, spec, query, settings[query.sinks[0].name])
        for query in spec.queries
        if query.is_group and query.name in frames and query.sinks[0].name in settings
    }
    # A check may run while the pipeline runs. A batch is planned before its sink receives it: the progress of
    # the checkpoint is read after the contents of the sink, so that the sink never appears to be ahead.
    whole = not prepared.problems
    situation = Situation(
        spec, prepared.graph, facts, stored, reached(), whole=whole, written_by=written_by or {}
    )
    by_spark = [Finding(problem, sink=sink) for sink, problem in prepared.problems]
    findings = [*by_spark, *examine(situation)]
    findings += [each for judged in facts.values() for each in unexplained(query_of(spec, judged), findings)]
    # Other findings about a query that will not start are of no use to the user.
    never = refused_quarantines(findings)
    findings = [each for each in findings if each.sink not in never]
    found = suppressed(findings, spec, complete=situation.sound)
    return CheckOutcome(together(found), settings, facts, groups)


def _with_siblings(spec: PipelineSpec, stored: Mapping[str, QueryFacts]) -> dict[str, QueryFacts]:
    """The stored facts; for a sink that is new in its group, those of another sink of the same query."""
    found = dict(stored)
    for query in spec.queries:
        known = next((stored[sink.name] for sink in query.sinks if sink.name in stored), None)
        for sink in query.sinks:
            if known:
                found.setdefault(sink.name, known)
    return found
