"""A checkpoint that learns of more sources, goes on from elsewhere, or gets other planned files."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from headwater.checkpoint import Checkpoint, LocalStore
from headwater.checkpoint.editors import (
    added,
    change_files,
    change_source,
    inputs_known,
    swap_in_sources,
    uncommitted,
)
from headwater.checkpoint.edits import edit_errors, finish_swap
from headwater.errors import CheckpointError

META = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


@pytest.mark.parametrize(
    ("before", "now", "places"),
    [
        (["a"], ["a", "a.again"], [0, None]),
        (["a", "b"], ["a", "a.again", "b"], [0, None, 1]),
        (["a", "b", "a"], ["a", "a.again", "b", "b.again", "a", "a.again"], [0, None, 1, None, 2, None]),
        (["a", "a.again"], ["a", "a.again"], [0, 1]),
        (["a", "b"], ["b", "a"], None),
        (["a", "b"], ["a"], None),
        ([], ["a"], [None]),
    ],
)
def test_places_of_sources(before: list[str], now: list[str], places: list[int | None] | None) -> None:
    assert added(before, now) == places


def made(folder: Path, name: str = "orders") -> Path:
    checkpoint = folder / "checkpoints" / name
    for name in ("offsets", "commits", "sources/0", "sources/1", "state/0/0"):
        (checkpoint / name).mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"x"}')
    for batch in (0, 1):
        (checkpoint / f"offsets/{batch}").write_text(
            f'v1\n{META}\n{{"t":{{"0":{batch}}}}}\n{{"logOffset":{batch}}}'
        )
        (checkpoint / f"offsets/.{batch}.crc").write_bytes(b"crc")
    (checkpoint / "commits/0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    (checkpoint / "sources/0/0").write_bytes(b"\0v1\nkafka")
    (checkpoint / "sources/1/0").write_text("v1\n{}")
    (checkpoint / "state/0/0/1.delta").write_bytes(b"state")
    return checkpoint


def test_sources_get_new_places_and_the_old_checkpoint_is_kept(tmp_path: Path) -> None:
    checkpoint, backup = made(tmp_path), tmp_path / "backups" / "orders" / "1"
    before = {
        file.relative_to(checkpoint): file.read_bytes() for file in checkpoint.rglob("*") if file.is_file()
    }
    swap_in_sources(checkpoint, ["a", "b"], ["a", "a.again", "b"], backup)
    read = Checkpoint(LocalStore(checkpoint))
    assert [list(entry.sources.values()) for entry in read.offsets()] == [
        [{"t": {"0": 0}}, None, {"logOffset": 0}],
        [{"t": {"0": 1}}, None, {"logOffset": 1}],
    ]
    assert (read.query_id, read.unfinished, read.sources()) == ("x", 1, (0, 2))
    assert (checkpoint / "sources/2/0").read_text() == "v1\n{}"
    assert (checkpoint / "state/0/0/1.delta").read_bytes() == b"state"
    # A checksum of what is no longer so would make Spark refuse the file.
    assert not list((checkpoint / "offsets").glob(".*.crc"))
    kept = {file.relative_to(backup): file.read_bytes() for file in backup.rglob("*") if file.is_file()}
    assert kept == before
    assert not checkpoint.with_name("orders.next").exists()


def test_a_crash_between_the_two_moves_is_finished_by_the_next_start(tmp_path: Path) -> None:
    checkpoint, backup = made(tmp_path), tmp_path / "backups" / "1"
    swap_in_sources(checkpoint, ["a", "b"], ["a", "b", "b.again"], backup)
    checkpoint.rename(checkpoint.with_name("orders.next"))
    (checkpoint.with_name("orders.next") / "complete").write_text("")
    finish_swap(checkpoint)
    assert len(Checkpoint(LocalStore(checkpoint)).offsets()) == 2
    assert not (checkpoint / "complete").exists()


def test_a_crash_before_it_was_complete_changes_nothing(tmp_path: Path) -> None:
    checkpoint = made(tmp_path)
    half = checkpoint.with_name("orders.next")
    half.mkdir()
    (half / "metadata").write_text("half")
    finish_swap(checkpoint)
    assert (checkpoint / "metadata").read_text() == '{"id":"x"}'
    swap_in_sources(checkpoint, ["a", "b"], ["a", "b", "b.again"], tmp_path / "backup")
    assert (checkpoint / "metadata").read_text() == '{"id":"x"}'


def test_offsets_that_don_t_fit_are_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    checkpoint = made(tmp_path)
    (checkpoint / "offsets/1").write_text(f"v2\n{META}\n0:1\n1:2")
    with pytest.raises(CheckpointError) as refused:
        swap_in_sources(checkpoint, ["a", "b"], ["a", "b", "b.again"], tmp_path / "backup")
    assert [problem.code for problem in refused.value.problems] == ["HW-CHECKPOINT-REPLAY-FAILED"]
    assert (checkpoint / "offsets/0").exists()
    assert not (tmp_path / "backup").exists()


def test_a_checkpoint_knows_the_sources_that_it_was_given(tmp_path: Path) -> None:
    checkpoint = made(tmp_path)
    assert inputs_known(LocalStore(checkpoint)) is None
    swap_in_sources(checkpoint, ["a", "b"], ["a", "b", "b.again"], tmp_path / "1")
    # A crash here leaves nobody else who knows of `b.again`.
    assert inputs_known(LocalStore(checkpoint)) == ("a", "b", "b.again")
    swap_in_sources(checkpoint, ["a", "b", "b.again"], ["a", "a.again", "b", "b.again"], tmp_path / "2")
    assert inputs_known(LocalStore(checkpoint)) == ("a", "a.again", "b", "b.again")
    assert inputs_known(LocalStore(tmp_path / "1")) is None
    assert len(Checkpoint(LocalStore(checkpoint)).offsets()[0].sources) == 4


@pytest.mark.parametrize("links", [True, False])
def test_all_of_it_is_on_the_disk_before_anything_is_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """`complete` and the moves are synced last; linked files are those of Spark."""
    checkpoint, synced, really = made(tmp_path), list[int](), os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        really(descriptor)

    def refused(source: str, target: str) -> None:
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "fsync", fsync)
    if not links:
        monkeypatch.setattr(os, "link", refused)
    ends: list[int] = []
    rename = Path.rename

    def moved(self: Path, target: Path) -> Path:
        ends.append(len(synced))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", moved)
    swap_in_sources(checkpoint, ["a", "b"], ["a", "b", "b.again"], tmp_path / "backups/1")
    spark = {file.stat().st_ino for file in (tmp_path / "backups/1").rglob("*")}
    new = {file.stat().st_ino for file in (checkpoint, *checkpoint.rglob("*"))} - spark
    assert len(new) >= 10
    assert new <= set(synced[: ends[0]])
    # The folders of both moves, each before what comes after it.
    assert synced[ends[0] : ends[1]] == [(tmp_path / "backups").stat().st_ino]
    assert synced[ends[1]] == checkpoint.parent.stat().st_ino


@pytest.mark.parametrize("text", ["", "\0\0", '["a",', '{"a": 1}', "[1]"])
def test_a_damaged_list_of_sources_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "headwater-inputs.json").write_text(text)
    with pytest.raises(CheckpointError) as refused:
        inputs_known(LocalStore(tmp_path))
    (problem,) = refused.value.problems
    assert (problem.code, problem.params["file"]) == (
        "HW-CHECKPOINT-INPUTS-CORRUPT",
        str(tmp_path / "headwater-inputs.json"),
    )


@pytest.mark.parametrize("name", ["offsets", "sources"])
def test_a_sink_may_have_the_name_of_a_folder(tmp_path: Path, name: str) -> None:
    checkpoint = made(tmp_path, name)
    swap_in_sources(checkpoint, ["a", "b"], ["a", "a.again", "b"], tmp_path / "1")
    assert len(Checkpoint(LocalStore(checkpoint)).offsets()) == 2


def line(name: str, batch: int) -> str:
    return json.dumps({"path": f"file:///in/{name}", "timestamp": 1, "batchId": batch}, separators=(",", ":"))


def checkpoint(folder: Path, committed: int | None) -> LocalStore:
    """A checkpoint whose batches 0 and 1 have read the source's own batches 0 and 1."""
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    for batch in (0, 1):
        text = f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{{}}}}\n{{"logOffset":{batch}}}'
        (folder / "offsets" / str(batch)).write_text(text)
        if committed is not None and batch <= committed:
            (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    (folder / "sources" / "0" / "0").write_text("\n".join(["v1", line("a", 0)]))
    (folder / "sources" / "0" / "1.compact").write_text("\n".join(["v1", line("a", 0), line("b", 1)]))
    (folder / "sources" / "0" / ".1.compact.crc").write_text("old")
    # A crash before the batch is planned leaves files that are handed out already.
    (folder / "sources" / "0" / "2").write_text("\n".join(["v1", line("c", 2)]))
    return LocalStore(folder)


def names(store: LocalStore) -> list[str]:
    return [file.path.removeprefix("file:///in/") for file in uncommitted(store, 0)]


def test_only_what_no_committed_batch_has_read_is_changed(tmp_path: Path) -> None:
    store, backup = checkpoint(tmp_path / "c", committed=0), tmp_path / "backup"
    assert names(store) == ["b", "c"]
    changes = {f"file:///in/{name}": f"file:///in/{name}2" for name in "abc"}
    for _ in range(2):
        change_files(store, 0, changes).apply(store, LocalStore(backup))
        assert names(store) == ["b2", "c2"]
    log = tmp_path / "c" / "sources" / "0"
    assert (log / "1.compact").read_text() == "\n".join(["v1", line("a", 0), line("b2", 1)])
    assert (log / "0").read_text() == "\n".join(["v1", line("a", 0)])
    assert sorted(each.name for each in log.iterdir()) == ["0", "1.compact", "2"]
    kept = {each.name: each.read_text() for each in (backup / "sources" / "0").iterdir()}
    assert kept == {
        ".1.compact.crc": "old",
        "1.compact": "\n".join(["v1", line("a", 0), line("b", 1)]),
        "2": "\n".join(["v1", line("c", 2)]),
    }


def test_without_a_commit_every_file_is_open(tmp_path: Path) -> None:
    assert names(checkpoint(tmp_path, committed=None)) == ["a", "b", "c"]
    assert uncommitted(LocalStore(tmp_path / "nothing"), 0) == ()


SETTINGS = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def planned(folder: Path, batch: int, *sources: Any, version: str = "v1") -> None:
    lines = [json.dumps(each) if each is not None else "-" for each in sources]
    if version == "v2":
        lines = [f"{number}:{line}" for number, line in enumerate(lines)]
    _put(folder / f"offsets/{batch}", "\n".join([version, SETTINGS, *lines]).encode())
    _put(folder / f"offsets/.{batch}.crc", b"crc")


def committed(folder: Path, batch: int) -> None:
    _put(folder / f"commits/{batch}", b'v1\n{"nextBatchWatermarkMs":0}')


def _put(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def to_zero(offsets: Any) -> Any:
    return {**offsets, "clicks": dict.fromkeys(offsets["clicks"], 0)}


def sources(folder: Path, batch: int) -> list[Any]:
    entry = Checkpoint(LocalStore(folder)).offset(batch)
    assert entry is not None
    return list(entry.sources.values())


def change(folder: Path, source: int = 1) -> bool:
    store = LocalStore(folder / "checkpoint")
    with edit_errors(store):
        edit = change_source(store, source, to_zero)
        if edit is not None:
            edit.apply(store, LocalStore(folder / "backup"))
    return edit is not None


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_newest_committed_batch_says_where_the_next_one_begins(tmp_path: Path, version: str) -> None:
    checkpoint = tmp_path / "checkpoint"
    for batch, offset in ((3, 10), (4, 20)):
        planned(
            checkpoint, batch, {"logOffset": 1}, {"clicks": {"0": offset}, "views": {"0": 5}}, version=version
        )
        committed(checkpoint, batch)
    before = (checkpoint / "offsets/4").read_bytes()
    assert change(tmp_path)
    assert sources(checkpoint, 4) == [{"logOffset": 1}, {"clicks": {"0": 0}, "views": {"0": 5}}]
    assert sources(checkpoint, 3) == [{"logOffset": 1}, {"clicks": {"0": 10}, "views": {"0": 5}}]
    assert not (checkpoint / "offsets/.4.crc").exists()
    assert (tmp_path / "backup/offsets/4").read_bytes() == before
    assert sorted(each.name for each in (tmp_path / "backup/offsets").iterdir()) == [".4.crc", "4"]


def test_a_batch_that_runs_again_reads_nothing_of_what_is_changed(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    planned(checkpoint, 3, None, {"clicks": {"0": 10}})
    committed(checkpoint, 3)
    planned(checkpoint, 4, {"logOffset": 0}, {"clicks": {"0": 20}})
    assert change(tmp_path)
    assert sources(checkpoint, 3) == [None, {"clicks": {"0": 0}}]
    assert sources(checkpoint, 4) == [{"logOffset": 0}, {"clicks": {"0": 0}}]
    assert sorted(each.name for each in (tmp_path / "backup/offsets").iterdir()) == [
        ".3.crc",
        ".4.crc",
        "3",
        "4",
    ]


def test_a_first_batch_begins_with_what_kafka_noted(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    planned(checkpoint, 0, None, {"clicks": {"0": 20}})
    _put(checkpoint / "sources/1/0", b'\x00v1\n{"clicks":{"0":7}}')
    _put(checkpoint / "sources/1/.0.crc", b"crc")
    assert change(tmp_path)
    assert (checkpoint / "sources/1/0").read_bytes() == b'\x00v1\n{"clicks":{"0":0}}'
    assert not (checkpoint / "sources/1/.0.crc").exists()
    assert sources(checkpoint, 0) == [None, {"clicks": {"0": 0}}]
    assert (tmp_path / "backup/sources/1/0").exists()


def test_a_query_that_never_planned_a_batch_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    assert not change(tmp_path)
    assert not (tmp_path / "backup").exists()


def test_done_twice_is_done_once(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    planned(checkpoint, 0, {"logOffset": 1}, {"clicks": {"0": 20}})
    committed(checkpoint, 0)
    assert change(tmp_path)
    once = (checkpoint / "offsets/0").read_bytes()
    assert change(tmp_path)
    assert (checkpoint / "offsets/0").read_bytes() == once


def test_the_backup_keeps_what_was_there_before_the_first_of_several_changes(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    planned(checkpoint, 0, {"clicks": {"0": 20}}, {"clicks": {"0": 30}})
    committed(checkpoint, 0)
    before = (checkpoint / "offsets/0").read_bytes()
    assert [change(tmp_path, source) for source in (0, 1)] == [True, True]
    assert sources(checkpoint, 0) == [{"clicks": {"0": 0}}] * 2
    assert (tmp_path / "backup/offsets/0").read_bytes() == before


@pytest.mark.parametrize("damaged", ["offsets/3", "offsets/4"])
def test_a_damaged_file_is_told(tmp_path: Path, damaged: str) -> None:
    checkpoint = tmp_path / "checkpoint"
    planned(checkpoint, 3, None, {"clicks": {"0": 10}})
    committed(checkpoint, 3)
    planned(checkpoint, 4, None, {"clicks": {"0": 20}})
    (checkpoint / damaged).write_bytes(b"")
    with pytest.raises(CheckpointError) as told:
        change(tmp_path)
    assert told.value.problems[0].code == "HW-CHECKPOINT-UPDATE-FAILED"


def test_a_backup_that_fails_leaves_the_checkpoint_as_it_was(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    planned(checkpoint, 3, None, {"clicks": {"0": 10}})
    committed(checkpoint, 3)
    (tmp_path / "backup").touch()
    with pytest.raises(CheckpointError) as told:
        change(tmp_path)
    assert told.value.problems[0].code == "HW-CHECKPOINT-UPDATE-FAILED"
    assert sources(checkpoint, 3) == [None, {"clicks": {"0": 10}}]
