from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.checkpoint import Checkpoint, LocalStore, SinkFile, SinkLog, SourceFile
from headwater.errors import CheckpointError, Problem

Write = Callable[[str, str], Path]


class VanishingStore(LocalStore):
    """Lists a file that is deleted before it is read."""

    def names(self, folder: str) -> tuple[str, ...]:
        return (*super().names(folder), "9.compact")


def source_line(number: int) -> str:
    return f'{{"path":"file:///in/{number}.json","timestamp":{1000 + number},"batchId":{number}}}'


def sink_line(number: int, action: str = "add") -> str:
    return (
        f'{{"path":"file:///out/{number}.parquet","size":{700 + number},"isDir":false,'
        f'"modificationTime":{2000 + number},"blockReplication":1,"blockSize":33554432,"action":"{action}"}}'
    )


def source_file(number: int) -> SourceFile:
    return SourceFile(f"file:///in/{number}.json", 1000 + number, number)


def sink_file(number: int, batch_id: int, compacted: bool = False) -> SinkFile:
    return SinkFile(f"file:///out/{number}.parquet", 700 + number, 2000 + number, batch_id, compacted)


def problem(read: Callable[[], object]) -> Problem:
    with pytest.raises(CheckpointError) as caught:
        read()
    (found,) = caught.value.problems
    assert found.message
    assert found.hint
    return found


def test_the_files_of_a_source(tmp_path: Path, write: Write) -> None:
    write("sources/0/0", f"v1\n{source_line(0)}\n{source_line(1)}")
    write("sources/0/1", f"v1\n{source_line(2)}")
    write("sources/2/0", "v1")
    checkpoint = Checkpoint(LocalStore(tmp_path))
    assert checkpoint.sources() == (0, 2)
    assert checkpoint.source_files(0) == (source_file(0), source_file(1), source_file(2))
    assert checkpoint.source_files(1) == ()
    assert checkpoint.source_files(2) == ()


def test_a_compact_file_stands_for_all_before_it(tmp_path: Path, write: Write) -> None:
    write("sources/0/1", "what is compacted is not read any more")
    write("sources/0/2.compact", "nor an older compact file")
    write("sources/0/10.compact", f"v1\n{source_line(0)}\n{source_line(10)}")
    write("sources/0/11", f"v1\n{source_line(11)}")
    write("sources/0/.10.compact.crc", "")
    assert Checkpoint(LocalStore(tmp_path)).source_files(0) == (
        source_file(0),
        source_file(10),
        source_file(11),
    )


@pytest.mark.parametrize("text", ["v1\n1794786654454", '\0v1\n{"t":{"0":5}}', 'v1\n{"t":{"0":5}}'])
def test_the_log_of_another_source_is_no_damage(tmp_path: Path, write: Write, text: str) -> None:
    file = write("sources/0/0", text)
    found = problem(lambda: Checkpoint(LocalStore(tmp_path)).source_files(0))
    assert (found.code, found.params) == ("HW-CHECKPOINT-FILE-LOG-INVALID", {"file": str(file)})


@pytest.mark.parametrize("text", ["", "\0\0\0", "x", f"v1\n{source_line(0)[:20]}", 'v1\n{"path":"a"}'])
def test_a_damaged_source_log_is_named(tmp_path: Path, write: Write, text: str) -> None:
    file = write("sources/0/3.compact", text)
    found = problem(lambda: Checkpoint(LocalStore(tmp_path)).source_files(0))
    assert (found.code, found.params["file"]) == ("HW-CHECKPOINT-FILE-LOG-CORRUPT", str(file))


def test_a_newer_version_of_a_file_log_is_refused(tmp_path: Path, write: Write) -> None:
    write("sources/0/0", "v2\n")
    assert (
        problem(lambda: Checkpoint(LocalStore(tmp_path)).source_files(0)).code
        == "HW-CHECKPOINT-VERSION-UNSUPPORTED"
    )


def test_the_files_of_a_sink_by_batch(tmp_path: Path, write: Write) -> None:
    write("_spark_metadata/0", f"v1\n{sink_line(0)}\n{sink_line(1)}")
    write("_spark_metadata/1", "v1")
    write("_spark_metadata/2", f"v1\n{sink_line(2)}")
    log = SinkLog(LocalStore(tmp_path))
    assert log.files() == (sink_file(0, 0), sink_file(1, 0), sink_file(2, 2))
    assert log.last_batch == 2


def test_a_compacted_sink_says_the_last_batch_that_can_be(tmp_path: Path, write: Write) -> None:
    write("_spark_metadata/9.compact", f"v1\n{sink_line(0)}\n{sink_line(1)}")
    write("_spark_metadata/10", f"v1\n{sink_line(2)}")
    log = SinkLog(LocalStore(tmp_path))
    assert log.files() == (sink_file(0, 9, True), sink_file(1, 9, True), sink_file(2, 10))
    assert log.last_batch == 10


def test_a_file_that_was_taken_back_is_left_out(tmp_path: Path, write: Write) -> None:
    write("_spark_metadata/0", f"v1\n{sink_line(0)}\n{sink_line(1)}")
    write("_spark_metadata/1", f"v1\n{sink_line(0, 'delete')}")
    assert SinkLog(LocalStore(tmp_path)).files() == (sink_file(1, 0),)


def test_a_folder_without_a_log(tmp_path: Path) -> None:
    log = SinkLog(LocalStore(tmp_path))
    assert log.files() == ()
    assert log.last_batch is None


@pytest.mark.parametrize("text", ["", "v1\n[]", 'v1\n{"path":"a","size":1,"modificationTime":2}'])
def test_a_damaged_sink_log_is_named(tmp_path: Path, write: Write, text: str) -> None:
    file = write("_spark_metadata/0", text)
    found = problem(SinkLog(LocalStore(tmp_path)).files)
    assert (found.code, found.params["file"]) == ("HW-CHECKPOINT-FILE-LOG-CORRUPT", str(file))


def test_a_log_file_that_vanishes_leaves_no_hole(tmp_path: Path, write: Write) -> None:
    write("_spark_metadata/0", f"v1\n{sink_line(0)}")
    found = problem(SinkLog(VanishingStore(tmp_path)).files)
    assert found.code == "HW-CHECKPOINT-UNREADABLE"
    assert found.params["file"] == str(tmp_path / "_spark_metadata/9.compact")
