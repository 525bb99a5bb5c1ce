"""What can be said about a pipeline before it starts: one class per rule, findings with a severity."""

from headwater.checks.finding import Finding, Severity
from headwater.checks.registry import GROUP, all_rules, examine, together
from headwater.checks.rule import Reached, Rule, Situation

__all__ = ["GROUP", "Finding", "Reached", "Rule", "Severity", "Situation", "all_rules", "examine", "together"]
