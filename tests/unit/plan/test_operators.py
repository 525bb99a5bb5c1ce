"""Counts in a plan, static sides with one row, and looks at the clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.plan.lineage import Lineage
from headwater.plan.operators import Column, Expression, Node, PlanRecord, Term
from headwater.plan.reader import steps_of

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


TABLE = Node("LogicalRelation")
GROUPED = {"groupingExpressions": (Term("AttributeReference", "id", 1),)}


def limit(value: str) -> dict[str, tuple[Term, ...]]:
    return {"limitExpr": (Term("Literal", value=value),)}


@pytest.mark.parametrize(
    ("node", "single"),
    [
        (TABLE, False),
        (Node("OneRowRelation"), True),
        (Node("Aggregate", (TABLE,)), True),
        (Node("Aggregate", (TABLE,), GROUPED), False),
        (Node("SubqueryAlias", (Node("Project", (Node("Filter", (Node("Aggregate", (TABLE,)),)),)),)), True),
        (Node("GlobalLimit", (Node("LocalLimit", (TABLE,), limit("1")),), limit("1")), True),
        (Node("GlobalLimit", (Node("LocalLimit", (TABLE,), limit("2")),), limit("2")), False),
        (Node("GlobalLimit", (Node("Aggregate", (TABLE,)),), limit("2")), True),
        (Node("Join", (Node("Aggregate", (TABLE,)), TABLE)), False),
        (Node("CTERelationRef", details={"cteId": "0"}), True),
    ],
)
def test_a_plan_with_one_row_at_most(node: Node, single: bool) -> None:
    defined = Node("CTERelationDef", (Node("Aggregate", (TABLE,)),), details={"id": "0"})
    assert Lineage.of(Node("WithCTE", (defined, node))).is_single(node) is single


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("Now", ("now()",)), ("CurrentTime", ("current_time()",)), ("CurrentTimestamp", ())],
)
def test_a_look_at_the_clock_changes(kind: str, expected: tuple[str, ...]) -> None:
    stream = Node("StreamingRelation", stream="rows")
    made = Term("Alias", "x", 7, children=(Term("Cast", children=(Term(kind),)),))
    terms = {"projectList": (made,)}
    steps = steps_of(PlanRecord(Node("Project", (stream,), terms, table="t", line=2, column=5)))
    assert steps.non_deterministic == tuple(Expression(sql, "t", 2, 5) for sql in expected)
    # Over static rows alone it is none of the stream's business.
    assert steps_of(PlanRecord(Node("Project", (TABLE,), terms))).non_deterministic == ()


def test_a_clock_behind_a_watermark_is_told_as_event_time() -> None:
    stream = Node("StreamingRelation", stream="rows")
    made = Term("Alias", "at", 7, children=(Term("Now"),))
    marked = Node(
        "EventTimeWatermark",
        (Node("Project", (stream,), {"projectList": (made,)}),),
        {"eventTime": (Term("AttributeReference", "at", 7),)},
        delay_ms=1000,
    )
    (found,) = steps_of(PlanRecord(marked)).non_deterministic
    assert (found.sql, found.event_time) == ("now()", True)


def test_a_stream_over_two_folders_is_read_once_and_one_that_is_named_twice_is_read_twice() -> None:
    first, second = Node("StreamingRelation", stream="rows"), Node("StreamingRelation", stream="rows")
    other = Node("StreamingRelation", stream="rows", details={"place": "1"})
    assert steps_of(PlanRecord(Node("Union", (first, other)))).streams == ("rows",)
    assert steps_of(PlanRecord(Node("Union", (first, other, second)))).streams == ("rows", "rows")
