"""Checkpoints of epochs and of batches, made to fit the other kind; also in pieces, by crashes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.checkpoint import Checkpoint, LocalStore
from headwater.checkpoint.editors import Alignment, alignment, convert_trigger
from headwater.checkpoint.edits import edit_errors
from headwater.errors import CheckpointError

LINE = '{"batchWatermarkMs":7,"batchTimestampMs":1794786654454,"conf":{"spark.sql.shuffle.partitions":"2"}}'
MADE = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def offsets(batch: int, line: str = "") -> str:
    return f'v1\n{line}\n{{"t":{{"0":{batch * 10}}}}}'


def checkpoint(folder: Path, batches: int, epochs: int, done: int, first: int = 0) -> LocalStore:
    """Batches first, epochs after them, of which all up to `done` are committed; each with a checksum."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    for batch in range(first, batches + epochs):
        (folder / "offsets" / str(batch)).write_text(offsets(batch, LINE if batch < batches else ""))
        (folder / "offsets" / f".{batch}.crc").write_bytes(b"crc")
        if batch <= done:
            (folder / "commits" / str(batch)).write_text("v1\n{}")
    return LocalStore(folder)


def align(store: LocalStore, needed: Alignment, backup: Path | None, make_line: Callable[[], str]) -> None:
    with edit_errors(store):
        convert_trigger(store, needed, make_line).apply(store, LocalStore(backup) if backup else None)


def state(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((folder / "offsets").iterdir())}


@pytest.mark.parametrize(
    ("batches", "epochs", "done", "continuous", "needed"),
    [
        pytest.param(3, 0, 2, False, Alignment(), id="batches after batches"),
        pytest.param(3, 0, 1, False, Alignment(), id="the planned batch runs again"),
        pytest.param(3, 0, 2, True, Alignment(routine=True), id="epochs after batches"),
        pytest.param(3, 0, 1, True, Alignment(cut=(2,)), id="epochs after a batch that did not end"),
        pytest.param(2, 3, 4, True, Alignment(routine=True), id="epochs after epochs"),
        pytest.param(2, 3, 2, True, Alignment(cut=(4, 3), routine=True), id="epochs after a crash in epochs"),
        pytest.param(2, 3, 4, False, Alignment((), 4, LINE), id="batches after epochs"),
        pytest.param(2, 3, 2, False, Alignment((4, 3), 2, LINE), id="batches after a crash in epochs"),
        pytest.param(2, 3, 1, False, Alignment(cut=(4, 3, 2)), id="no epoch was committed"),
        pytest.param(0, 3, 2, False, Alignment((), 2, None), id="never a batch"),
        pytest.param(0, 3, -1, False, Alignment(cut=(2, 1, 0)), id="never anything committed"),
        pytest.param(0, 0, -1, False, Alignment(), id="nothing yet"),
    ],
)
def test_what_a_start_needs(
    tmp_path: Path, batches: int, epochs: int, done: int, continuous: bool, needed: Alignment
) -> None:
    store = checkpoint(tmp_path, batches, epochs, done)
    before = state(tmp_path)
    assert alignment(store, continuous=continuous) == needed
    assert state(tmp_path) == before


def test_batches_go_on_behind_the_newest_epoch_that_was_committed(tmp_path: Path) -> None:
    store = checkpoint(tmp_path / "it", batches=2, epochs=4, done=3)
    before = state(tmp_path / "it")
    align(store, alignment(store, continuous=False), tmp_path / "backup", lambda: MADE)
    newest = Checkpoint(store).last_offset
    assert newest is not None
    assert (newest.batch_id, newest.watermark_ms, newest.sources) == (3, 7, {"0": {"t": {"0": 30}}})
    assert newest.conf == {"spark.sql.shuffle.partitions": "2"}
    assert Checkpoint(store).unfinished is None
    assert sorted(state(tmp_path / "it")) == [".0.crc", ".1.crc", ".2.crc", "0", "1", "2", "3"]
    kept = state(tmp_path / "backup")
    assert kept == {name: before[name] for name in (".3.crc", ".4.crc", ".5.crc", "3", "4", "5")}
    assert not alignment(store, continuous=False).needed


def test_where_no_batch_is_kept_the_line_is_made(tmp_path: Path) -> None:
    store = checkpoint(tmp_path, batches=2, epochs=200, done=201, first=102)
    align(store, alignment(store, continuous=False), None, lambda: MADE)
    assert store.read("offsets/201") == offsets(201, MADE).encode()


