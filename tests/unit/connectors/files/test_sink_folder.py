"""The folder of a files sink and what its log names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.connectors.files.sink_folder import named_outside


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
