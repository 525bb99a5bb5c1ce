"""A rule about rows that are judged in another way while queries stand at different places."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.checkpoint import Read
from headwater.checks.finding import Finding, Severity
from headwater.checks.rule import Rule, Situation
from headwater.errors.catalogue.quarantine import JUDGED_APART
from headwater.errors.problems import shown_file
from headwater.plan.quarantine import fed_again, quarantine_of


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
            readers = _begun(situation, declared.name)
            if not any(_changed(situation, sink, declared.name) for sink in readers):
                continue
            if _apart(situation, readers, declared.name):
                queries = ", ".join(f"`{sink}`" for sink in readers)
                problem = JUDGED_APART.at(declared.position, name=declared.name, queries=queries, file=file)
                yield Finding(problem, Severity.WARNING)


def _begun(situation: Situation, name: str) -> list[str]:
    """The queries that read it and go on, and always its quarantine: one that was killed before its first
    batch has yet to read the rows that others have left out."""
    reading = [sink for sink, facts in situation.facts.items() if name in facts.verdicts]
    return [sink for sink in reading if sink in situation.reached or sink == quarantine_of(name)]


def _changed(situation: Situation, sink: str, name: str) -> bool:
    """Whether rows are judged by something else than at the last start, which older facts don't tell."""
    then = situation.stored.get(sink)
    before = then.verdicts.get(name) if then else None
    return before is not None and before != situation.facts[sink].verdicts[name]


def _apart(situation: Situation, readers: list[str], name: str) -> bool:
    """Whether they have not all read the same, or it can't be told of one."""
    below = situation.graph.upstream(name)
    inputs = {*below, *map(fed_again, below)}
    told = [situation.reached[sink].committed() if sink in situation.reached else {} for sink in readers]
    read = [
        {each: found for each, found in reads.items() if each in inputs and found != Read()}
        for reads in told
        if reads is not None
    ]
    unknown = len(read) < len(told)
    return len(told) > 1 and (unknown or any(each != read[0] for each in read))
