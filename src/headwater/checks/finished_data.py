"""A rule over keys that count for finished data only."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.connectors import source_side
from headwater.errors.catalogue.kafka import FINISHED_DATA_ONLY


class FinishedDataOnly(Rule):
    """A stream has no end: where reading ends counts for a static source, and under `run --batch`."""

    entries = {FINISHED_DATA_ONLY: Severity.ADVICE}
    example = """
        sources:
          clicks: {connector: kafka, servers: "kafka:9092", topic: clicks, end: {time: "2026-01-31"}}
    """
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for source in situation.spec.sources:
            keys = source_side(source.connector).batch_keys
            for key in keys if not source.static else ():
                if (key,) in source.places:
                    problem = FINISHED_DATA_ONLY.at(source.at(key), key=key, source=source.name)
                    yield Finding(problem, Severity.ADVICE)
