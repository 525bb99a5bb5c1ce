"""A rule over keys that count at a first start only."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.connectors import source_side
from headwater.errors.catalogue.kafka import FIRST_START_ONLY


class FirstStartOnly(Rule):
    """Where a source starts counts where no checkpoint says how far was read: later starts go on from there,
    whatever the key says by then."""

    entries = {FIRST_START_ONLY: Severity.ADVICE}
    example = """
        sources:
          clicks: {connector: kafka, servers: "kafka:9092", topic: clicks, start: latest}   # it was earliest
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        graph, spec = situation.graph, situation.spec
        for source in spec.sources if None not in graph.reads.values() else ():
            keys = source_side(source.connector).first_start_keys
            written = [key for key in keys if (key,) in source.places]
            readers = graph.readers(source.name)
            going_on = [sink.name for sink in readers if sink.name in situation.reached]
            for key in written if going_on and not source.static else ():
                sinks = ", ".join(f"`{name}`" for name in going_on)
                problem = FIRST_START_ONLY.at(source.at(key), key=key, source=source.name, sinks=sinks)
                yield Finding(problem, Severity.ADVICE)
