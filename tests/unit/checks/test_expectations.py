"""What is wrong with expectations, told from the declaration and from the facts of a quarantine."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headwater.checks import Severity, Situation
from headwater.checks.determinism import source_not_replayable_shared
from headwater.checks.expectations import (
    expectation_condition,
    expectation_quarantine,
    known_columns,
    refused_quarantines,
)
from headwater.plan import Graph, QueryFacts
from headwater.plan.operators import Expression
from headwater.plan.quarantine import with_quarantine
from headwater.spec import PipelineSpec
from tests.unit.checks.facts import aggregation, facts
from tests.unit.specs import spec_of

PIPELINE = """
    name: shop
    sources:
      orders: {connector: rate}
      lines: {connector: socket, host: localhost, port: 9999}
      ads: {connector: files, path: "s3://a/ads", format: json, schema: {id: int}, static: true}
    tables:
      all_of: SELECT * FROM Orders
      some: SELECT value, value * 2 AS more FROM all_of
      more: SELECT *, value + 1 AS next FROM all_of
      both: SELECT * FROM orders JOIN ads ON value = id
      unnamed: SELECT value + 1 FROM orders
      once: {reads: some, deduplicate: value}
      nested: SELECT * EXCEPT (value) FROM orders
      judged:
        sql: SELECT * FROM READ
        expect:
          fine: {condition: value > 0, on_violation: drop}
          kept: {condition: value > 0, on_violation: quarantine}
    sinks: {out: {reads: judged, connector: console}}
"""


def spec(read: str = "orders") -> PipelineSpec:
    return with_quarantine(spec_of(PIPELINE.replace("READ", read)))


def found(read: str, judged: Mapping[str, QueryFacts] | None = None) -> list[tuple[str, object]]:
    shop = spec(read)
    situation = Situation(shop, Graph.of(shop), judged or {})
    problems = [each.problem for each in expectation_quarantine.findings(situation)]
    assert {problem.params["expectation"] for problem in problems} <= {"kept"}
    assert {problem.place.line for problem in problems if problem.place} <= {18}
    last = ("source", "operator", "part")
    return [
        (each.code, next((each.params[key] for key in last if key in each.params), "")) for each in problems
    ]


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("orders", ["timestamp", "value"]),
        ("ALL_OF", ["timestamp", "value"]),
        ("some", ["value", "more"]),
        ("more", ["timestamp", "value", "next"]),
        ("once", ["value", "more"]),
        ("both", None),
        ("unnamed", None),
        ("nested", None),
        ("unknown", None),
    ],
)
def test_the_columns_that_are_known_without_spark(table: str, columns: list[str] | None) -> None:
    assert known_columns(spec(), table) == columns


CIRCLE = """
    name: shop
    sources: {orders: {connector: rate}}
    tables:
      one: {FORM, expect: {paid: value > 0}}
      other: {reads: one, deduplicate: value}
    sinks: {out: {reads: one, connector: console}}
"""


@pytest.mark.parametrize("form", ["reads: Other, deduplicate: value", "sql: SELECT * FROM Other"])
def test_the_columns_of_tables_that_read_in_a_circle_are_not_known(form: str) -> None:
    shop = spec_of(CIRCLE.replace("FORM", form))
    graph = Graph.of(shop)
    assert [known_columns(shop, name) for name in ("one", "other")] == [None, None]
    assert list(expectation_condition.findings(Situation(shop, graph))) == []
    assert [problem.code for problem in graph.problems] == ["HW-TABLE-CYCLE"]


def test_a_condition_over_columns_that_are_not_known_is_not_judged_offline() -> None:
    shop = spec("both")
    assert list(expectation_condition.findings(Situation(shop, Graph.of(shop)))) == []


def test_rows_of_a_plain_stream_can_be_set_aside() -> None:
    assert found("orders", {"quarantine.judged": facts(sink="quarantine.judged")}) == []


def test_a_source_that_gives_its_rows_once_cannot_feed_two_queries() -> None:
    assert found("lines") == [("HW-EXPECTATION-QUARANTINE-NOT-REPLAYABLE", "lines")]
    shop = spec("lines")
    assert list(source_not_replayable_shared.findings(Situation(shop, Graph.of(shop)))) == []


def test_what_keeps_state_is_not_kept_twice() -> None:
    stateful = facts(aggregation(), sink="quarantine.judged")
    assert found("orders", {"quarantine.judged": stateful}) == [
        ("HW-EXPECTATION-QUARANTINE-STATEFUL", "`GROUP BY`")
    ]


def test_what_two_queries_may_see_differently_is_refused() -> None:
    clock = Expression("current_timestamp()", "judged")
    own = Expression("current_timestamp()")
    assert found("orders", {"quarantine.judged": facts(clock_reads=(own,))}) == []
    for changing in ({"clock_reads": (own, clock)}, {"non_deterministic": (clock,)}):
        judged = facts(sink="quarantine.judged", **changing)
        assert found("orders", {"quarantine.judged": judged}) == [
            ("HW-EXPECTATION-QUARANTINE-NONDETERMINISTIC", "current_timestamp()")
        ]


def test_a_static_source_that_is_refreshed_may_be_seen_differently() -> None:
    assert found("both") == []
    text = PIPELINE.replace("READ", "both").replace("static: true", "static: true, refresh: every batch")
    shop = with_quarantine(spec_of(text))
    (finding,) = expectation_quarantine.findings(Situation(shop, Graph.of(shop)))
    assert (finding.problem.code, finding.severity) == (
        "HW-EXPECTATION-QUARANTINE-REFRESHED",
        Severity.WARNING,
    )
    assert finding.problem.params["source"] == "ads"
    assert refused_quarantines([finding]) == set()


def test_only_a_stream_sets_rows_aside() -> None:
    assert found("ads") == [("HW-EXPECTATION-QUARANTINE-STATIC", "")]
    assert [sink.name for sink in spec("ads").sinks] == ["out"]
