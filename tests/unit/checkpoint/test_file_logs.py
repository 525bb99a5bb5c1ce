from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from headwater.checkpoint import Checkpoint, LocalStore, SinkFile, SinkLog, SinkLogTail, SourceFile, file_logs
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


class Lines:
    """Counts the lines of a log that are parsed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parsed = 0
        parse = file_logs.json_object

        def counted(text: str) -> dict[str, Any]:
            self.parsed += 1
            return parse(text)

        monkeypatch.setattr(file_logs, "json_object", counted)

    def take(self) -> int:
        parsed, self.parsed = self.parsed, 0
        return parsed


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    return Lines(monkeypatch)


def numbers(files: Iterable[SinkFile]) -> list[int]:
    return [file.size - 700 for file in files]


def joined(*entries: str) -> str:
    return "\n".join(["v1", *entries])


def taken(tail: SinkLogTail, up_to: int) -> tuple[bool, tuple[SinkFile, ...]]:
    replaces, files = tail.read(up_to)
    return replaces, tuple(files)


def test_a_tail_parses_only_what_is_new(tmp_path: Path, write: Write, lines: Lines) -> None:
    tail, many = SinkLogTail(LocalStore(tmp_path)), [sink_line(number) for number in range(1000)]
    write("_spark_metadata/9.compact", joined(*many))
    anew, files = taken(tail, 9)
    assert (anew, numbers(files), lines.take()) == (True, list(range(1000)), 1000)
    for batch in range(10, 19):
        write(f"_spark_metadata/{batch}", joined(sink_line(990 + batch)))
        many.append(sink_line(990 + batch))
        anew, files = taken(tail, batch)
        assert (anew, numbers(files), lines.take()) == (False, [990 + batch], 1)
    # Spark repeats everything in the next compact file.
    write("_spark_metadata/19.compact", joined(*many, sink_line(2000), sink_line(2001)))
    write("_spark_metadata/20", joined(sink_line(2002)))
    anew, files = taken(tail, 20)
    assert (anew, numbers(files), lines.take()) == (False, [2000, 2001, 2002], 3)
    assert taken(tail, 20) == (False, ())
    assert [file.path for file in SinkLog(LocalStore(tmp_path)).files()][-1].endswith("/2002.parquet")


@pytest.mark.parametrize(
    "entries",
    [
        [sink_line(5), sink_line(2)],
        [sink_line(1)],
        [sink_line(0), sink_line(1) + " ", sink_line(2)],
        [],
    ],
)
def test_a_tail_reads_a_changed_log_as_a_whole(tmp_path: Path, write: Write, entries: list[str]) -> None:
    tail = SinkLogTail(LocalStore(tmp_path))
    write("_spark_metadata/0", joined(sink_line(0), sink_line(1)))
    assert taken(tail, 0) == (True, (sink_file(0, 0), sink_file(1, 0)))
    write("_spark_metadata/1.compact", joined(*entries))
    anew, files = taken(tail, 1)
    assert anew
    assert [file.path for file in files] == [file.path for file in SinkLog(LocalStore(tmp_path)).files(1)]


def test_a_tail_that_is_restarted_reads_everything_again(tmp_path: Path, write: Write) -> None:
    tail = SinkLogTail(LocalStore(tmp_path))
    write("_spark_metadata/1.compact", joined(sink_line(0)))
    assert numbers(taken(tail, 1)[1]) == [0]
    write("_spark_metadata/1.compact", joined(sink_line(3)))
    assert taken(tail, 1) == (False, ())
    tail.restart()
    assert numbers(taken(tail, 1)[1]) == [3]


def test_a_tail_leaves_out_a_file_that_was_taken_back(tmp_path: Path, write: Write) -> None:
    tail = SinkLogTail(LocalStore(tmp_path))
    write("_spark_metadata/0", joined(sink_line(0), sink_line(1)))
    taken(tail, 0)
    write("_spark_metadata/1", joined(sink_line(0, "delete")))
    assert taken(tail, 1) == (True, (sink_file(1, 0),))
    write("_spark_metadata/2", joined(sink_line(2)))
    assert taken(tail, 2) == (True, (sink_file(1, 0), sink_file(2, 2)))


def test_a_tail_gives_the_same_files_again_after_a_failure(tmp_path: Path, write: Write) -> None:
    tail = SinkLogTail(LocalStore(tmp_path))
    write("_spark_metadata/0", joined(sink_line(0)))
    write("_spark_metadata/1", "v1\n[]")
    assert problem(lambda: taken(tail, 1)).code == "HW-CHECKPOINT-FILE-LOG-CORRUPT"
    write("_spark_metadata/1", joined(sink_line(1)))
    assert taken(tail, 1) == (True, (sink_file(0, 0), sink_file(1, 1)))


def test_the_newest_files_of_a_sink(tmp_path: Path, write: Write, lines: Lines) -> None:
    write("_spark_metadata/9.compact", joined(*(sink_line(number) for number in range(1000))))
    write("_spark_metadata/10", "v1")
    write("_spark_metadata/11", joined(sink_line(1000), sink_line(1001)))
    newest = SinkLog(LocalStore(tmp_path)).newest()
    assert [next(newest) for _ in range(3)] == [
        sink_file(1001, 11),
        sink_file(1000, 11),
        sink_file(999, 9, True),
    ]
    assert lines.take() == 3


def test_the_files_of_a_sink_that_are_elsewhere(tmp_path: Path, write: Write, lines: Lines) -> None:
    log = SinkLog(LocalStore(tmp_path))
    write("_spark_metadata/9.compact", joined(*(sink_line(number) for number in range(1000))))
    write("_spark_metadata/10", joined(sink_line(1000)))
    assert list(log.outside("file:///out/")) == []
    assert lines.take() == 1
    assert len(list(log.outside("file:///elsewhere/"))) == 1001
    write("_spark_metadata/9.compact", joined(sink_line(0), sink_line(1)[:-9]))
    assert problem(lambda: list(log.outside("file:///out/"))).code == "HW-CHECKPOINT-FILE-LOG-CORRUPT"
