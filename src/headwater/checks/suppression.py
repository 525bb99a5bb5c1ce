"""Suppressed findings, each with a reason from the pipeline file or from the check of a script."""

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
from headwater.values.renamed import CODES


@dataclass(frozen=True)
class Suppression:
    """A suppressed code: everywhere, in one table, or in the query of one sink."""

    code: str
    reason: str
    place: Position | None
    table: str = ""
    sink: str = ""
    by: str = ""
    """What suppresses it, if not a pipeline file."""

    @property
    def where(self) -> str:
        named = f"sink `{self.sink}`" if self.sink else f"table `{self.table}`" if self.table else ""
        return self.by or named or "the pipeline"

    def fits(self, finding: Finding) -> bool:
        return (
            finding.problem.code == self.code
            and self.table in ("", finding.table)
            and self.sink in ("", finding.sink)
        )


def suppressed(findings: Iterable[Finding], spec: PipelineSpec, *, complete: bool = False) -> list[Finding]:
    """The findings, with the reasons from the file, and the problems of its `suppress` keys.

    `complete` means that all rules ran, so a suppressed code without a finding is unused.
    """
    return suppressed_by(tuple(suppressions_of(spec)), findings, complete=complete)


def suppressed_by(
    suppressions: tuple[Suppression, ...], findings: Iterable[Finding], *, complete: bool = False
) -> list[Finding]:
    """The same for suppressions that are not in a pipeline file."""
    found = list(findings)
    mistakes = (each for suppress in suppressions for each in _mistakes(suppress, found, complete))
    return [*(_with_reason(finding, suppressions) for finding in found), *mistakes]


def with_reasons(findings: Iterable[Finding], spec: PipelineSpec) -> list[Finding]:
    """The findings, with the reasons from the file for those it suppresses."""
    suppressions = tuple(suppressions_of(spec))
    return [_with_reason(finding, suppressions) for finding in findings]


def suppressions_of(spec: PipelineSpec) -> Iterator[Suppression]:
    """All suppressions of the file, the most specific first."""
    for sink in spec.sinks:
        for code, reason in sink.suppress.items():
            yield Suppression(code, reason, sink.at("suppress", code), sink=sink.name)
    for table in spec.tables:
        for code, reason in table.suppress.items():
            yield Suppression(code, reason, table.at("suppress", code), table=table.name)
    for code, reason in spec.suppress.items():
        yield Suppression(code, reason, spec.at("suppress", code))


def _with_reason(finding: Finding, suppressions: tuple[Suppression, ...]) -> Finding:
    reasons = (suppress.reason for suppress in suppressions if suppress.fits(finding))
    return replace(finding, suppressed=next(reasons, "")) if _may_be_suppressed(finding) else finding


def _may_be_suppressed(finding: Finding) -> bool:
    return finding.severity is not Severity.ERROR or finding.suppressible


def _mistakes(suppress: Suppression, found: list[Finding], complete: bool) -> Iterator[Finding]:
    """The problems of one suppression."""

    def mistake(problem: Problem, severity: Severity = Severity.ERROR) -> Finding:
        return Finding(problem, severity, suppress.sink, suppress.table)

    where, code = suppress.where, suppress.code
    fitting = [finding for finding in found if suppress.fits(finding)]
    rules = [rule for rule in all_rules().values() if code in {entry.code for entry in rule.entries}]
    if not fitting and code not in _codes():
        hint = did_you_mean(code, _codes(), "Remove it from `suppress`.")
        hint = did_you_mean(code, _codes_of_rules(), hint)
        hint = f"Write `{CODES[code]}`: the code was renamed." if code in CODES else hint
        yield mistake(SUPPRESS_CODE_UNKNOWN.at(suppress.place, where=where, code=code, hint=hint))
    elif not all(map(_may_be_suppressed, fitting)):
        says = "rows would be lost or wrong, or Spark would reject the query"
        says = says if rules else "Spark would reject the query"
        yield mistake(SUPPRESS_NOT_ALLOWED.at(suppress.place, where=capitalized(where), code=code, says=says))
    # A finding that depends on the environment can be suppressed in advance.
    elif not fitting and complete and all(rule.lasting for rule in rules):
        problem = SUPPRESS_UNUSED.at(suppress.place, where=capitalized(where), code=code)
        yield mistake(problem, Severity.WARNING)


def _codes_of_rules() -> frozenset[str]:
    return frozenset(entry.code for rule in all_rules().values() for entry in rule.entries)


@cache
def _codes() -> frozenset[str]:
    """All codes; those of rules and connectors are not in the catalogue."""
    of_connectors = (entry for each in all_connectors().values() for entry in each.errors.values())
    return _codes_of_rules() | {entry.code for entry in (*ENTRIES.values(), *of_connectors)}


# All findings of one query, and what Spark rejects without a rule that explains it.

_MODE = "STREAMING_OUTPUT_MODE"
_CHECKER = "_LEGACY_ERROR_TEMP_3102"
"""Spark's condition for nearly all errors of its streaming checker."""


def check_query(query: Query) -> list[Finding]:
    """The findings of all query rules, or Spark's error if no rule reports one."""
    found = [finding for rule in all_rules().values() for finding in rule.about(query)]
    return [*found, *unexplained(query, found)]


def unexplained(query: Query, found: Iterable[Finding]) -> Iterator[Finding]:
    """The error with which Spark rejects the query, if no rule reports an error for the sink."""
    facts, place = query.facts, query.at()
    explained = any(each.severity is Severity.ERROR and each.sink == facts.sink for each in found)
    if facts.refusal is None or explained:
        return
    says, where = facts.refusal.says, f"the query of sink `{facts.sink}`"
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


# Queries of PySpark scripts, checked by every query rule.


def about_query(facts: QueryFacts, place: Position | None) -> list[Finding]:
    """The findings of a query, all located at the line that starts it."""
    return check_query(
        Query(facts, at=lambda *key: place, source_at=lambda name, *key: place, where=lambda step: place)
    )
