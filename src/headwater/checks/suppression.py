"""Findings that are accepted, each with a reason: by the pipeline file, or where a program is checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from headwater.checks.rules import Finding, Query, Severity, all_rules, use_mode
from headwater.connectors import all_connectors
from headwater.errors import Problem
from headwater.errors.catalogue import ENTRIES
from headwater.errors.catalogue.pipelines import ACCEPT_REFUSED, ACCEPT_UNKNOWN, ACCEPT_UNMATCHED
from headwater.errors.catalogue.running import MODE_NOT_SUPPORTED, NOT_ON_A_STREAM, SPARK_REFUSES
from headwater.plan import QueryFacts
from headwater.spec import PipelineSpec
from headwater.values import Position, capitalized, did_you_mean


@dataclass(frozen=True)
class Accept:
    """A code that is accepted: everywhere, in one table, or in the query of one sink."""

    code: str
    reason: str
    place: Position | None
    table: str = ""
    sink: str = ""
    by: str = ""
    """Who accepts it, where that is no pipeline file."""

    @property
    def where(self) -> str:
        if self.by:
            return self.by
        if self.sink:
            return f"the sink `{self.sink}`"
        return f"the table `{self.table}`" if self.table else "the pipeline"

    def fits(self, finding: Finding) -> bool:
        return (
            finding.problem.code == self.code
            and self.table in ("", finding.table)
            and self.sink in ("", finding.sink)
        )


def accepted(findings: Iterable[Finding], spec: PipelineSpec, *, complete: bool = False) -> list[Finding]:
    """The findings, those that the file accepts with its reason; and what is wrong with what it accepts.

    `complete` says that everything was asked: what is accepted and was not found is not there.
    """
    return accepted_by(tuple(accepts_of(spec)), findings, complete=complete)


def accepted_by(
    accepts: tuple[Accept, ...], findings: Iterable[Finding], *, complete: bool = False
) -> list[Finding]:
    """The same for what was accepted elsewhere than in a file."""
    found = list(findings)
    mistakes = (each for accept in accepts for each in _mistakes(accept, found, complete))
    return [*(_taken(finding, accepts) for finding in found), *mistakes]


def with_reasons(findings: Iterable[Finding], spec: PipelineSpec) -> list[Finding]:
    """The findings, those that the file accepts with its reason."""
    accepts = tuple(accepts_of(spec))
    return [_taken(finding, accepts) for finding in findings]


def accepts_of(spec: PipelineSpec) -> Iterator[Accept]:
    """Everything that the file accepts, the nearest to a finding first."""
    for sink in spec.sinks:
        for code, reason in sink.accept.items():
            yield Accept(code, reason, sink.at("accept", code), sink=sink.name)
    for table in spec.tables:
        for code, reason in table.accept.items():
            yield Accept(code, reason, table.at("accept", code), table=table.name)
    for code, reason in spec.accept.items():
        yield Accept(code, reason, spec.at("accept", code))


def _taken(finding: Finding, accepts: tuple[Accept, ...]) -> Finding:
    if not _may_be_accepted(finding):
        return finding
    reason = next((accept.reason for accept in accepts if accept.fits(finding)), "")
    return replace(finding, accepted=reason) if reason else finding


def _may_be_accepted(finding: Finding) -> bool:
    return finding.severity is not Severity.ERROR or finding.acceptable


def _mistakes(accept: Accept, found: list[Finding], complete: bool) -> Iterator[Finding]:
    """What is wrong with one accepted code, if anything is."""
    said = {"where": accept.where, "code": accept.code}
    upper = {**said, "where": capitalized(accept.where)}
    fitting = [finding for finding in found if accept.fits(finding)]
    if not fitting and accept.code not in _codes():
        yield _mistake(accept, ACCEPT_UNKNOWN.at(accept.place, **said, hint=_hint(accept.code)))
    elif not all(map(_may_be_accepted, fitting)):
        by_rule = accept.code in _codes_of_rules()
        says = "rows would be lost or wrong, or Spark would refuse the query" if by_rule else _NO_START
        yield _mistake(accept, ACCEPT_REFUSED.at(accept.place, **upper, says=says))
    elif not fitting and complete and _is_lasting(accept.code):
        yield _mistake(accept, ACCEPT_UNMATCHED.at(accept.place, **upper), Severity.WARNING)


_NO_START = "Spark would refuse the query"


def _mistake(accept: Accept, problem: Problem, severity: Severity = Severity.ERROR) -> Finding:
    return Finding(problem, severity, accept.sink, accept.table)


def _hint(code: str) -> str:
    otherwise = did_you_mean(code, _codes(), "Take it out of `accept`.")
    return did_you_mean(code, _codes_of_rules(), otherwise)


def _is_lasting(code: str) -> bool:
    """Whether what is not found now will not be found tomorrow, or on another machine."""
    return all(
        rule.lasting for rule in all_rules().values() if code in {entry.code for entry in rule.entries}
    )


def _codes_of_rules() -> frozenset[str]:
    return frozenset(entry.code for rule in all_rules().values() for entry in rule.entries)


@cache
def _codes() -> frozenset[str]:
    """Every code there is: those of rules and connectors are not in the catalogue."""
    of_connectors = (entry for each in all_connectors().values() for entry in each.errors.values())
    return _codes_of_rules() | {entry.code for entry in (*ENTRIES.values(), *of_connectors)}


# All that is said of one query, and what Spark refuses where no rule knows why.

_MODE = "STREAMING_OUTPUT_MODE"
_CHECKER = "_LEGACY_ERROR_TEMP_3102"
"""Spark's name for nearly all that its streaming checker says."""


def check_query(query: Query) -> list[Finding]:
    """What the rules over facts say of a query, and Spark where they have nothing against it."""
    found = [finding for rule in all_rules().values() for finding in rule.about(query)]
    return [*found, *unexplained(query, found)]


def unexplained(query: Query, found: Iterable[Finding]) -> Iterator[Finding]:
    """What Spark refuses, in its own words, where no rule has an error for the sink."""
    sink = query.facts.sink
    explained = any(each.severity is Severity.ERROR and each.sink == sink for each in found)
    if query.facts.refusal is not None and not explained:
        yield Finding(_in_sparks_words(query), sink=sink)


def _in_sparks_words(query: Query) -> Problem:
    facts, place = query.facts, query.at()
    assert facts.refusal is not None, "Spark has refused"
    says, where = facts.refusal.says, f"the query of the sink `{facts.sink}`"
    if facts.refusal.condition.startswith(_MODE):
        reason = says.split(". ", 1)[-1]
        reason = reason[:1].lower() + reason[1:]
        return MODE_NOT_SUPPORTED.at(
            place, sink=facts.sink, mode=facts.mode, says=reason, hint=use_mode(facts, "change the query")
        )
    if facts.refusal.condition == _CHECKER:
        return NOT_ON_A_STREAM.at(place, where=f"T{where[1:]}", says=says, hint=use_mode(facts))
    return SPARK_REFUSES.at(place, where=where, says=says)


# Queries of plain programs, checked by every rule that looks at one query.


def about_query(facts: QueryFacts, place: Position | None) -> list[Finding]:
    """What is said of a query; all of it stands at the line that starts it."""
    query = Query(
        facts,
        at=lambda *key: place,
        source_at=lambda name, *key: place,
        where=lambda step: place,
    )
    return check_query(query)
