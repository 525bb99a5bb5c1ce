"""Counts in a plan: rows pass them, and nothing else in the plan looks different."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.plan.lineage import Lineage
from headwater.plan.operators import Column, Node, PlanRecord, Term
from headwater.plan.reading import steps_of

AT = Column("at", 1, "timestamp", 60_000)
STREAM = Node("StreamingRelation", stream="rows", columns=(AT,))
COUNT = Term("Alias", "all rows", 90, children=(Term("AggregateExpression", children=(Term("Count"),)),))


def counted(node: Node) -> Node:
    """A node whose rows are counted on their way up."""
    return Node("CollectMetrics", (node,), {"metrics": (COUNT,)}, columns=node.columns)


def grouped(below: Node) -> Node:
    keys = {"groupingExpressions": (Term("AttributeReference", "at", 1),)}
    return Node(
        "Aggregate", (below,), keys, sql={"groupingExpressions": ("at",), "groupingTypes": ("timestamp",)}
    )


def joined(left: Node, right: Node) -> Node:
    return Node("Join", (left, right), details={"joinType": "Inner"})


@pytest.mark.parametrize(
    ("plain", "with_counts"),
    [
        (grouped(STREAM), grouped(counted(STREAM))),
        (grouped(STREAM), counted(grouped(STREAM))),
        (
            joined(STREAM, grouped(STREAM)),
            counted(joined(counted(STREAM), counted(grouped(counted(STREAM))))),
        ),
    ],
)
def test_counts_change_nothing_but_what_batches_are_needed_for(plain: Node, with_counts: Node) -> None:
    found, wanted = steps_of(PlanRecord(with_counts)), steps_of(PlanRecord(plain))
    assert replace(found, beyond_rows=()) == replace(wanted, beyond_rows=())
    assert {each.sql for each in found.beyond_rows} == {*(each.sql for each in wanted.beyond_rows), "observe"}


def test_counted_rows_are_as_many_as_before() -> None:
    one = counted(Node("Aggregate", (Node("LogicalRelation"),)))
    assert Lineage.of(one).is_single(one)
