"""What a rule about query and mode is, and how it tells another mode that would do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace

from headwater.checks.finding import Finding
from headwater.checks.registry import all_rules
from headwater.checks.rule import Query, QueryRule
from headwater.checks.steps import MODES
from headwater.plan import QueryFacts
from headwater.plan.operators import Operator


class ModeRule(QueryRule):
    """A rule about which modes a query can have; `objects` is asked of other modes, too, for the remedy."""

    @abstractmethod
    def objects(self, facts: QueryFacts) -> Iterator[Operator | None]:
        """The steps that can't be in the mode of the facts; None where it is the query as a whole."""

    @abstractmethod
    def finding(self, query: Query, step: Operator | None) -> Finding:
        """What to say of such a step."""

    def about(self, query: Query) -> Iterator[Finding]:
        for step in self.objects(query.facts):
            yield self.finding(query, step)


def other_modes(facts: QueryFacts) -> list[str]:
    """The modes besides the sink's that the query can have, of those that the sink takes."""
    taken = facts.modes or MODES
    return [
        mode
        for mode in MODES
        if mode in taken and mode != facts.mode and not _refused(replace(facts, mode=mode))
    ]


def use_mode(facts: QueryFacts, *ways: str) -> str:
    """A remedy: another mode where one helps, or else one of the other ways."""
    modes = other_modes(facts)
    every = [*([f"use {' or '.join(modes)} mode"] if modes else []), *ways] or ["change the query"]
    said = "; or ".join(every)
    return f"{said[:1].upper()}{said[1:]}."


def _refused(facts: QueryFacts) -> bool:
    rules = [rule for rule in all_rules().values() if isinstance(rule, ModeRule)]
    return any(True for rule in rules for _ in rule.objects(facts))
