"""The frozen copy of the files of a source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.connectors.files.frozen import _link_all


def copied(original: Path, copy: Path) -> dict[str, str]:
    """The files of the copy, with their texts."""
    _link_all(original, copy)
    return {
        str(each.relative_to(copy)): each.read_text(encoding="utf-8")
        for each in sorted(copy.rglob("*"))
        if not each.is_dir()
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    (folder / "day=1").mkdir(parents=True)
    (folder / "day=1" / "a.json").write_text("a", encoding="utf-8")
    return folder


def test_symbolic_links_are_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "b.json").write_text("b", encoding="utf-8")
    (folder / "b.json").symlink_to(Path("..", "real", "b.json"))
    (folder / "day=2").symlink_to(Path("..", "real"))
    (folder / "gone.json").symlink_to("nowhere.json")
    expected = {"b.json": "b", "day=1/a.json": "a", "day=2/b.json": "b"}
    copy = tmp_path / "deep" / "er" / "copy"
    assert copied(folder, copy) == expected
    assert not any(each.is_symlink() for each in copy.rglob("*"))


def test_a_loop_of_symbolic_links_ends(folder: Path, tmp_path: Path) -> None:
    (folder / "day=1" / "up").symlink_to(folder)
    assert copied(folder, tmp_path / "copy") == {"day=1/a.json": "a"}


def test_the_copy_itself_is_not_copied(folder: Path) -> None:
    copy = folder / "run" / "copy"
    assert copied(folder, copy) == {"day=1/a.json": "a"}


def test_a_file_that_disappears_meanwhile_is_skipped(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def late(original: str, copy: Path) -> None:
        os.unlink(original)
        link(original, copy)

    monkeypatch.setattr("headwater.connectors.files.frozen.os.link", late)
    assert copied(folder, tmp_path / "copy") == {}


def test_a_missing_directory_has_no_files(tmp_path: Path) -> None:
    assert copied(tmp_path / "none", tmp_path / "copy") == {}
