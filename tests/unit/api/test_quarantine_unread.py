"""Rows are replayed only to queries that have read them where they stand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.api.quarantine import Replayed, replay
from headwater.errors import CheckpointError
from headwater.plan import Graph
from headwater.plan.quarantine import quarantine_fingerprints
from headwater.quarantine import Quarantine, QuarantinedRow
from headwater.run_directory import RunDirectory
from tests.checkpoints import handed_out, stopped
from tests.quarantines import commit, row
from tests.unit.specs import spec_of

PIPELINE = """
name: orders
sources:
  orders:
    connector: kafka
    bootstrap_servers: localhost:9092
    topic: t
    format: json
    schema: {id: int}
    bad_rows: quarantine
tables:
  paid: {sql: SELECT * FROM orders, expect: {paid: {condition: id > 0, on_violation: quarantine}}}
sinks:
  out: {reads: orders, connector: console}
  other: {reads: Paid, connector: console}
  held: {reads: orders, connector: memory}
"""
OF_TABLE: dict[str, Any] = {"topic": None, "partition": None, "source": "paid", "reason": "expectation"}
Replay = Callable[..., Replayed]


def kafka(end: int) -> dict[str, Any]:
    return {"orders": {"t": {"0": end}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders.yml").write_text(PIPELINE)
    return tmp_path / ".headwater"


@pytest.fixture
def replayed(folder: Path) -> Replay:
    def run(name: str = "orders", **options: Any) -> Replayed:
        return replay(folder.parent / "orders.yml", name, **options)

    return run


def quarantined(folder: Path, *rows: Any, name: str = "orders", batch: int = 0) -> Quarantine:
    quarantine = Quarantine(RunDirectory(folder).quarantine(name))
    commit(quarantine, batch, list(rows))
    return quarantine


def told(result: Replayed) -> tuple[int, int, int, tuple[str, ...]]:
    return result.rows, result.left, result.unread, result.behind


def test_a_message_that_a_sink_has_yet_to_read_waits(folder: Path, replayed: Replay) -> None:
    quarantine = quarantined(folder, row(9), row(10), row(11))
    stopped(folder, "quarantine.orders", kafka(1000))
    stopped(folder, "other", kafka(1000))
    # It failed in the batch that holds the third row.
    stopped(folder, "out", kafka(11), planned=[{"t": {"0": 1000}}])
    # A table in memory begins anew, and what it read counts for nothing.
    stopped(folder, "held", kafka(0))
    assert told(replayed(dry=True)) == (2, 1, 1, ("out",))
    assert told(replayed()) == (2, 1, 1, ("out",))
    assert [each.offset for each in quarantine.waiting()] == [11]
    stopped(folder, "out", kafka(1000))
    assert told(replayed()) == (1, 0, 0, ())


def test_a_query_that_never_started_or_committed(folder: Path, replayed: Replay) -> None:
    quarantined(folder, row(1))
    stopped(folder, "out", kafka(5))
    (folder / "checkpoints/out/commits/0").unlink()
    assert told(replayed()) == (0, 1, 1, ("out",))
    stopped(folder, "out", kafka(5))
    assert told(replayed()) == (1, 0, 0, ())


def test_what_was_fed_before_and_came_back_waits_for_all(folder: Path, replayed: Replay) -> None:
    quarantine = quarantined(folder, row(1), row(2))
    stopped(folder, "out", kafka(5))
    assert replayed(ids=(row(1).id,)).rows == 1
    (file,) = (quarantine.directory.replay).glob("*.parquet")
    # The quarantine has read it again and found it bad again; the sink has not read it yet.
    quarantined(folder, row(1), batch=1)
    assert told(replayed()) == (1, 1, 1, ("out",))
    stopped(folder, "out", {**kafka(5), "orders.again": {"logOffset": 0}})
    handed_out(folder, "out", 1, [file.as_uri()])
    assert told(replayed()) == (1, 0, 0, ())


def test_a_mended_row_that_came_back_is_known_by_its_new_bytes(folder: Path, replayed: Replay) -> None:
    quarantined(folder, row(1))
    stopped(folder, "out", kafka(5))
    mended = folder.parent / "mended.jsonl"
    mended.write_text(json.dumps({"id": row(1).id, "text": "still bad"}))
    assert replayed(corrected=mended).rows == 1
    quarantined(folder, row(1, b"still bad"), batch=1)
    assert told(replayed()) == (0, 1, 1, ("out",))


def test_rows_of_files(folder: Path, replayed: Replay) -> None:
    (folder.parent / "in").mkdir()
    files = "connector: files\n    path: in/\n    format"
    old = "connector: kafka\n    bootstrap_servers: localhost:9092\n    topic: t\n    format"
    (folder.parent / "orders.yml").write_text(PIPELINE.replace(old, files))
    place: dict[str, Any] = {"topic": None, "partition": None}
    quarantined(folder, row(0, file="/in/a b.json", **place), row(0, file="/in/c.json", **place))
    stopped(folder, "out", {"orders": {"logOffset": 0}})
    handed_out(folder, "out", 0, ["file:///in/a%20b.json"], ["file:///in/c.json"])
    assert told(replayed()) == (1, 1, 1, ("out",))


def test_rows_of_a_table_wait_until_all_have_read_what_they_come_from(folder: Path, replayed: Replay) -> None:
    quarantined(folder, row(0, **OF_TABLE), name="paid")
    # What its query has planned may be in the quarantine already.
    stopped(folder, "quarantine.paid", kafka(80), planned=[{"t": {"0": 100}}])
    stopped(folder, "other", kafka(90))
    stopped(folder, "out", kafka(3))
    assert told(replayed("paid")) == (0, 1, 1, ("other", "quarantine.paid"))
    stopped(folder, "quarantine.paid", kafka(100))
    (folder / "checkpoints/quarantine.paid/offsets/1").unlink()
    stopped(folder, "other", kafka(101))
    assert told(replayed("paid")) == (1, 0, 0, ())


def test_a_batch_that_a_table_sets_aside_meanwhile_waits_for_all(
    folder: Path, replayed: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    quarantined(folder, row(0, **OF_TABLE), name="paid")
    stopped(folder, "quarantine.paid", kafka(80))
    stopped(folder, "other", kafka(90))
    waiting = Quarantine.waiting

    def committed_meanwhile(self: Quarantine) -> Iterator[QuarantinedRow]:
        stopped(folder, "quarantine.paid", kafka(100))
        quarantined(folder, row(0, b"y", **OF_TABLE), name="paid", batch=1)
        return waiting(self)

    monkeypatch.setattr(Quarantine, "waiting", committed_meanwhile)
    assert told(replayed("paid", dry=True)) == (0, 2, 2, ("other",))


def test_a_row_of_a_table_that_came_back_is_written_anew(folder: Path, replayed: Replay) -> None:
    quarantine = quarantined(folder, row(0, b'{"id":0}', **OF_TABLE), name="paid")
    stopped(folder, "quarantine.paid", kafka(100))
    stopped(folder, "other", kafka(100))
    mended = folder.parent / "mended.jsonl"
    mended.write_text(json.dumps({"id": row(0, b'{"id":0}', **OF_TABLE).id, "text": '{"id": -1}'}))
    assert replayed("paid", corrected=mended).rows == 1
    (file,) = (quarantine.directory.replay).glob("*.parquet")
    again = {**kafka(100), "paid.again": {"logOffset": 0}}
    stopped(folder, "quarantine.paid", again)
    handed_out(folder, "quarantine.paid", 1, [file.as_uri()])
    quarantined(folder, row(0, b'{"id":-1}', **OF_TABLE), name="paid", batch=1)
    assert told(replayed("paid")) == (0, 1, 1, ("other",))
    stopped(folder, "other", again)
    handed_out(folder, "other", 1, [file.as_uri()])
    assert told(replayed("paid")) == (1, 0, 0, ())


@pytest.mark.parametrize("gone", ["queries/out.json", "checkpoints/out"])
def test_what_can_t_be_told_is_refused(folder: Path, replayed: Replay, gone: str) -> None:
    quarantine = quarantined(folder, row(1))
    stopped(folder, "out", kafka(5))
    # A start that adds a source was interrupted.
    (folder / gone).rename(folder / f"{gone}.next")
    with pytest.raises(CheckpointError) as refused:
        replayed()
    (problem,) = refused.value.problems
    assert (problem.code, problem.params["sink"]) == ("HW-REPLAY-OFFSET-UNKNOWN", "out")
    assert not (quarantine.directory.replay).exists()


def test_a_table_whose_quarantine_left_no_facts_is_refused(folder: Path, replayed: Replay) -> None:
    quarantined(folder, row(0, topic=None, partition=None), name="paid")
    stopped(folder, "other", kafka(90))
    with pytest.raises(CheckpointError) as refused:
        replayed("paid")
    assert [each.params["sink"] for each in refused.value.problems] == ["quarantine.paid"]


def test_another_definition_is_told_of(folder: Path, replayed: Replay) -> None:
    spec = spec_of(PIPELINE)
    now = quarantine_fingerprints(spec, Graph.of(spec), "orders")
    quarantined(folder, row(10))
    stopped(folder, "out", kafka(5), verdicts=now)
    assert replayed().redefined is False
    stopped(folder, "out", kafka(5), verdicts={"orders": "before"})
    assert (replayed().redefined, replayed().unread) == (True, 1)
