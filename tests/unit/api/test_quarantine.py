"""Replaying rows: what else it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.api.quarantine import replay
from headwater.checkpoint import Read
from headwater.connectors.decoding.executors import KNOWN, UNKNOWN, SchemaDecisions
from headwater.errors import PipelineError
from headwater.quarantine import Quarantine
from headwater.quarantine.rows import Unread
from headwater.run_directory import RunDirectory
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
    commit(Quarantine(RunDirectory(folder).quarantine("orders")), 0, [row(1), row(2)])
    decided = SchemaDecisions(str(RunDirectory(folder).source("orders").registry / "value"))
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


TABLES = """
name: orders
sources:
  orders: {connector: files, path: in, format: json, schema: {id: int}}
  fixed: {connector: files, path: in, format: json, schema: {id: int}, static: true}
  ticks: {connector: rate}
tables:
  judged: SELECT * FROM orders
  alone: SELECT * FROM orders
  TABLE
sinks:
  out: {reads: JUDGED, connector: console}
  joined: {reads: orders, connector: console}
  fixed: {reads: fixed, connector: console}
  ticks: {reads: ticks, connector: console}
"""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("judged", ""),
        ("orders", ""),
        ("gone", "no source or table has this name"),
        ("Judged", "no source or table has this name"),
        ("alone", "no sink reads it"),
        ("fixed", "this source does not support replayed rows"),
        ("ticks", "this source does not support replayed rows"),
    ],
)
def test_rows_that_no_query_would_read_are_not_fed(tmp_path: Path, name: str, why: str) -> None:
    file = write(tmp_path, TABLES.replace("TABLE", ""))
    quarantine = Quarantine(RunDirectory(tmp_path / ".headwater").quarantine(name))
    commit(quarantine, 0, [row(1)])
    if not why:
        assert replay(file, name).rows == 1
        return
    with pytest.raises(PipelineError) as refused:
        replay(file, name)
    (problem,) = refused.value.problems
    assert (problem.code, problem.params["why"]) == ("HW-REPLAY-TARGET-MISSING", why)
    assert list(quarantine.replayed()) == []


def test_rows_are_fed_where_only_spark_knows_what_a_table_reads(tmp_path: Path) -> None:
    file = write(tmp_path, TABLES.replace("TABLE", "unread: SELECT FROM WHERE"))
    commit(Quarantine(RunDirectory(tmp_path / ".headwater").quarantine("alone")), 0, [row(1)])
    assert replay(file, "alone").rows == 1


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
    assert Unread("orders", None, {"out": query, "quarantine.orders": quarantine}, {}, {}).level is level
