"""The manifest and the exchange of small files, without Spark: a crash at every step of it."""

from __future__ import annotations

import errno
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from headwater.checkpoint import LocalStore, SinkLog, file_logs
from headwater.connectors.contract import Tick
from headwater.connectors.files import FilesSink
from headwater.connectors.files import sink as module
from headwater.connectors.files.compaction import (
    STAGING,
    Compactor,
    Frame,
    Rewriter,
    Rewritten,
    frame_of,
    small_files,
)
from headwater.connectors.files.sink import FilesUpkeep
from headwater.connectors.files.sink_folder import Manifest, name_in
from headwater.errors import CheckpointError
from headwater.values import Duration, Secret

COMMITTED = Tick(frozenset({"birds"}))
LAST = Tick(frozenset({"birds"}), last=True, patience=5.0)
HOUR = 3600.0


class Joined(Rewriter):
    """Rewrites files of text lines without Spark."""

    def see_jars(self) -> None:
        pass

    def rewrite(self, group: Iterable[str]) -> Iterator[Rewritten]:
        names = tuple(group)
        staging = self.folder / STAGING / uuid4().hex
        staging.mkdir(parents=True)
        (staging / "part.txt").write_text("".join((self.folder / name).read_text() for name in names))
        yield Rewritten(names, (staging / "part.txt",))


class KilledError(BaseException):
    """The process ends here."""


