"""All that stands against a start: what Spark says of a prepared pipeline, and what the rules say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from headwater.checks import (
    Finding,
    Reached,
    Situation,
    accepted,
    examine,
    query_of,
    refused_quarantines,
    together,
)
from headwater.checks.suppression import unexplained
from headwater.engine.facts import facts_of
from headwater.engine.plan_record import Owners
from headwater.engine.prepare import Prepared, settings_of
from headwater.engine.session import Setting
from headwater.plan import QueryFacts
from headwater.plan.reader import Steps
from headwater.spec import PipelineSpec


@dataclass(frozen=True)
class CheckOutcome:
    """Findings, and settings and facts of the sinks that Spark has nothing against."""

    findings: list[Finding]
    settings: Mapping[str, tuple[Setting, ...]]
    facts: Mapping[str, QueryFacts]

    def with_findings(self, *more: Iterable[Finding]) -> CheckOutcome:
        """The same with what was found elsewhere."""
        return replace(self, findings=together(self.findings, *more))


def kept_settings(
    stored: Mapping[str, QueryFacts], reached: Mapping[str, Reached]
) -> dict[str, Mapping[str, str]]:
    """What froze at each query's first start: by its facts, else by what Spark wrote into the checkpoint."""
    by_spark = {sink: each.settings for sink, each in reached.items()}
    return {**by_spark, **{sink: facts.settings for sink, facts in stored.items()}}


def check_outcome(
    prepared: Prepared,
    spec: PipelineSpec,
    stored: Mapping[str, QueryFacts],
    reached: Callable[[], Mapping[str, Reached]],
) -> CheckOutcome:
    """Ask every rule that can be asked; what is broken does not hide what is wrong elsewhere."""
    frames = prepared.frames
    streams = [sink for sink in spec.sinks if sink.name in frames and frames[sink.name].isStreaming]
    kept = kept_settings(stored, reached())
    settings = {sink.name: settings_of(prepared.session, spec, kept.get(sink.name)) for sink in streams}
    owners, known = Owners.of(prepared.builder.frames), dict[str, Steps]()
    facts = {
        sink.name: facts_of(prepared, spec, sink, settings[sink.name], owners, known) for sink in streams
    }
    # A check may be asked of a pipeline that runs. A batch is planned before its sink has it: how far the
    # checkpoint has come is looked up after what the sink holds, so that the sink is never ahead by mistake.
    situation = Situation(spec, prepared.graph, facts, stored, reached(), whole=not prepared.problems)
    by_spark = [Finding(problem, sink=sink) for sink, problem in prepared.problems]
    findings = [*by_spark, *examine(situation)]
    findings += [each for judged in facts.values() for each in unexplained(query_of(spec, judged), findings)]
    # What else would be said of a query that is not to be says nothing to the user.
    never = refused_quarantines(findings)
    findings = [each for each in findings if each.sink not in never]
    found = accepted(findings, spec, complete=situation.sound)
    return CheckOutcome(together(found), settings, facts)
