"""The analyzed pipeline: which table reads which, and what Spark does for each sink."""

from headwater.plan.facts import QueryFacts, Refusal, SourceFacts
from headwater.plan.graph import Graph, Reference, sql_references

__all__ = ["Graph", "QueryFacts", "Reference", "Refusal", "SourceFacts", "sql_references"]
