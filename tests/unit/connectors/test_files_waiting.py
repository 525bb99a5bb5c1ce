"""What lies in a folder before the first batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.connectors.files import folders
from headwater.connectors.files.folders import waiting_at
from headwater.values import Secret

NONE: dict[str, int | None] = {"max_files_per_batch": None, "max_bytes_per_batch": None}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files that are read, of 3 bytes each, and some that are not."""
    for name in (
        "a.txt",
        "day=1/b.txt",
        "day=1/hour=2/c.txt",
        "_hidden.txt",
        ".part",
        "deeper/d.txt",
        "_log/e",
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("abc", encoding="utf-8")
    return tmp_path


def test_only_what_spark_reads_is_counted(folder: Path) -> None:
    found = waiting_at((str(folder),), NONE, {})
    assert found
    assert (found.files, found.bytes, found.more, found.limit, found.batches) == (3, 9, False, "", 1)


def test_patterns_and_several_paths(folder: Path) -> None:
    found = waiting_at((f"{folder}/day=*", f"{folder}/*.txt"), {**NONE, "max_files_per_batch": 1}, {})
    assert found
    # The hidden file is none, and of two paths the fuller one decides.
    assert (found.files, found.limit, found.at_most, found.batches) == (3, "max_files_per_batch", 1, 2)


def test_limits_by_bytes_and_by_options_of_spark(folder: Path) -> None:
    paths = (str(folder),)
    by_bytes = waiting_at(paths, {**NONE, "max_bytes_per_batch": 4}, {})
    assert by_bytes
    assert (by_bytes.limit, by_bytes.batches) == ("max_bytes_per_batch", 3)
    by_option = waiting_at(paths, NONE, {"MaxFilesPerTrigger": "2"})
    assert by_option
    assert (by_option.limit, by_option.batches) == ("max_files_per_batch", 2)
    for strange in ("x", "0", Secret("${secret:X}")):
        found = waiting_at(paths, NONE, {"maxFilesPerTrigger": strange})
        assert found
        assert found.limit == ""


def test_a_very_full_folder_is_not_counted_to_its_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MOST", 2)
    found = waiting_at((str(folder),), NONE, {})
    assert found
    assert (found.files, found.bytes, found.more) == (2, 6, True)


def test_what_is_elsewhere_or_not_there(tmp_path: Path) -> None:
    assert waiting_at(("s3a://bucket/in",), NONE, {}) is None
    found = waiting_at((f"{tmp_path}/none/*",), NONE, {})
    assert found
    assert (found.files, found.batches) == (0, 1)
