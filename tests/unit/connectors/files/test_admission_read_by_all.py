"""Which files every query of a source has read."""

from __future__ import annotations

import json
from pathlib import Path

from headwater.connectors.contract import QueryCheckpoint
from headwater.connectors.files.admission import read_by_all

SETTINGS = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def query(folder: Path, name: str, *files: str, sources: tuple[str, ...] = ("s",)) -> QueryCheckpoint:
    """A query whose source 0 has committed these files."""
    checkpoint = folder / name
    lines = [json.dumps({"path": f"file://{file}", "timestamp": 1, "batchId": 0}) for file in files]
    texts = {
        "offsets/0": "\n".join(["v1", SETTINGS, '{"logOffset":0}']),
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        "sources/0/0": "\n".join(["v1", *lines]),
    }
    for file, text in texts.items():
        (checkpoint / file).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / file).write_text(text)
    return QueryCheckpoint(name, checkpoint, (), ("s",), sources)


def test_a_file_is_read_when_every_query_of_its_source_has_committed_it(tmp_path: Path) -> None:
    far, behind = query(tmp_path, "far", "/a", "/b"), query(tmp_path, "behind", "/a")
    new = QueryCheckpoint("new", tmp_path / "new", (), ("s",))
    assert read_by_all([far], "s") == {"/a", "/b"}
    assert read_by_all([far, behind], "s") == {"/a"}
    assert read_by_all([far, new], "s") == frozenset()
    assert read_by_all([], "s") == frozenset()


def test_what_was_read_under_other_names_is_not_known(tmp_path: Path) -> None:
    assert query(tmp_path, "other", "/a", sources=("other",)).files_read("s") == frozenset()
    assert query(tmp_path, "more", "/a", sources=("s", "added")).files_read("s") == frozenset()
    assert query(tmp_path, "never", "/a", sources=()).files_read("s") == frozenset()
