"""What can be said about a pipeline before it starts: one class per rule, findings with a severity."""

from headwater.checks.declared import unqueried
from headwater.checks.expectations import refused_quarantines
from headwater.checks.rule import (
    GROUP,
    Finding,
    Query,
    QueryRule,
    Reached,
    Rule,
    Severity,
    Situation,
    all_rules,
    examine,
    query_of,
    together,
)
from headwater.checks.suppression import accepted, with_reasons

__all__ = [
    "GROUP",
    "Finding",
    "Query",
    "QueryRule",
    "Reached",
    "Rule",
    "Severity",
    "Situation",
    "accepted",
    "all_rules",
    "examine",
    "query_of",
    "refused_quarantines",
    "together",
    "unqueried",
    "with_reasons",
]
