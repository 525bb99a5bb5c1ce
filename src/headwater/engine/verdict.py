"""All that stands against a start: what Spark says of a prepared pipeline, and what the rules say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headwater.checks import Finding, Reached, Situation, examine, together
from headwater.engine.prepare import Prepared, facts_of, settings_of
from headwater.engine.settings import Setting
from headwater.plan import QueryFacts
from headwater.spec import PipelineSpec


@dataclass(frozen=True)
class Verdict:
    """Findings, and settings and facts of the sinks that Spark has nothing against."""

    findings: list[Finding]
    settings: Mapping[str, tuple[Setting, ...]]
    facts: Mapping[str, QueryFacts]


def kept_settings(
    stored: Mapping[str, QueryFacts], reached: Mapping[str, Reached]
) -> dict[str, Mapping[str, str]]:
    """What froze at each query's first start: by its facts, else by what Spark wrote into the checkpoint."""
    by_spark = {sink: each.settings for sink, each in reached.items()}
    return {**by_spark, **{sink: facts.settings for sink, facts in stored.items()}}


def verdict(
    prepared: Prepared,
    spec: PipelineSpec,
    stored: Mapping[str, QueryFacts],
    reached: Callable[[], Mapping[str, Reached]],
) -> Verdict:
    """Ask every rule that can be asked; what is broken does not hide what is wrong elsewhere."""
    refused = {sink for sink, _ in prepared.problems}
    sound = [sink for sink in spec.sinks if sink.name in prepared.frames and sink.name not in refused]
    kept = kept_settings(stored, reached())
    settings = {sink.name: settings_of(prepared.session, spec, kept.get(sink.name)) for sink in sound}
    facts = {sink.name: facts_of(prepared, spec, sink, settings[sink.name]) for sink in sound}
    # A check may be asked of a pipeline that runs. A batch is planned before its sink has it: how far the
    # checkpoint has come is looked up after what the sink holds, so that the sink is never ahead by mistake.
    situation = Situation(spec, prepared.graph, facts, stored, reached(), whole=not prepared.problems)
    by_spark = [Finding(problem, sink=sink) for sink, problem in prepared.problems]
    return Verdict(together(by_spark, examine(situation)), settings, facts)
