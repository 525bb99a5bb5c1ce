"""Checks of a pipeline before it starts: one function per rule, findings with a severity."""

from headwater.checks.expectations import refused_quarantines
from headwater.checks.rules import (
    GROUP,
    Finding,
    Match,
    Query,
    Reached,
    Rule,
    Severity,
    Situation,
    all_rules,
    examine,
    pipeline_rule,
    query_of,
    rule,
    together,
)
from headwater.checks.suppression import suppressed

__all__ = [
    "GROUP",
    "Finding",
    "Match",
    "Query",
    "Reached",
    "Rule",
    "Severity",
    "Situation",
    "all_rules",
    "examine",
    "pipeline_rule",
    "query_of",
    "refused_quarantines",
    "rule",
    "suppressed",
    "together",
]
