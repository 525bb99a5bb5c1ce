"""The folder of a files sink and what its log names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.connectors.files.sink_folder import named_outside, newest, removable


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
