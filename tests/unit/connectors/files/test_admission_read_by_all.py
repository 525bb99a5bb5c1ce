"""Which files every query of a source has read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from headwater.connectors.contract import QueryCheckpoint
from headwater.connectors.files.admission import read_by_all

FOLDER = Path("/run/s")
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
    return QueryCheckpoint(name, checkpoint, ("file:/run/s",), ("s",), sources)


def test_a_file_is_read_when_every_query_of_its_source_has_committed_it(tmp_path: Path) -> None:
    far, behind = query(tmp_path, "far", "/a", "/b"), query(tmp_path, "behind", "/a")
    new = QueryCheckpoint("new", tmp_path / "new", ("/run/s",), ("s",))
    assert read_by_all([far], FOLDER) == {"/a", "/b"}
    assert read_by_all([far, behind], FOLDER) == {"/a"}
    assert read_by_all([far, new], FOLDER) == frozenset()
    assert read_by_all([], FOLDER) == frozenset()


def test_what_was_read_under_other_names_is_not_known(tmp_path: Path) -> None:
    assert query(tmp_path, "other", "/a", sources=("other",)).files_read("/run/s") == frozenset()
    assert query(tmp_path, "more", "/a", sources=("s", "added")).files_read("/run/s") == frozenset()
    assert query(tmp_path, "never", "/a", sources=()).files_read("/run/s") == frozenset()
    assert query(tmp_path, "path", "/a").files_read("/run/t") == frozenset()


def test_a_query_that_reads_a_path_twice_has_read_what_both_streams_have(tmp_path: Path) -> None:
    one = query(tmp_path, "joined", "/a")
    checkpoint = one.checkpoint
    (checkpoint / "offsets/0").write_text("\n".join(["v1", SETTINGS, *['{"logOffset":0}'] * 3]))
    for source, files in ((1, "bc"), (2, "ac")):
        (checkpoint / f"sources/{source}").mkdir()
        lines = [json.dumps({"path": f"file:///{file}", "timestamp": 1, "batchId": 0}) for file in files]
        (checkpoint / f"sources/{source}/0").write_text("\n".join(["v1", *lines]))
    places, sources = ("/run/s", "/run/t", "/run/s"), ("s", "s", "s")
    joined = replace(one, places=places, sources=sources, sources_before=sources)
    assert joined.files_read("/run/s") == {"/a"}
    assert joined.files_read("/run/t") == {"/b", "/c"}
    # A stream of replayed rows was added; the checkpoint does not have it yet.
    more = replace(joined, places=("", *places), sources=("replayed", *sources))
    assert more.files_read("/run/s") == {"/a"}
    # The order of two sources has changed.
    turned = replace(joined, sources=("s", "t", "s"), sources_before=("t", "s", "s"))
    assert turned.files_read("/run/s") == frozenset()
