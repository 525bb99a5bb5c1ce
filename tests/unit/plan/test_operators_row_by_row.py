"""Which steps of a plan take each row by itself."""

from __future__ import annotations

from headwater.plan.lineage import beyond_rows, clock_reads
from headwater.plan.operators import Expression, Node, Term

STREAM = Node("StreamingRelationV2", stream="ticks")
STATIC = Node("LogicalRelation")


def over(kind: str, *children: Node, term: str = "", table: str = "", line: int = 0) -> Node:
    terms = {"list": (Term("Alias", children=(Term(term),)),)} if term else {}
    return Node(kind, children or (STREAM,), terms, table=table, line=line)


def test_projections_and_filters_are_row_by_row() -> None:
    assert beyond_rows(over("Project", over("Filter", over("SubqueryAlias", over("View"))))) == ()


def test_other_steps_are_listed_from_the_sources_up_by_the_names_of_users() -> None:
    plan = over("GlobalLimit", over("LocalLimit", over("Project", over("Aggregate", table="counts", line=2))))
    assert beyond_rows(plan) == (Expression("GROUP BY", "counts", 2), Expression("LIMIT"))


def test_steps_over_static_rows_alone_do_not_count() -> None:
    plan = over("Join", STREAM, over("Aggregate", STATIC))
    assert beyond_rows(plan) == (Expression("JOIN"),)


def test_a_query_with_names_is_listed_once() -> None:
    named = over("CTERelationDef", over("Project"))
    plan = over("WithCTE", named, over("Project", Node("CTERelationRef")))
    assert beyond_rows(plan) == (Expression("WITH"),)


def test_a_node_that_nobody_knows_keeps_its_name() -> None:
    assert beyond_rows(over("Strange")) == (Expression("Strange"),)


def test_looks_at_the_clock_are_found_on_the_way_of_a_stream() -> None:
    plan = over("Project", over("Filter", term="CurrentDate", table="today", line=3), term="CurrentTimestamp")
    assert clock_reads(plan) == (Expression("current_date()", "today", 3), Expression("current_timestamp()"))
    assert clock_reads(over("Join", STREAM, over("Project", STATIC, term="Now"))) == ()
