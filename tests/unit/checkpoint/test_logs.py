from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.checkpoint import (
    STATE_FORMAT,
    Checkpoint,
    CheckpointState,
    CommitEntry,
    LocalStore,
    OffsetEntry,
    Read,
)
from headwater.errors import CheckpointError, Problem
from headwater.runtime.records import RunRecords
from tests.checkpoints import handed_out, stopped

Write = Callable[[str, str], Path]

METADATA = '{"batchWatermarkMs":10,"batchTimestampMs":20,"conf":{"spark.sql.shuffle.partitions":"1"}}'


class FailingStore(LocalStore):
    """Refuses to read, or to list, what is named."""

    def __init__(self, root: Path, broken: str) -> None:
        super().__init__(root)
        self.broken = broken

    def read(self, name: str) -> bytes:
        self._refuse(name)
        return super().read(name)

    def names(self, folder: str) -> tuple[str, ...]:
        self._refuse(folder)
        return super().names(folder)

    def exists(self, name: str) -> bool:
        self._refuse(name)
        return super().exists(name)

    def _refuse(self, name: str) -> None:
        if name == self.broken:
            raise PermissionError(errno.EACCES, "Permission denied")


class VanishingStore(LocalStore):
    """Lists a batch that is purged before it is read."""

    def names(self, folder: str) -> tuple[str, ...]:
        return (*super().names(folder), "0")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(LocalStore(tmp_path))


def problem(read: Callable[[], object]) -> Problem:
    with pytest.raises(CheckpointError) as caught:
        read()
    (found,) = caught.value.problems
    # The sentence and the remedy must be complete with the parameters given.
    assert found.message
    assert found.hint
    return found


def test_a_folder_that_is_not_there_is_an_empty_checkpoint(tmp_path: Path) -> None:
    checkpoint = Checkpoint(LocalStore(tmp_path / "none"))
    assert checkpoint.state is CheckpointState.NEW
    assert checkpoint.query_id is None
    assert checkpoint.offsets() == ()
    assert checkpoint.last_offset is None
    assert checkpoint.commits() == ()
    assert checkpoint.last_commit is None
    assert checkpoint.unfinished is None
    assert checkpoint.sources() == ()


def test_the_query_id(checkpoint: Checkpoint, write: Write) -> None:
    write("metadata", '{"id":"840064b8-a623"}')
    assert checkpoint.state is CheckpointState.STARTED
    assert checkpoint.query_id == "840064b8-a623"


def test_offsets_alone_make_a_checkpoint(checkpoint: Checkpoint, write: Write) -> None:
    write("offsets/0", f"v1\n{METADATA}\n0")
    assert checkpoint.state is CheckpointState.PLANNED
    assert checkpoint.query_id is None


def test_a_checkpoint_is_in_one_state(checkpoint: Checkpoint, write: Write) -> None:
    states = [checkpoint.state]
    for name, text in (
        ("metadata", '{"id":"a"}'),
        ("offsets/0", "v1\n\n0"),  # an epoch: nobody knows where it began until one is committed
        ("offsets/1", f"v1\n{METADATA}\n0"),
        ("commits/1", "v1\n{}"),
    ):
        write(name, text)
        states.append(checkpoint.state)
    new, started = CheckpointState.NEW, CheckpointState.STARTED
    assert states == [new, started, started, CheckpointState.PLANNED, CheckpointState.COMMITTED]
    assert [each.has_started for each in states] == [False, True, True, True, True]
    assert [each.resumes for each in states] == [False, False, False, True, True]
    reset = CheckpointState.RESET_AT_START
    assert (reset.has_started, reset.resumes) == (False, False)


def test_an_offset_entry(checkpoint: Checkpoint, write: Write) -> None:
    write("offsets/7", f'v1\n{METADATA}\n{{"logOffset":3}}\n-\n42')
    entry = OffsetEntry(
        batch_id=7,
        version=1,
        watermark_ms=10,
        timestamp_ms=20,
        conf={"spark.sql.shuffle.partitions": "1"},
        sources={"0": {"logOffset": 3}, "1": None, "2": 42},
    )
    assert checkpoint.offsets() == (entry,)
    assert checkpoint.last_offset == entry


