"""What may change while a checkpoint is kept: sources, state and output, over facts made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.checks import Situation
from headwater.checks.changes import sink_connector_changed, sink_option_changed, source_option_changed
from headwater.checks.rules import Reached, Rule
from headwater.checks.state_changes import sources_changed, state_changed
from headwater.plan import Graph, QueryFacts, SourceFacts
from headwater.plan.quarantine import replay_stream
from headwater.plan.state_layout import StateLayout, StoredValue
from tests.unit.checks.facts import aggregation, facts
from tests.unit.specs import spec_of

PIPELINE = """
    name: shop
    sources:
      clicks: {connector: rate}
    sinks:
      out: {reads: clicks, connector: files, path: out, format: parquet}
"""
CLICKS = SourceFacts("clicks", "files", ("/clicks",))
ORDERS = SourceFacts("orders", "files", ("/orders",))
SHOPS = SourceFacts("shops", "files", ("/shops",), streaming=False)
GROUPED = StateLayout(
    "GROUP BY", {"keys": (StoredValue("clicks.user", "string"),), "aggregates": (StoredValue("count(*)"),)}
)


def query(*sources: SourceFacts, **overrides: Any) -> QueryFacts:
    inputs = tuple(each.name for each in sources if each.streaming)
    return facts(**{"sources": sources, "inputs": inputs, "state": (), **overrides})


def codes(
    rule: Rule, then: QueryFacts, now: QueryFacts, *, planned: bool = True, committed: bool = True
) -> list[str]:
    spec = spec_of(PIPELINE)
    reached = {"out": Reached("checkpoint", (), committed_any=committed)} if planned else {}
    here = Situation(spec, Graph.of(spec), {"out": now}, {"out": then}, reached)
    return [finding.code for finding in rule.findings(here)]


def severities(then: QueryFacts, now: QueryFacts) -> list[tuple[str, str]]:
    spec = spec_of(PIPELINE)
    here = Situation(spec, Graph.of(spec), {"out": now}, {"out": then}, {"out": Reached("checkpoint", ())})
    return [(each.code, each.severity.value) for each in state_changed.findings(here)]


def keyed(*keys: StoredValue, operator: str = "GROUP BY") -> tuple[StateLayout, ...]:
    return (StateLayout(operator, {"keys": keys}),)


@pytest.mark.parametrize(
    "now",
    [
        query(ORDERS, CLICKS),
        query(CLICKS),
        query(CLICKS, ORDERS, SourceFacts("more", "files", ("/more",))),
        query(CLICKS, SourceFacts("orders", "kafka", ("/orders",))),
        query(CLICKS, SourceFacts("others", "files", ("/others",))),
    ],
    ids=["reordered", "removed", "added", "another connector", "another one"],
)
def test_other_streaming_sources_are_rejected(now: QueryFacts) -> None:
    assert codes(sources_changed, query(CLICKS, ORDERS), now) == ["HW-SOURCES-CHANGED"]


@pytest.mark.parametrize(
    "now",
    [
        query(CLICKS, ORDERS),
        query(CLICKS, SHOPS, ORDERS),
        query(CLICKS, SourceFacts("purchases", "files", ("/orders",))),
        query(CLICKS, ORDERS, inputs=("clicks", replay_stream("clicks"), "orders")),
    ],
    ids=["the same", "a static one added", "renamed", "rows that are replayed"],
)
def test_the_same_streaming_sources_are_accepted(now: QueryFacts) -> None:
    assert codes(sources_changed, query(CLICKS, ORDERS), now) == []


def test_both_lists_of_sources_are_shown() -> None:
    spec = spec_of(PIPELINE)
    now, then = {"out": query(ORDERS, CLICKS)}, {"out": query(CLICKS, ORDERS)}
    here = Situation(spec, Graph.of(spec), now, then, {"out": Reached("checkpoint", ())})
    (finding,) = sources_changed.findings(here)
    assert finding.problem.params == {
        "sink": "out",
        "old": "`clicks` (files), `orders` (files)",
        "new": "`orders` (files), `clicks` (files)",
    }


def test_a_checkpoint_without_a_planned_batch_binds_nothing() -> None:
    then, now = query(CLICKS, state=(GROUPED,)), query(ORDERS)
    assert codes(sources_changed, then, now, planned=False) == []
    assert codes(state_changed, then, now, planned=False) == []


def test_the_state_of_renamed_sources_is_the_same() -> None:
    then = query(CLICKS, SHOPS, state=keyed(StoredValue("clicks.user"), StoredValue("upper(shops.name)")))
    renamed = (
        SourceFacts("visits", "files", ("/clicks",)),
        SourceFacts("dim", "files", ("/shops",), streaming=False),
    )
    same = query(*renamed, state=keyed(StoredValue("visits.user"), StoredValue("upper(dim.name)")))
    other = query(*renamed, state=keyed(StoredValue("visits.user"), StoredValue("upper(dim.town)")))
    assert codes(state_changed, then, same) == []
    assert codes(state_changed, then, other) == ["HW-STATE-CHANGED"]


@pytest.mark.parametrize(
    ("old", "new", "rejected"),
    [
        ("int", "bigint", True),
        ("int not null", "int", True),
        ("int", "int not null", False),
        ("int not null", "int not null", False),
    ],
)
def test_stored_types_are_compared(old: str, new: str, rejected: bool) -> None:
    then, now = (query(CLICKS, state=keyed(StoredValue("clicks.id", type_))) for type_ in (old, new))
    assert codes(state_changed, then, now) == (["HW-STATE-CHANGED"] if rejected else [])


def test_variables_of_a_processor_can_come_and_go_but_not_change() -> None:
    def processor(*variables: StoredValue) -> QueryFacts:
        return query(CLICKS, state=(StateLayout("transformWithState", {"state": variables}),))

    seen, old, new = (
        StoredValue("seen", "value n int"),
        StoredValue("old", "list t string"),
        StoredValue("new", "map k int"),
    )
    then = processor(seen, old)
    assert codes(state_changed, then, processor(seen, new)) == []
    assert codes(state_changed, then, processor(old, seen)) == []
    for changed in ("value n string", "list n int", "value n int with TTL"):
        assert codes(state_changed, then, processor(StoredValue("seen", changed))) == ["HW-STATE-CHANGED"]


def test_before_the_first_commit_only_types_count() -> None:
    then, now = (
        query(CLICKS, state=keyed(StoredValue(f"clicks.{name}", "string"))) for name in ("user", "page")
    )
    number = query(CLICKS, state=keyed(StoredValue("clicks.user", "int")))
    assert codes(state_changed, then, now, committed=False) == []
    assert codes(state_changed, then, number, committed=False) == ["HW-STATE-CHANGED"]
    assert codes(state_changed, then, now) == ["HW-STATE-CHANGED"]


def test_a_watermark_can_be_added_but_not_moved_to_another_column() -> None:
    def joined(*times: str) -> QueryFacts:
        return query(
            CLICKS, state=(StateLayout("INNER JOIN", {"event time": tuple(map(StoredValue, times))}),)
        )

    assert codes(state_changed, joined("a.at"), joined("a.at", "b.at")) == []
    assert codes(state_changed, joined("a.at", "b.at"), joined("a.at")) == []
    assert codes(state_changed, joined("a.at"), joined("a.other")) == ["HW-STATE-CHANGED"]


def test_a_limit_stores_its_count_in_append_mode_alone() -> None:
    three, five = ((StateLayout("LIMIT", {"rows": (StoredValue(number),)}),) for number in "35")
    complete = {"mode": "complete"}
    assert codes(state_changed, query(CLICKS, state=three), query(CLICKS, state=five)) == ["HW-STATE-CHANGED"]
    assert (
        codes(state_changed, query(CLICKS, state=three, **complete), query(CLICKS, state=five, **complete))
        == []
    )


def test_facts_of_an_older_version_are_not_compared_and_that_is_said() -> None:
    then, steps = query(CLICKS, state=None, version=2), {"operators": (aggregation(streams=("clicks",)),)}
    assert severities(then, query(CLICKS, state=(GROUPED,), **steps)) == [
        ("HW-STATE-NOT-COMPARED", "warning")
    ]
    assert severities(then, query(CLICKS)) == []


def test_a_state_that_can_not_be_told_any_more_is_rejected() -> None:
    then, now = query(CLICKS, state=(GROUPED,)), query(CLICKS, state=None, state_unknown="KeyError: x")
    assert severities(then, now) == [("HW-STATE-NOT-COMPARED", "error")]


@pytest.mark.parametrize("key", ["path", "format", "partition_by"])
def test_fixed_options_of_a_sink_are_compared(key: str) -> None:
    options = {"path": "/out", "format": "json", "partition_by": ""}
    then, now = query(CLICKS, fixed_options=options), query(CLICKS, fixed_options={**options, key: "other"})
    assert codes(sink_option_changed, then, now) == ["HW-SINK-OPTION-CHANGED"]
    assert codes(sink_option_changed, then, then) == []
    assert codes(sink_option_changed, query(CLICKS), now) == []


def test_an_option_that_decides_which_files_are_read_can_not_change() -> None:
    deep = replace(CLICKS, options={"recursivefilelookup": "true"})
    assert codes(source_option_changed, query(CLICKS), query(deep)) == ["HW-SOURCE-OPTION-CHANGED"]
    assert codes(source_option_changed, query(deep), query(CLICKS)) == ["HW-SOURCE-OPTION-CHANGED"]
    assert codes(source_option_changed, query(CLICKS), query(deep), planned=False) == []
    limited = replace(CLICKS, options={"max_files_per_batch": "3"})
    assert codes(source_option_changed, query(CLICKS), query(limited)) == []


@pytest.mark.feature("H4.2", part="the verdicts")
@pytest.mark.parametrize(
    ("old", "new", "rejected"),
    [
        ("files", "kafka", False),
        ("kafka", "files", True),
        ("kafka", "foreach", False),
        ("foreach", "kafka", False),
        ("console", "files", True),
        ("files", "noop", False),
        ("noop", "memory", True),
        ("memory", "files", True),
    ],
)
def test_another_kind_of_sink(old: str, new: str, rejected: bool) -> None:
    found = codes(sink_connector_changed, query(CLICKS, connector=old), query(CLICKS, connector=new))
    assert found == (["HW-SINK-CONNECTOR-CHANGED"] if rejected else [])
