"""What can be said about a pipeline before it starts: one class per rule, findings with a severity."""

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
    "together",
    "with_reasons",
]