class Crash(Exception):
    """The machine is gone."""


class CrashingStore(LocalStore):
    """Ends everything before its n-th change."""

    def __init__(self, root: Path, changes: int) -> None:
        super().__init__(root)
        self.left = changes

    def _change(self) -> None:
        if not self.left:
            raise Crash
        self.left -= 1

    def replace(self, name: str, data: bytes) -> None:
        self._change()
        super().replace(name, data)

    def delete(self, name: str) -> None:
        self._change()
        super().delete(name)


@pytest.mark.parametrize("continuous_next", [False, True])
@pytest.mark.parametrize("changes", range(8))
def test_a_start_after_a_crash_ends_the_work(tmp_path: Path, changes: int, continuous_next: bool) -> None:
    store = checkpoint(tmp_path, batches=2, epochs=4, done=2)
    needed = alignment(store, continuous=False)
    with pytest.raises(Crash):
        align(CrashingStore(tmp_path, changes), needed, None, lambda: MADE)
    align(store, alignment(store, continuous=continuous_next), None, lambda: MADE)
    align(store, alignment(store, continuous=False), None, lambda: MADE)
    assert sorted(state(tmp_path)) == [".0.crc", ".1.crc", "0", "1", "2"]
    assert store.read("offsets/2") == offsets(2, LINE).encode()


def test_a_backup_that_fails_leaves_the_checkpoint_as_it_was(tmp_path: Path) -> None:
    store = checkpoint(tmp_path / "it", batches=2, epochs=4, done=3)
    before = state(tmp_path / "it")
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError) as told:
        align(store, alignment(store, continuous=False), tmp_path / "file" / "backup", lambda: MADE)
    assert told.value.problems[0].code == "HW-CHECKPOINT-UPDATE-FAILED"
    assert state(tmp_path / "it") == before


def test_an_epoch_without_its_offsets_is_told(tmp_path: Path) -> None:
    store = checkpoint(tmp_path, batches=2, epochs=4, done=3)
    store.delete("offsets/3")
    with pytest.raises(CheckpointError) as told:
        alignment(store, continuous=False)
    assert told.value.problems[0].code == "HW-CHECKPOINT-OFFSETS-CORRUPT"
    assert told.value.problems[0].params["batch"] == 3


def test_an_empty_file_that_nobody_needs_goes_with_the_others(tmp_path: Path) -> None:
    store = checkpoint(tmp_path, batches=2, epochs=4, done=3)
    store.replace("offsets/5", b"")
    assert alignment(store, continuous=True) == Alignment(cut=(5, 4), routine=True)


def test_a_first_batch_that_is_not_committed_can_not_be_followed_by_epochs(tmp_path: Path) -> None:
    store = checkpoint(tmp_path, batches=1, epochs=0, done=-1)
    before = state(tmp_path)
    with pytest.raises(CheckpointError) as told:
        alignment(store, continuous=True)
    (problem,) = told.value.problems
    assert (problem.code, problem.params["batch"]) == ("HW-CHECKPOINT-FIRST-BATCH-PENDING", 0)
    assert state(tmp_path) == before
    # Under the same kind of trigger the batch runs again.
    assert alignment(store, continuous=False) == Alignment()


@pytest.mark.parametrize(
    ("batches", "epochs", "done", "goes_on"),
    [
        pytest.param(0, 0, -1, False, id="nothing yet"),
        pytest.param(1, 0, -1, True, id="a batch that runs again"),
        pytest.param(1, 0, 0, True, id="a batch"),
        pytest.param(0, 2, -1, False, id="epochs of which none was committed"),
        pytest.param(0, 2, 0, True, id="an epoch"),
    ],
)
def test_whether_a_start_goes_on(tmp_path: Path, batches: int, epochs: int, done: int, goes_on: bool) -> None:
    assert Checkpoint(checkpoint(tmp_path, batches, epochs, done)).state.resumes == goes_on


@pytest.mark.parametrize("continuous", [False, True])
def test_what_a_start_goes_on_from_is_looked_at_before_anything_goes(
    tmp_path: Path, continuous: bool
) -> None:
    store = checkpoint(tmp_path, batches=2, epochs=4, done=3)
    store.replace("offsets/3", b"")
    with pytest.raises(CheckpointError) as told:
        alignment(store, continuous=continuous)
    assert (told.value.problems[0].code, told.value.problems[0].params["batch"]) == (
        "HW-CHECKPOINT-OFFSETS-CORRUPT",
        3,
    )