class Sink:
    """A sink's folder and checkpoint as Spark leaves them, and the task that follows its batches."""

    def __init__(self, root: Path, **keys: Any) -> None:
        self.folder, self.checkpoint = root / "my out", root / "checkpoint"
        self.now = 1_000_000.0
        compaction = {"min_files": 3, **keys}
        self.options = FilesSink.model_validate(
            {"path": str(self.folder), "format": "text", "manifest": True, "compaction": compaction}
        )
        self.restart()

    def restart(self) -> None:
        spark = SimpleNamespace(
            sparkContext=SimpleNamespace(setLocalProperty=lambda *_: None, setJobGroup=lambda *_: None)
        )
        compactor = Compactor("birds", Joined(spark, self.folder, "text", {}))
        self.task = FilesUpkeep("birds", self.options, self.checkpoint, compactor, lambda: self.now)

    def plan(self, batch: int) -> None:
        self._put(self.checkpoint / "offsets" / str(batch), 'v1\n{"batchWatermarkMs":0}\n{"logOffset":0}')

    def write(self, batch: int) -> None:
        """The sink notes a batch of two rows in two folders; batches 2, 5, … are compact."""
        lines = [self._line(batch, folder) for folder in ("a b", "c")]
        if batch % 3 == 2:
            before = self.log_files(batch - 3, batch)
            self._put(
                self.folder / "_spark_metadata" / f"{batch}.compact", "\n".join(["v1", *before, *lines])
            )
            self._put(self.folder / "_spark_metadata" / f".{batch}.compact.crc", "checksum")
        else:
            self._put(self.folder / "_spark_metadata" / str(batch), "\n".join(["v1", *lines]))

    def commit(self, batch: int) -> None:
        self._put(self.checkpoint / "commits" / str(batch), 'v1\n{"nextBatchWatermarkMs":0}')

    def run(self, *batches: int) -> None:
        for batch in batches:
            self.plan(batch)
            self.write(batch)
            self.commit(batch)

    def look(self, tick: Tick = COMMITTED) -> None:
        self.task.tick(tick)

    def log_files(self, start: int, end: int) -> list[str]:
        """The lines from which Spark makes the next compact file."""
        log = self.folder / "_spark_metadata"
        names = [f"{start}.compact", *(str(batch) for batch in range(max(start + 1, 0), end))]
        return [line for name in names if (log / name).exists() for line in _lines(log / name)]

    def listed(self) -> list[str]:
        """What readers through Spark read."""
        return [name_in(self.folder, file) for file in SinkLog(LocalStore(self.folder)).files()]

    @property
    def manifest(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / "_headwater/manifest.json").read_text())
        return loaded

    def rows(self, names: Iterable[str]) -> Counter[str]:
        return Counter(row for name in names for row in (self.folder / name).read_text().splitlines())

    def data(self) -> set[str]:
        return {path.relative_to(self.folder).as_posix() for path in self.folder.glob("kind=*/part*")}

    def _line(self, batch: int, kind: str) -> str:
        file = self.folder / f"kind={kind}" / f"part-{batch}.txt"
        self._put(file, f"{batch} {kind}\n")
        entry = {"path": "file://" + quote(str(file)), "size": file.stat().st_size, "isDir": False}
        return json.dumps({**entry, "modificationTime": 1, "blockReplication": 1, "action": "add"})

    @staticmethod
    def _put(file: Path, text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines()[1:]


def expected(batches: int) -> Counter[str]:
    return Counter(f"{batch} {kind}" for batch in range(batches) for kind in ("a b", "c"))


def settle(sink: Sink) -> None:
    """Wait for what was begun, and exchange it."""
    deadline = time.monotonic() + 10
    sink.look()
    compactor = sink.task._compactor
    assert compactor is not None
    while not compactor.has_finished and not compactor.is_idle:
        assert time.monotonic() < deadline
    sink.look(Tick(frozenset()))


def test_a_manifest_names_the_files_of_committed_batches_and_no_others(tmp_path: Path) -> None:
    sink = Sink(tmp_path, min_files=100)
    sink.look()
    assert not (sink.folder / "_headwater").exists()
    sink.run(0)
    sink.plan(1)
    sink.write(1)
    sink.look()
    assert sink.manifest == {
        "version": 1,
        "sink": "birds",
        "format": "text",
        "batch": 0,
        "partition_by": [],
        "files": [{"path": "kind=a b/part-0.txt", "size": 6}, {"path": "kind=c/part-0.txt", "size": 4}],
    }
    assert (sink.folder / "_headwater/files.txt").read_text() == "kind=a b/part-0.txt\nkind=c/part-0.txt\n"

    sink.commit(1)
    sink.plan(2)
    sink.write(2)
    # The compact file does not say which of its files are not committed: the manifest stays behind.
    sink.look()
    assert sink.manifest["batch"] == 0
    sink.commit(2)
    sink.look()
    assert sink.manifest["batch"] == 2
    assert [file["path"] for file in sink.manifest["files"]] == sink.listed()

    sink.options = sink.options.model_copy(update={"manifest": False})
    sink.restart()
    sink.look()
    assert not list((sink.folder / "_headwater").iterdir())


def test_a_manifest_is_written_a_tenth_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(tmp_path, min_files=100)
    update = Manifest.update

    def slow(manifest: Manifest, batch: int) -> None:
        update(manifest, batch)
        sink.now += 2

    monkeypatch.setattr(Manifest, "update", slow)
    sink.run(0)
    sink.look()
    assert sink.manifest["batch"] == 0
    sink.run(1)
    sink.now += 19
    sink.look()
    assert sink.manifest["batch"] == 0
    # A later tick makes up for it, also if no other batch was committed.
    sink.now += 1
    sink.look(Tick(frozenset()))
    assert sink.manifest["batch"] == 1
    sink.look(Tick(frozenset()))
    # The end of a run does not wait.
    sink.run(2)
    sink.look()
    assert sink.manifest["batch"] == 1
    sink.look(Tick(frozenset({"birds"}), last=True))
    assert sink.manifest["batch"] == 2
    assert [file["path"] for file in sink.manifest["files"]] == sink.listed()


def test_empty_files_are_left_out_and_a_moved_folder_is_told(tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    sink.run(0)
    log = sink.folder / "_spark_metadata/0"
    log.write_text(log.read_text().replace('"size": 4', '"size": 0'))
    sink.look()
    assert [file["path"] for file in sink.manifest["files"]] == ["kind=a b/part-0.txt"]
    log.write_text(log.read_text().replace("my%20out", "elsewhere"))
    sink.restart()
    with pytest.raises(CheckpointError) as error:
        sink.look()
    assert [problem.code for problem in error.value.problems] == ["HW-SINK-LOG-PATH-INVALID"]


def test_a_batch_costs_what_is_new_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(tmp_path, min_files=10_000)
    sink.run(*range(60))
    sink.look()
    parsed, parse = list[str](), file_logs.json_object

    def noted(text: str) -> dict[str, Any]:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(file_logs, "json_object", noted)
    for batch in range(60, 63):
        sink.run(batch)
        parsed.clear()
        sink.look()
        # A batch has two files. Only a new compact file is searched for small files as a whole.
        assert len([line for line in parsed if '"path"' in line]) == (2 if batch != 62 else 2 + 126)
    assert [file["path"] for file in sink.manifest["files"]] == sink.listed()


def test_small_files_of_each_folder_become_one_and_go_after_an_hour(tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    sink.run(0, 1, 2, 3)
    settle(sink)
    names = sink.listed()
    assert [name.rpartition("/")[0] for name in names] == ["kind=a b", "kind=c"] * 2
    assert sink.rows(names) == expected(4)
    assert [file["path"] for file in sink.manifest["files"]] == names
    assert not (sink.folder / "_spark_metadata/.2.compact.crc").exists()

    sink.now += HOUR - 1
    sink.look()
    assert len(sink.data()) == 8 + 2
    sink.now += 1
    sink.look()
    assert sink.data() == set(names)
    assert {path.name for path in (sink.folder / "_headwater").iterdir()} == {"manifest.json", "files.txt"}
    sink.run(4, 5)
    assert sink.rows(sink.listed()) == expected(6)


def test_a_log_that_spark_wrote_in_the_same_moment_names_the_old_files_again(tmp_path: Path) -> None:
    sink = Sink(tmp_path, retention="0 s")
    sink.run(0, 1, 2, 3, 4)
    old = sink.log_files(2, 5)
    sink.plan(5)
    settle(sink)
    # Batch 5 is not committed, so nothing may be deleted yet.
    assert len(sink.data()) == 10 + 2
    sink.write(5)
    lines = [*old, *_lines(sink.folder / "_spark_metadata/5.compact")[-2:]]
    (sink.folder / "_spark_metadata/5.compact").write_text("\n".join(["v1", *lines]))
    sink.commit(5)
    sink.look(LAST)
    assert sink.data() == set(sink.listed())
    assert sink.rows(sink.listed()) == expected(6)
    assert [file["path"] for file in sink.manifest["files"]] == sink.listed()


def steps(monkeypatch: pytest.MonkeyPatch, kill_at: int) -> Callable[[], int]:
    """Let the process die before its n-th change on the disk; gives how many there were."""
    count = 0

    def counted(change: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == kill_at:
                raise KilledError
            return change(*args, **kwargs)

        return call

    monkeypatch.setattr(os, "replace", counted(os.replace))
    monkeypatch.setattr(LocalStore, "delete", counted(LocalStore.delete))
    monkeypatch.setattr(Path, "rename", counted(Path.rename))
    monkeypatch.setattr(Path, "unlink", counted(Path.unlink))
    return lambda: count


@pytest.mark.feature("D2.2", part="a kill at every step of an exchange")
def test_a_kill_at_any_step_leaves_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kills = 0
    for number in range(1, 100):
        sink = Sink(tmp_path / str(number), retention="0 s")
        sink.run(0, 1, 2, 3)
        with monkeypatch.context() as patched:
            done = steps(patched, number)
            try:
                settle(sink)
            except KilledError:
                kills += 1
            finished = done() < number
        assert sink.rows(sink.listed()) == expected(4)
        if (sink.folder / "_headwater/manifest.json").exists():
            assert sink.rows(file["path"] for file in sink.manifest["files"]) == expected(4)
        sink.restart()
        settle(sink)
        sink.look(LAST)
        names = sink.listed()
        assert sink.rows(names) == expected(4)
        assert sink.data() == set(names) == {file["path"] for file in sink.manifest["files"]}
        assert len(names) == 4
        if finished:
            break
    # The manifest twice, note, two moves, checksum, log, note, manifest, note, …
    assert kills > 8


def test_what_fails_is_told_once_and_not_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(tmp_path)

    def broken(self: Joined, group: Iterable[str]) -> Iterator[Rewritten]:
        raise ValueError("no room")

    monkeypatch.setattr(Joined, "rewrite", broken)
    sink.run(0, 1, 2)
    with pytest.raises(CheckpointError) as error:
        settle(sink)
    (problem,) = error.value.problems
    assert (problem.code, problem.params["says"]) == ("HW-COMPACTION-FAILED", "no room")
    sink.look()
    assert sink.rows(sink.listed()) == expected(3)


def test_small_files_of_a_dropped_pass_are_due_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(tmp_path)
    sink.run(0, 1, 2, 3)
    with monkeypatch.context() as patched:
        patched.setattr(module, "exchange", lambda *_: None)
        settle(sink)
    assert len(sink.listed()) == 8
    settle(sink)
    assert len(sink.listed()) == 4
    assert sink.rows(sink.listed()) == expected(4)


def test_small_files_of_a_failed_pass_are_due_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    sink = Sink(tmp_path)
    sink.run(0, 1, 2, 3)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", fails)
        with pytest.raises(CheckpointError) as error:
            settle(sink)
    assert [problem.code for problem in error.value.problems] == ["HW-MANIFEST-WRITE-FAILED"]
    assert len(sink.listed()) == 8
    settle(sink)
    assert len(sink.listed()) == 4
    assert sink.rows(sink.listed()) == expected(4)


def test_groups_are_of_one_folder_small_and_about_as_large_as_wanted() -> None:
    sizes = {"a/1": 40, "a/2": 49, "a/3": 50, "a/4": 30, "b/5": 1, "b/6": 1, "c/7": 1}
    assert small_files(sizes, 2, 100) == [("a/1", "a/2"), ("b/5", "b/6")]
    assert small_files(sizes, 2, 120) == [
        ("a/1", "a/2"),
        ("a/3", "a/4"),
        ("b/5", "b/6"),
    ]
    assert small_files(sizes, 3, 100) == [("a/1", "a/2")]
    assert small_files({str(number): 0 for number in range(3)}, 3, 10) == [("0", "1", "2")]


@pytest.mark.parametrize(
    ("format", "options", "text", "head", "tail"),
    [
        ("json", {}, b'{"a":1}\n', b"", b""),
        ("json", {"lineSep": "|"}, b'{"a":1}|', b"", b""),
        ("csv", {}, b"1,2\n", b"", b""),
        ("csv", {"header": "true"}, b"a,b\n1,2\n", b"a,b\n", b""),
        ("csv", {"HEADER": "TRUE"}, b"a,b\n", b"a,b\n", b""),
        ("xml", {}, b"<R a='1'>\n  <b/>\n</R>", b"<R a='1'>", b"\n</R>"),
        ("xml", {}, b'<?xml version="1.0"?>\n<R>\n<b/>\n</R>\n', b'<?xml version="1.0"?>\n<R>', b"\n</R>\n"),
        ("text", {}, b"", b"", b""),
    ],
)
def test_what_stands_around_the_rows_of_a_text_file(
    format: str, options: dict[str, str], text: bytes, head: bytes, tail: bytes
) -> None:
    assert frame_of("part-0.x.gz", format, options, text, text) == Frame(".x.gz", head, tail)


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("json", b'{"a":1}'),
        ("csv", b'"a\nb",c\n1,2\n'),
        ("csv", b"a,b"),
        ("xml", b"<R><b/>"),
        ("xml", b"none"),
    ],
)
def test_a_file_that_is_not_as_spark_writes_it_is_joined_to_no_other(format: str, text: bytes) -> None:
    assert frame_of("x.txt", format, {"header": "true"}, text, text) == Frame(".txt", odd="x.txt")


@pytest.mark.parametrize(
    "keys",
    [
        {"path": "s3a://bucket/out", "manifest": True},
        {"path": "s3a://bucket/out", "compaction": {"min_files": 5}},
        {"compaction": {"target_size": "1 MB"}},
        {"compaction": {"retention": Duration.parse("1 hour")}},
        {"compaction": {"min_files": 5}, "options": {"retention": "1d"}},
        {"compaction": {"min_files": 5}, "options": {"encoding": "UTF-16"}},
        {"compaction": {"min_files": 1}},
        {"compaction": {"min_files": 5, "target_size": 0}},
        {"compaction": {"min_files": 5, "compact_to": "1 MB"}},
    ],
)
def test_what_can_not_be_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        FilesSink.model_validate({"path": "/out", "format": "json", **keys})


def test_the_keys_of_a_compaction_have_defaults() -> None:
    sink = FilesSink.model_validate({"path": "/out", "format": "json", "compaction": {"min_files": 50}})
    assert sink.compaction
    assert sink.compaction.target_size == 128 << 20
    assert sink.compaction.retention == Duration.parse("1 hour")


def test_what_goes_wrong_with_a_rewriting_is_told_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWRITING_TOKEN", "hush-hush")
    Secret("${secret:REWRITING_TOKEN}").reveal()

    class Failing(Joined):
        def see_jars(self) -> None:
            raise RuntimeError("no room at hush-hush")

    context = SimpleNamespace(setLocalProperty=lambda *_: None, setJobGroup=lambda *_: None)
    spark = SimpleNamespace(sparkContext=context)
    compactor = Compactor("birds", Failing(spark, tmp_path, "text", {}))
    compactor.begin([("a",)])
    compactor.end(5.0)
    with pytest.raises(CheckpointError) as failed:
        compactor.take()
    (problem,) = failed.value.problems
    assert problem.params == {"sink": "birds", "says": "no room at ***"}
    assert "hush-hush" not in problem.detail
    assert "no room at ***" in problem.detail