def test_version_2_names_its_sources(checkpoint: Checkpoint, write: Write) -> None:
    write("offsets/0", f'v2\n{METADATA}\norders:{{"t":{{"0":5}}}}\nads:-')
    entry = checkpoint.last_offset
    assert entry is not None
    assert entry.version == 2
    assert entry.sources == {"orders": {"t": {"0": 5}}, "ads": None}


def test_the_settings_that_froze(checkpoint: Checkpoint, write: Write) -> None:
    assert checkpoint.settings == {}
    write("offsets/0", 'v1\n{"conf":{"spark.sql.shuffle.partitions":"3"}}\n{"logOffset":0}')
    assert checkpoint.settings == {"spark.sql.shuffle.partitions": "3"}
    write("commits/0", 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}')
    assert checkpoint.settings == {"spark.sql.shuffle.partitions": "3", STATE_FORMAT: "2"}


def test_a_continuous_epoch_has_no_metadata(checkpoint: Checkpoint, write: Write) -> None:
    write("offsets/4", 'v1\n\n{"t":{"0":5}}')
    assert checkpoint.last_offset == OffsetEntry(4, 1, None, None, {}, {"0": {"t": {"0": 5}}})


def test_batches_are_ordered_by_number(checkpoint: Checkpoint, write: Write) -> None:
    for batch in (9, 10, 100):
        write(f"offsets/{batch}", f"v1\n{METADATA}\n{batch}")
        write(f"commits/{batch}", f'v1\n{{"nextBatchWatermarkMs":{batch}}}')
    assert [entry.batch_id for entry in checkpoint.offsets()] == [9, 10, 100]
    assert [entry.next_watermark_ms for entry in checkpoint.commits()] == [9, 10, 100]
    last_offset, last_commit = checkpoint.last_offset, checkpoint.last_commit
    assert last_offset is not None
    assert last_commit is not None
    assert (last_offset.batch_id, last_commit.batch_id) == (100, 100)


def test_a_commit_of_format_2_keeps_its_state_ids(checkpoint: Checkpoint, write: Write) -> None:
    write("commits/0", 'v2\n{"nextBatchWatermarkMs":5,"stateUniqueIds":{"0":[["a"]]}}')
    assert checkpoint.last_commit == CommitEntry(0, 2, 5, {"stateUniqueIds": {"0": [["a"]]}})


@pytest.mark.parametrize("text", ["v1", "v1\n", "v1\n{}"])
def test_an_old_commit_without_a_watermark(checkpoint: Checkpoint, write: Write, text: str) -> None:
    write("commits/0", text)
    assert checkpoint.last_commit == CommitEntry(0, 1, 0, {})


@pytest.mark.parametrize(
    ("planned", "done", "unfinished"),
    [([0], [], 0), ([0], [0], None), ([3, 4], [3], 4), ([9, 10], [8, 9, 10], None), ([], [0], None)],
)
def test_unfinished_is_the_batch_without_its_commit(
    checkpoint: Checkpoint, write: Write, planned: list[int], done: list[int], unfinished: int | None
) -> None:
    # Names alone decide: damage in a file does not hide which batch it is.
    for batch in planned:
        write(f"offsets/{batch}", "")
    for batch in done:
        write(f"commits/{batch}", "")
    assert checkpoint.unfinished == unfinished


