"""A query that goes on from elsewhere in one of its sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.checkpoint import Checkpoint, LocalStore
from headwater.checkpoint.editors import change_source
from headwater.checkpoint.edits import edit_errors
from headwater.errors import CheckpointError

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
    assert told.value.problems[0].code == "HW-ALIGNMENT-FAILED"


def test_a_backup_that_fails_leaves_the_checkpoint_as_it_was(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    planned(checkpoint, 3, None, {"clicks": {"0": 10}})
    committed(checkpoint, 3)
    (tmp_path / "backup").touch()
    with pytest.raises(CheckpointError) as told:
        change(tmp_path)
    assert told.value.problems[0].code == "HW-ALIGNMENT-FAILED"
    assert sources(checkpoint, 3) == [None, {"clicks": {"0": 10}}]
