"""Which rules there are: built in or from another package, all through one entry point group."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from headwater.checks.finding import Finding
from headwater.checks.rule import Rule, Situation

GROUP = "headwater.rules"


@cache
def all_rules() -> dict[str, Rule]:
    """Every installed rule by name."""
    return {point.name: point.load()() for point in sorted(entry_points(group=GROUP), key=lambda p: p.name)}


def examine(situation: Situation) -> list[Finding]:
    """What all rules find."""
    return [finding for rule in all_rules().values() for finding in rule.findings(situation)]
