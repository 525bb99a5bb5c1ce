"""Planned files of a source are replaced, committed ones stay."""

from __future__ import annotations

import json
from pathlib import Path

from headwater.checkpoint import LocalStore
from headwater.checkpoint.editors import change_files, uncommitted


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
