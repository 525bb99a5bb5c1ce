"""Rows that are judged in another way while queries stand at different places."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from headwater.checkpoint import Read
from headwater.checks import Reached, Severity, Situation
from headwater.checks.expectations import quarantine_rules_changed
from headwater.plan import Graph
from headwater.plan.quarantine import with_quarantine
from tests.checkpoints import facts_of
from tests.unit.specs import spec_of

PIPELINE = """
name: orders
sources:
  orders:
    connector: kafka
    bootstrap_servers: kafka:9092
    topic: t
    format: json
    schema: {id: int}
    bad_rows: quarantine
  ticks: {connector: rate}
tables:
  paid: {sql: SELECT * FROM orders, expect: {paid: {condition: id > 0, on_violation: quarantine}}}
sinks:
  out: {reads: orders, connector: console}
  paid: {reads: paid, connector: console}
  ticks: {reads: ticks, connector: console}
"""
OLD, NEW = {"orders": "old"}, {"orders": "new"}
Places = Mapping[str, Mapping[str, Read] | None]


def _same(read: Mapping[str, Read] | None) -> Mapping[str, Read] | None:
    return read


def at(end: int, **more: Read) -> dict[str, Read]:
    return {"orders": Read(({"t": {"0": end}},)), **more}


def said(
    places: Places, then: Mapping[str, str] = OLD, now: Mapping[str, str] = NEW, new: tuple[str, ...] = ()
) -> list[tuple[Any, Any]]:
    """What is said where queries have come to these places, and the `new` ones have planned nothing."""
    spec = with_quarantine(spec_of(PIPELINE))
    situation = Situation(
        spec,
        Graph.of(spec),
        {sink: facts_of(sink, verdicts=now) for sink in (*places, *new)},
        {sink: facts_of(sink, verdicts=then) for sink in places},
        {sink: Reached("/c", (), committed=partial(_same, read)) for sink, read in places.items()},
    )
    found = list(quarantine_rules_changed.findings(situation))
    assert all(
        (each.problem.code, each.severity) == ("HW-QUARANTINE-RULES-CHANGED", Severity.WARNING)
        for each in found
    )
    assert all(each.problem.params["file"] == "pipeline.yml" for each in found)
    return [(each.problem.params["name"], each.problem.params["queries"]) for each in found]


def test_the_quarantine_is_behind_a_sink_that_has_left_a_row_out() -> None:
    assert said({"out": at(100), "quarantine.orders": at(80)}) == [("orders", "`out`, `quarantine.orders`")]


def test_a_quarantine_that_has_planned_nothing_has_read_nothing() -> None:
    assert said({"out": at(3)}, new=("quarantine.orders",)) == [("orders", "`out`, `quarantine.orders`")]
    # Nobody has left a row out, and a sink that is new reads all rows as they are judged now.
    assert said({"out": {"orders": Read()}}, new=("quarantine.orders",)) == []
    assert said({"out": at(3), "quarantine.orders": at(3)}, new=("paid",)) == []


def test_a_place_that_can_t_be_told_is_not_that_of_the_others() -> None:
    for places in ({"out": at(100), "quarantine.orders": None}, {"out": None, "quarantine.orders": None}):
        assert said(places) == [("orders", "`out`, `quarantine.orders`")]


@pytest.mark.parametrize(
    ("then", "now"),
    [(OLD, OLD), ({}, NEW), (OLD, {}), ({"paid": "old"}, NEW)],
    ids=["nothing changed", "older facts", "nothing is set aside any more", "not set aside before"],
)
def test_nothing_is_said_where_rows_are_judged_as_before(
    then: Mapping[str, str], now: Mapping[str, str]
) -> None:
    assert said({"out": at(100), "quarantine.orders": at(80)}, then, now) == []


@pytest.mark.parametrize(
    "other",
    [
        at(100),
        # What else a query reads is no matter of this source.
        at(100, ticks=Read((5,))),
        # Rows were fed again, and were not read yet by anyone.
        at(100, **{"orders.again": Read()}),
    ],
)
def test_nothing_is_said_where_all_stand_alike(other: Mapping[str, Read]) -> None:
    assert said({"out": at(100), "quarantine.orders": other}) == []


def test_rows_that_were_fed_again_are_read_by_each_query_too() -> None:
    again = {"orders.again": Read((), frozenset({"/again/1.parquet"}))}
    assert said({"out": at(100), "quarantine.orders": at(100, **again)}) == [
        ("orders", "`out`, `quarantine.orders`")
    ]


def test_files_are_compared_by_their_names() -> None:
    one, other = ({"orders": Read((), frozenset(files))} for files in ("ab", "ba"))
    assert said({"out": one, "quarantine.orders": other}) == []
    assert len(said({"out": one, "quarantine.orders": {"orders": Read((), frozenset("a"))}})) == 1


def test_a_table_is_read_as_far_as_its_sources() -> None:
    then, now = {"paid": "old", "orders": "same"}, {"paid": "new", "orders": "same"}
    places = {"paid": at(100), "quarantine.paid": at(80)}
    assert said(places, then, now) == [("paid", "`paid`, `quarantine.paid`")]
    assert said({"paid": at(80), "quarantine.paid": at(80)}, then, now) == []
