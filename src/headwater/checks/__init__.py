"""What can be said about a pipeline before it starts: one class per rule, findings with a severity."""

from headwater.checks.accepting import accepted, with_reasons
from headwater.checks.finding import Finding, Severity
from headwater.checks.registry import GROUP, all_rules, examine, together
from headwater.checks.rule import Query, QueryRule, Reached, Rule, Situation, query_of

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