@pytest.mark.parametrize("name", [".0.crc", ".1.2f0c.tmp", "1.tmp", "x", "1.compact", "٣", "-1", "01"])
def test_files_that_are_no_batches_are_ignored(checkpoint: Checkpoint, write: Write, name: str) -> None:
    write("offsets/0", f"v1\n{METADATA}\n0")
    write(f"offsets/{name}", "rubbish")
    assert [entry.batch_id for entry in checkpoint.offsets()] == [0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "\0\0\0\0",
        "rubbish",
        "v",
        "v0\n{}\n0",
        "v1",
        f"v1\n{METADATA}",
        f"v1\n{METADATA[:30]}\n0",
        "v1\n[]\n0",
        'v1\n{"batchWatermarkMs":"soon"}\n0',
        'v1\n{"conf":[]}\n0',
        'v1\n{"conf":{"a":1}}\n0',
        f'v1\n{METADATA}\n{{"logOff',
        f"v2\n{METADATA}\nno-id",
    ],
)
def test_damaged_offsets_name_the_file(
    checkpoint: Checkpoint, tmp_path: Path, write: Write, text: str
) -> None:
    write("offsets/3", text)
    for read in (checkpoint.offsets, lambda: checkpoint.last_offset):
        found = problem(read)
        assert found.code == "HW-CHECKPOINT-OFFSETS-CORRUPT"
        assert found.params["file"] == str(tmp_path / "offsets/3")
        assert found.params["checksum"] == str(tmp_path / "offsets/.3.crc")
        assert found.params["batch"] == 3


def test_a_damaged_old_batch_does_not_hide_the_newest(checkpoint: Checkpoint, write: Write) -> None:
    write("offsets/0", "")
    write("offsets/1", f"v1\n{METADATA}\n0")
    last = checkpoint.last_offset
    assert last is not None
    assert last.batch_id == 1
    assert problem(checkpoint.offsets).params["batch"] == 0


@pytest.mark.parametrize("text", ["", "{}", "v2", 'v2\n{"next', 'v1\n{"nextBatchWatermarkMs":true}'])
def test_damaged_commits_name_the_file(
    checkpoint: Checkpoint, tmp_path: Path, write: Write, text: str
) -> None:
    write("commits/3", text)
    found = problem(checkpoint.commits)
    assert found.code == "HW-CHECKPOINT-COMMIT-CORRUPT"
    assert (found.params["file"], found.params["batch"]) == (str(tmp_path / "commits/3"), 3)


def test_bytes_that_are_no_text(checkpoint: Checkpoint, tmp_path: Path, write: Write) -> None:
    write("commits/0", "").write_bytes(b"v1\n\xff\xfe")
    assert problem(checkpoint.commits).code == "HW-CHECKPOINT-COMMIT-CORRUPT"


def test_a_newer_version_is_refused(checkpoint: Checkpoint, tmp_path: Path, write: Write) -> None:
    write("commits/0", "v3\n{}")
    found = problem(checkpoint.commits)
    assert found.code == "HW-CHECKPOINT-VERSION-UNSUPPORTED"
    assert found.params == {"file": str(tmp_path / "commits/0"), "version": "v3", "newest": 2}


@pytest.mark.parametrize("text", ["", "{}", '{"id":7}', '{"id":""}', '{"id', "[1]", "[" * 100_000])
def test_damaged_metadata(checkpoint: Checkpoint, tmp_path: Path, write: Write, text: str) -> None:
    write("metadata", text)
    found = problem(lambda: checkpoint.query_id)
    assert (found.code, found.params["file"]) == (
        "HW-CHECKPOINT-METADATA-CORRUPT",
        str(tmp_path / "metadata"),
    )


@pytest.mark.parametrize(
    ("broken", "read"),
    [
        ("metadata", lambda checkpoint: checkpoint.query_id),
        ("metadata", lambda checkpoint: checkpoint.state),
        ("offsets", lambda checkpoint: checkpoint.unfinished),
        ("offsets/0", lambda checkpoint: checkpoint.last_offset),
        ("commits", lambda checkpoint: checkpoint.commits()),
        ("sources", lambda checkpoint: checkpoint.sources()),
    ],
)
def test_what_can_not_be_read_is_named(
    tmp_path: Path, write: Write, broken: str, read: Callable[[Checkpoint], object]
) -> None:
    write("offsets/0", f"v1\n{METADATA}\n0")
    found = problem(lambda: read(Checkpoint(FailingStore(tmp_path, broken))))
    assert found.code == "HW-CHECKPOINT-UNREADABLE"
    assert found.params == {"file": str(tmp_path / broken), "reason": "Permission denied"}


