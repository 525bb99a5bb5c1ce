"""Feeding rows again: what else it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.api.quarantine import replay
from headwater.checkpoint import Read
from headwater.connectors.decoding.decisions import decisions
from headwater.connectors.decoding.reading import KNOWN, UNKNOWN, Decided
from headwater.quarantine import Quarantine
from headwater.quarantine.unread import Unread
from tests.pipelines import write
from tests.quarantines import commit, row

PIPELINE = """
name: orders
sources:
  orders: {connector: files, path: in, format: json, schema: {id: int}, bad_rows: quarantine}
sinks: {out: {reads: orders, connector: files, path: out, format: json}}
"""


def test_the_registry_is_asked_again_only_for_rows_that_are_fed_while_nothing_runs(tmp_path: Path) -> None:
    file = write(tmp_path, PIPELINE)
    folder = tmp_path / ".headwater"
    commit(Quarantine("orders", folder / "quarantine" / "orders"), 0, [row(1), row(2)])
    decided = Decided(str(decisions(folder, "orders") / "value"))
    decided.decide(5, UNKNOWN)
    decided.decide(6, KNOWN)
    replay(file, "orders", dry=True)
    replay(file, "orders", reason="no such reason")
    lock = folder / "checkpoints.lock"
    lock.touch()
    assert replay(file, "orders", ids=(row(1).id,)).rows == 1
    assert decided.found(5) == UNKNOWN
    lock.unlink()
    assert replay(file, "orders").rows == 1
    assert (decided.found(5), decided.found(6)) == (None, KNOWN)


@pytest.mark.parametrize(
    ("query", "quarantine", "level"),
    [
        ({"orders": Read(({"t": {"0": 5}},))}, {"orders": Read(({"t": {"0": 5}},))}, True),
        ({"orders": Read(({"t": {"0": 5}},))}, {"orders": Read(({"t": {"0": 4}},))}, False),
        ({"orders": Read(({"t": {"0": 4}},))}, {"orders": Read(({"t": {"0": 5}},))}, False),
        ({"orders": Read(({"t": {"0": 5}},))}, {}, False),
        ({"orders.again": Read(files=frozenset({"a"}))}, {}, False),
    ],
)
def test_queries_are_level_where_all_have_read_the_same(
    query: dict[str, Read], quarantine: dict[str, Read], level: bool
) -> None:
    assert Unread("orders", {"out": query, "quarantine.orders": quarantine}, {}, {}).level is level
