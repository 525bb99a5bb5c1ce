"""Rules about rows that were set aside and are fed again."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.errors.catalogue.quarantine import FED_BEFORE
from headwater.plan.quarantine import fed_again


class FedBefore(Rule):
    """A new query begins with all rows of its source, and with those that were fed again before it: a row
    that can be read at its first place by now comes to it twice."""

    entries = {FED_BEFORE: Severity.WARNING}
    example = """
        sources:
          orders:   # 3 rows were fed again by `headwater quarantine replay`
            {connector: files, path: orders/, format: json, schema: {id: int}, bad_rows: quarantine}
        sinks:
          added_later: {reads: orders, connector: console}
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        sinks = {sink.name: sink for sink in situation.spec.sinks}
        for name, facts in situation.facts.items():
            if name in situation.stored or name in situation.reached:
                continue
            fed = [each.name for each in situation.spec.readable if fed_again(each.name) in facts.inputs]
            for source in fed:
                problem = FED_BEFORE.at(sinks[name].position, sink=name, source=source)
                yield Finding(problem, Severity.WARNING, name)
