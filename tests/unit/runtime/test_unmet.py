"""The warning that rows fail an expectation."""

from __future__ import annotations

from headwater.events import Event, QueryIdle, QueryProgress, Said
from headwater.runtime.scope import UnmetExpectations
from tests.unit.specs import spec_of

SPEC = spec_of("""
    name: shop
    sources: {orders: {connector: rate}}
    tables:
      priced:
        sql: SELECT * FROM orders
        expect: {paid: value > 0, small: {check: value < 9, else: drop}}
    sinks: {out: {reads: priced, connector: console}}
""")


def progress(query: str, batch: int, paid: int, small: int) -> QueryProgress:
    counts = {"all rows": 7, "paid": paid, "small": small}
    told = {"batchId": batch, "numInputRows": 7, "observedMetrics": {"headwater.expect.priced": counts}}
    return QueryProgress(query=query, rows_out=7, progress=told)


def test_each_expectation_is_said_once_in_a_run() -> None:
    seen: list[Event] = []
    emit = UnmetExpectations(SPEC, seen.append)
    given = [
        progress("out", 0, 0, 0),
        QueryIdle(query="out"),
        progress("out", 1, 2, 0),
        progress("other", 1, 2, 0),
        progress("out", 2, 2, 3),
        progress("out", 3, 5, 5),
    ]
    for event in given:
        emit(event)
    assert [event for event in seen if not isinstance(event, Said)] == given
    said = [(place, event.text) for place, event in enumerate(seen) if isinstance(event, Said)]
    assert [(place, text.split("; ")[0]) for place, text in said] == [
        (3, "out: 2 of 7 rows of the table `priced` fail the expectation `paid` in batch 1"),
        (6, "out: 3 of 7 rows of the table `priced` fail the expectation `small` in batch 2"),
    ]
    assert "they are dropped" in said[1][1]
