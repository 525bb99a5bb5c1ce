"""A rule about rows that are judged in another way while queries stand at different places."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checkpoint import Read
from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.errors.catalogue.quarantine import JUDGED_APART
from headwater.errors.problems import shown_file
from headwater.plan.quarantine import fed_again


class JudgedApart(Rule):
    """Each query reads a source by itself. A row that one has left out as bad, and that another one now reads
    as good, is missing in the first; if the other one is the quarantine, it is not set aside either."""

    entries = {JUDGED_APART: Severity.WARNING}
    example = """
        sources:
          orders:
            connector: files
            path: orders/
            format: json
            schema: {id: int, cost: double}   # cost was int, and `quarantine.orders` has not read all files
            bad_rows: quarantine
    """
    lasting = False
    asks_parts = True

    def findings(self, situation: Situation) -> Iterator[Finding]:
        file = shown_file(situation.spec.declared_in) or "FILE"
        for declared in situation.spec.readable:
            readers = [sink for sink in situation.reached if _reads(situation, sink, declared.name)]
            if not any(_changed(situation, sink, declared.name) for sink in readers):
                continue
            apart = _apart(situation, readers, declared.name)
            if apart:
                queries = ", ".join(f"`{sink}`" for sink in apart)
                problem = JUDGED_APART.at(declared.position, name=declared.name, queries=queries, file=file)
                yield Finding(problem, Severity.WARNING)


def _reads(situation: Situation, sink: str, name: str) -> bool:
    return sink in situation.facts and name in situation.facts[sink].verdicts


def _changed(situation: Situation, sink: str, name: str) -> bool:
    """Whether rows are judged by something else than at the last start, which older facts don't tell."""
    then = situation.stored.get(sink)
    before = then.verdicts.get(name) if then else None
    return before is not None and before != situation.facts[sink].verdicts[name]


def _apart(situation: Situation, readers: list[str], name: str) -> list[str]:
    """The queries, where they have not all read the same."""
    below = situation.graph.upstream(name)
    inputs = {*below, *map(fed_again, below)}
    told = {sink: situation.reached[sink].committed() for sink in readers}
    read = {
        sink: {each: found for each, found in reads.items() if each in inputs and found != Read()}
        for sink, reads in told.items()
        if reads is not None
    }
    first = next(iter(read.values()), {})
    return list(read) if any(each != first for each in read.values()) else []
