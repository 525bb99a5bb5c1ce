"""Findings that are accepted, each with a reason: by the pipeline file, or where a program is checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from headwater.checks.rules import Finding, Query, Severity, all_rules, use_mode
from headwater.connectors import all_connectors
from headwater.errors import Problem
from headwater.errors.catalogue import ENTRIES
from headwater.errors.catalogue.pipelines import SUPPRESS_CODE_UNKNOWN, SUPPRESS_NOT_ALLOWED, SUPPRESS_UNUSED
from headwater.errors.catalogue.running import (
    MODE_UNSUPPORTED,
    SPARK_ANALYSIS_FAILED,
    STREAM_OPERATION_UNSUPPORTED,
)
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
        named = f"the sink `{self.sink}`" if self.sink else f"the table `{self.table}`" if self.table else ""
        return self.by or named or "the pipeline"

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
    return [*(_with_reason(finding, accepts) for finding in found), *mistakes]


def with_reasons(findings: Iterable[Finding], spec: PipelineSpec) -> list[Finding]:
    """The findings, those that the file accepts with its reason."""
    accepts = tuple(accepts_of(spec))
    return [_with_reason(finding, accepts) for finding in findings]


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


def _with_reason(finding: Finding, accepts: tuple[Accept, ...]) -> Finding:
    reasons = (accept.reason for accept in accepts if accept.fits(finding))
    return replace(finding, accepted=next(reasons, "")) if _may_be_accepted(finding) else finding


def _may_be_accepted(finding: Finding) -> bool:
    return finding.severity is not Severity.ERROR or finding.acceptable


def _mistakes(accept: Accept, found: list[Finding], complete: bool) -> Iterator[Finding]:
    """What is wrong with one accepted code, if anything is."""

    def mistake(problem: Problem, severity: Severity = Severity.ERROR) -> Finding:
        return Finding(problem, severity, accept.sink, accept.table)

    where, code = accept.where, accept.code
    fitting = [finding for finding in found if accept.fits(finding)]
    rules = [rule for rule in all_rules().values() if code in {entry.code for entry in rule.entries}]
    if not fitting and code not in _codes():
        hint = did_you_mean(code, _codes(), "Take it out of `accept`.")
        hint = did_you_mean(code, _codes_of_rules(), hint)
        yield mistake(SUPPRESS_CODE_UNKNOWN.at(accept.place, where=where, code=code, hint=hint))
    elif not all(map(_may_be_accepted, fitting)):
        says = "rows would be lost or wrong, or Spark would refuse the query"
        says = says if rules else "Spark would refuse the query"
        yield mistake(SUPPRESS_NOT_ALLOWED.at(accept.place, where=capitalized(where), code=code, says=says))
    # What may come and go is accepted in advance: it may be found tomorrow, or on another machine.
    elif not fitting and complete and all(rule.lasting for rule in rules):
        problem = SUPPRESS_UNUSED.at(accept.place, where=capitalized(where), code=code)
        yield mistake(problem, Severity.WARNING)


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
    facts, place = query.facts, query.at()
    explained = any(each.severity is Severity.ERROR and each.sink == facts.sink for each in found)
    if facts.refusal is None or explained:
        return
    says, where = facts.refusal.says, f"the query of the sink `{facts.sink}`"
    problem = SPARK_ANALYSIS_FAILED.at(place, where=where, says=says)
    if facts.refusal.condition.startswith(_MODE):
        reason = says.split(". ", 1)[-1]
        reason, hint = reason[:1].lower() + reason[1:], use_mode(facts, "change the query")
        problem = MODE_UNSUPPORTED.at(place, sink=facts.sink, mode=facts.mode, says=reason, hint=hint)
    elif facts.refusal.condition == _CHECKER:
        problem = STREAM_OPERATION_UNSUPPORTED.at(
            place, where=capitalized(where), says=says, hint=use_mode(facts)
        )
    yield Finding(problem, sink=facts.sink)


# Queries of plain programs, checked by every rule that looks at one query.


def about_query(facts: QueryFacts, place: Position | None) -> list[Finding]:
    """What is said of a query; all of it stands at the line that starts it."""
    return check_query(
        Query(facts, at=lambda *key: place, source_at=lambda name, *key: place, where=lambda step: place)
    )
