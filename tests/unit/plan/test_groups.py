"""The table that the query of a group computes, and the branches from there to its sinks."""

from __future__ import annotations

import pytest

from headwater.plan import Graph
from headwater.plan.groups import branch, common_table, group_table, is_known
from headwater.spec import PipelineSpec
from tests.unit.specs import spec_of

SHOP = """
    name: shop
    sources:
      orders: {connector: rate}
      clicks: {connector: rate}
      names: {connector: files, path: s3://bucket/names, format: text, static: true}
    tables:
      named: SELECT * FROM orders JOIN names USING (value)
      large: SELECT * FROM named WHERE value > 10
      small: SELECT * FROM named WHERE value <= 10
      again: SELECT l.value FROM large l JOIN NAMES USING (value)
      both: SELECT value FROM large UNION ALL SELECT value FROM small
      around: SELECT value FROM large UNION ALL SELECT value FROM orders
      mixed: SELECT value FROM named UNION ALL SELECT value FROM clicks
      unclear: SELECT raw:order.id FROM orders
    sinks:
      one: {reads: LARGE, connector: noop, group: g}
      other: {reads: orders, connector: noop}
      two: {reads: small, connector: noop, group: g}
"""


def graph() -> Graph:
    return Graph.of(spec_of(SHOP))


@pytest.mark.parametrize(
    ("reads", "common"),
    [
        (("large",), "large"),
        (("large", "large"), "large"),
        (("large", "named"), "named"),
        (("large", "small"), "named"),
        (("again", "large"), "large"),
        (("again", "small"), "named"),
        (("both", "small"), "named"),
        # `orders` reaches this table on a second way.
        (("around", "large"), "orders"),
        (("named", "orders"), "orders"),
        (("orders", "clicks"), None),
        # A static table is not what a query computes.
        (("named", "clicks"), None),
        (("mixed",), "mixed"),
        (("mixed", "named"), None),
    ],
)
def test_every_stream_passes_through_the_common_table(reads: tuple[str, ...], common: str | None) -> None:
    assert common_table(graph(), reads) == common


def test_a_branch_has_the_streaming_tables_in_order() -> None:
    assert branch(graph(), "named", "again") == ("large", "again")
    assert branch(graph(), "named", "both") == ("large", "small", "both")
    assert branch(graph(), "large", "large") == ()


def test_what_only_spark_can_parse_is_unknown() -> None:
    assert not is_known(graph(), ("unclear",))
    assert is_known(graph(), ("large", "small"))


def test_the_queries_of_a_pipeline() -> None:
    spec: PipelineSpec = spec_of(SHOP)
    assert [(each.name, [sink.name for sink in each.sinks]) for each in spec.queries] == [
        ("g", ["one", "two"]),
        ("other", ["other"]),
    ]
    group, alone = spec.queries
    assert (group.is_group, group.sink.name, group.sink.query) == (True, "g", "g")
    assert (alone.is_group, alone.sink) == (False, spec.sinks[1])
    assert group_table(Graph.of(spec), group) == "named"
