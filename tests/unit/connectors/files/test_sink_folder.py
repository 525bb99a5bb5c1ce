"""The folder of a files sink and what its log names."""

from __future__ import annotations

import errno
import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.checkpoint import LocalStore, SinkLog
from headwater.connectors.files.sink_folder import LIST, MANIFEST, Manifest, named_outside, newest, removable


def log(folder: Path, *paths: str) -> None:
    entries = [
        {"path": path, "size": 1, "isDir": False, "modificationTime": 1, "action": "add"} for path in paths
    ]
    file = folder / "_spark_metadata" / "0"
    file.parent.mkdir(parents=True)
    file.write_text("\n".join(["v1", *map(json.dumps, entries)]), encoding="utf-8")


def test_a_folder_without_a_log_names_nothing(tmp_path: Path) -> None:
    assert named_outside(tmp_path) is None


@pytest.mark.parametrize("name", ["part-0.json", "shop=north/part-0.json", "a%20b.json"])
def test_files_of_the_folder(tmp_path: Path, name: str) -> None:
    log(tmp_path / "out", f"file://{tmp_path}/out/{name}")
    assert named_outside(tmp_path / "out") is None


def test_a_folder_that_was_moved(tmp_path: Path) -> None:
    log(tmp_path / "out", f"file://{tmp_path}/out/new.json", f"file://{tmp_path}/old%20out/part-0.json")
    assert named_outside(tmp_path / "out") == f"{tmp_path}/old out/part-0.json"


def test_a_folder_that_was_written_through_a_link(tmp_path: Path) -> None:
    log(tmp_path / "out", f"file://{tmp_path}/link/part-0.json")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    assert named_outside(tmp_path / "out") is None


@pytest.mark.parametrize(
    ("names", "batch", "expected"),
    [
        ([], 0, []),
        (["0", "1"], 1, ["1"]),
        (["0", "1"], 2, []),
        (["0", "1", "2.compact"], 2, ["2.compact"]),
        (["2.compact", "3", "4"], 4, ["4"]),
        (["2.compact", "3", "4", "5.compact"], 5, ["5.compact"]),
    ],
)
def test_the_newest_batch_can_be_taken_out(names: list[str], batch: int, expected: list[str]) -> None:
    assert removable(names, batch) == expected


@pytest.mark.parametrize(
    ("names", "batch"),
    [
        ([], None),
        ([".0.crc", "_tmp"], None),
        (["0"], 0),
        (["8", "9.compact", ".11.crc"], 9),
        (["9", "10"], 10),
    ],
)
def test_the_newest_batch(names: list[str], batch: int | None) -> None:
    assert newest(names) == batch


@pytest.mark.parametrize("names", [["5.compact"], ["4", "5.compact"], ["2.compact", "4", "5.compact"]])
def test_a_compact_file_stays_when_it_alone_holds_earlier_batches(names: list[str]) -> None:
    assert removable(names, 5) == []


class Output:
    """The directory of a sink, with the log as Spark writes it: every tenth file of it is a compact one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.files = folder, 0
        (folder / "_spark_metadata").mkdir()
        self.manifest = self.new()

    def new(self) -> Manifest:
        """The manifest of a process that has just started."""
        return Manifest(self.folder, "birds", "parquet", ("kind",))

    def line(self, number: int) -> str:
        path = f"file://{self.folder}/kind=%C3%A9/part-{number:08}.parquet"
        entry = {"path": path, "size": number + 1, "isDir": False, "modificationTime": 1, "action": "add"}
        return json.dumps(entry, separators=(",", ":"))

    def commit(self, batch: int, files: int) -> None:
        """A batch with some files more; a compact one lists all of them."""
        compact = batch % 10 == 9
        first, self.files = self.files, self.files + files
        lines = (self.line(number) for number in range(0 if compact else first, self.files))
        file = self.folder / "_spark_metadata" / f"{batch}{'.compact' if compact else ''}"
        file.write_text("\n".join(["v1", *lines]), encoding="utf-8")

    @property
    def written(self) -> tuple[str, str]:
        return tuple((self.folder / name).read_text(encoding="utf-8") for name in (LIST, MANIFEST))  # type: ignore[return-value]

    def expected(self, batch: int) -> tuple[str, str]:
        """Both files, byte by byte."""
        names = [f"kind=é/part-{number:08}.parquet" for number in range(self.files)]
        entries = [f'{{"path": "{name}", "size": {number + 1}}}' for number, name in enumerate(names)]
        head = f'{{"version": 1, "sink": "birds", "format": "parquet", "batch": {batch}, "partition_by": ["kind"]'
        joined = ",\n".join(entries)
        return "".join(f"{name}\n" for name in names), f'{head}, "files": [\n{joined}\n]}}\n'


def test_a_manifest_grows_with_each_batch(tmp_path: Path) -> None:
    output = Output(tmp_path)
    for batch, files in enumerate((0, 2, 0, 1, 1, 1, 1, 1, 1, 700, 1, 0, 1)):
        output.commit(batch, files)
        output.manifest.update(batch)
        assert output.written == output.expected(batch)
    output.new().update(12)
    assert output.written == output.expected(12)


@pytest.mark.parametrize("name", [LIST, MANIFEST])
@pytest.mark.parametrize(
    "change",
    [
        Path.unlink,
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes().replace(b"part-00000001", b"part-00000007")),
    ],
)
def test_a_manifest_that_was_changed_is_written_anew(
    tmp_path: Path, name: str, change: Callable[[Path], object]
) -> None:
    output = Output(tmp_path)
    output.commit(0, 3)
    output.manifest.update(0)
    change(tmp_path / name)
    output.commit(1, 1)
    output.manifest.update(1)
    assert output.written == output.expected(1)


@pytest.mark.parametrize("failing", [0, 1])
def test_a_manifest_that_could_not_be_written_follows_at_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    output = Output(tmp_path)
    output.commit(0, 3)
    output.manifest.update(0)
    before, replaced = output.written, list[str]()

    def full(source: Path, target: Path) -> None:
        if len(replaced) == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        replaced.append(target.name)
        os.rename(source, target)

    output.commit(1, 2)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            output.manifest.update(1)
    # The list comes first, and what could not be written is not left behind.
    after = output.expected(1)
    assert output.written == (after[0] if failing else before[0], before[1])
    assert sorted(os.listdir(tmp_path / "_headwater")) == ["files.txt", "manifest.json"]
    output.commit(2, 1)
    output.manifest.update(2)
    assert output.written == output.expected(2)


def peak_of(call: Callable[[], object]) -> int:
    """The largest number of bytes that a call needs at a time."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_files_of_a_sink_are_not_kept_in_memory(tmp_path: Path) -> None:
    output, largest = Output(tmp_path), 1 << 20
    output.commit(9, 20_000)
    assert (tmp_path / "_spark_metadata/9.compact").stat().st_size > 2 * largest
    assert peak_of(lambda: output.manifest.update(9)) < largest
    for batch in (10, 19):
        output.commit(batch, 1)
        assert peak_of(lambda number=batch: output.manifest.update(number)) < largest  # type: ignore[misc]
    assert output.written == output.expected(19)
    assert peak_of(lambda: named_outside(tmp_path)) < largest
    assert peak_of(lambda: next(SinkLog(LocalStore(tmp_path)).newest())) < largest
