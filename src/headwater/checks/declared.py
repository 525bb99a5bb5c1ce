"""Rules over what was declared; they need no Spark."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.errors.catalogue.running import SECRET_NOT_SET, SQL_UNKNOWN_OFFLINE, UNUSED
from headwater.values import Secret


class UnusedTable(Rule):
    """A source or table that no sink reads does nothing; most often a name is misspelt somewhere."""

    def findings(self, situation: Situation) -> Iterator[Finding]:
        graph, spec = situation.graph, situation.spec
        if None in graph.reads.values():
            return
        names = {name.lower(): name for name in spec.names}
        used = set(graph.upstream(*(names[sink.reads.lower()] for sink in spec.sinks)))
        for thing in spec.readable:
            if thing.name not in used:
                kind = "source" if thing in spec.sources else "table"
                yield Finding(UNUSED.at(thing.position, kind=kind, name=thing.name), Severity.WARNING)


class SecretNotSet(Rule):
    """A secret that is not set here may well be set where the pipeline runs; the run itself refuses."""

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for thing in situation.spec.connected:
            for value in thing.options.options.values():
                for name in value.missing(situation.environ) if isinstance(value, Secret) else ():
                    yield Finding(SECRET_NOT_SET.at(thing.position, name=name), Severity.WARNING)


class NotKnownOffline(Rule):
    """SQL that only Spark's own parser reads; without Spark it is unknown, never an error."""

    def findings(self, situation: Situation) -> Iterator[Finding]:
        for table in situation.spec.tables:
            if situation.graph.reads.get(table.name) is None:
                yield Finding(SQL_UNKNOWN_OFFLINE.at(table.position, name=table.name), Severity.ADVICE)