def test_a_folder_in_the_place_of_a_file_is_named(checkpoint: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "offsets/0").mkdir(parents=True)
    found = problem(checkpoint.offsets)
    assert (found.code, found.params["file"]) == ("HW-CHECKPOINT-UNREADABLE", str(tmp_path / "offsets/0"))


def test_a_batch_that_is_purged_meanwhile_is_left_out(tmp_path: Path, write: Write) -> None:
    write("offsets/5", f"v1\n{METADATA}\n0")
    checkpoint = Checkpoint(VanishingStore(tmp_path))
    assert [entry.batch_id for entry in checkpoint.offsets()] == [5]


def test_only_committed_batches_count(tmp_path: Path) -> None:
    stopped(tmp_path, "out", {"orders": {"t": {"0": 11}}}, planned=[{"t": {"0": 20}}])
    folder = RunRecords(tmp_path)
    assert folder.committed("out") == {"orders": Read(({"t": {"0": 11}},))}
    assert folder.planned("out") == {"orders": Read(({"t": {"0": 20}},))}


def test_files_are_those_up_to_the_committed_batch(tmp_path: Path) -> None:
    inputs = {"orders": {"logOffset": 1}, "orders.again": None, "clicks": 7}
    stopped(tmp_path, "out", inputs)
    handed_out(tmp_path, "out", 0, ["file:///in/a%20b.json"], ["file:///in/c.json"], ["file:///in/d.json"])
    assert RunRecords(tmp_path).committed("out") == {
        "orders": Read((), frozenset({"/in/a b.json", "/in/c.json"})),
        "orders.again": Read(),
        "clicks": Read((7,)),
    }


def test_a_query_that_has_committed_nothing_has_read_nothing(tmp_path: Path) -> None:
    stopped(tmp_path, "out", {"orders": {"t": {"0": 11}}})
    (tmp_path / "checkpoints/out/commits/0").unlink()
    assert RunRecords(tmp_path).committed("out") == {"orders": Read()}


def test_what_can_t_be_told(tmp_path: Path) -> None:
    folder = RunRecords(tmp_path)
    assert (folder.committed("out"), folder.state("out").has_started) == (None, False)
    stopped(tmp_path, "out", {"orders": {"t": {"0": 11}}}, planned=[5, 6])
    assert folder.state("out").has_started
    # A source was added, and a crash came before the facts of it were kept.
    assert folder.planned("out") is None
    (tmp_path / "queries/out.json").unlink()
    assert folder.committed("out") is None
    (tmp_path / "checkpoints/out").rename(tmp_path / "checkpoints/out.next")
    assert (folder.committed("out"), folder.state("out").has_started) == (None, True)


@pytest.mark.parametrize(
    ("mine", "theirs", "far"),
    [
        ({"t": {"0": 5, "1": 5}}, {"t": {"0": 5}}, True),
        ({"t": {"0": 5}}, {"t": {"0": 5, "1": 0}}, False),
        ({"t": {"0": 5, "1": 9}}, {"t": {"0": 6, "1": 1}}, False),
        (7, 7, True),
        (8, 7, True),
        (6, 7, False),
        # Of what a class of the user's counts, it is not known which of two is further.
        ({"left": 3}, {"left": 2}, False),
        ({"left": 3}, {"left": 3}, True),
        (None, 0, False),
    ],
)
def test_how_far_compared(mine: Any, theirs: Any, far: bool) -> None:
    assert Read(() if mine is None else (mine,)).as_far(Read((theirs,))) is far
    assert Read((theirs,)).as_far(Read())


def test_files_compared() -> None:
    some, more = Read((), frozenset("a")), Read((), frozenset("ab"))
    assert (more.as_far(some), some.as_far(more), some.as_far(some)) == (True, False, True)
