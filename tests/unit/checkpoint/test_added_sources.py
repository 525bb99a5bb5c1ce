"""A checkpoint that learns of more sources, also through a crash."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from headwater.checkpoint import Checkpoint, LocalStore
from headwater.checkpoint.editors import added, inputs_known, swap_in_sources
from headwater.checkpoint.edits import finish_swap
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
    assert [problem.code for problem in refused.value.problems] == ["HW-SOURCES-NOT-ADDED"]
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
        "HW-INPUTS-DAMAGED",
        str(tmp_path / "headwater-inputs.json"),
    )


@pytest.mark.parametrize("name", ["offsets", "sources"])
def test_a_sink_may_have_the_name_of_a_folder(tmp_path: Path, name: str) -> None:
    checkpoint = made(tmp_path, name)
    swap_in_sources(checkpoint, ["a", "b"], ["a", "a.again", "b"], tmp_path / "1")
    assert len(Checkpoint(LocalStore(checkpoint)).offsets()) == 2
