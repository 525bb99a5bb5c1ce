"""Copies of files as they were at one moment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath

import pytest

from headwater.connectors.contract import Unreadable
from headwater.connectors.files.snapshots import Snapshot, take_snapshot


def old(file: Path, text: str, seconds: int = 1_700_000_000) -> Path:
    """A file that was written long ago."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (seconds, seconds))
    return file


class Table:
    """A folder that is listed and pinned, and what happened on the way."""

    def __init__(self, root: Path) -> None:
        self.files, self.root = root / "table", root
        self.listed, self.waited, self.number = 0, 0, 0
        self.at_listing: Callable[[int], None] = lambda number: None
        self.files.mkdir()

    def list(self) -> Mapping[PurePath, Path]:
        self.listed += 1
        self.at_listing(self.listed)
        return {PurePath("0") / f.relative_to(self.files): f for f in self.files.rglob("*") if f.is_file()}

    def wait(self, seconds: float) -> None:
        self.waited += 1

    def take_snapshot(self, known: Snapshot | None = None) -> Snapshot:
        self.number += 1
        return take_snapshot(self.list, self.root / f"pins{self.number}", known, self.wait)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def texts(pinned: Snapshot) -> dict[str, str]:
    files = [file for file in pinned.folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(pinned.folder)): file.read_text() for file in files}


def test_copies_keep_their_folders_and_times(table: Table) -> None:
    old(table.files / "day=1" / "a", "one")
    pinned = table.take_snapshot()
    assert texts(pinned) == {"0/day=1/a": "one"}
    assert (pinned.folder / "0/day=1/a").stat().st_mtime == 1_700_000_000
    shutil.rmtree(table.files)
    assert texts(pinned) == {"0/day=1/a": "one"}
    pinned.drop()
    assert not pinned.folder.exists()


def test_what_has_not_changed_is_not_copied_again(table: Table) -> None:
    old(table.files / "a", "one")
    old(table.files / "b", "two")
    first = table.take_snapshot()
    assert table.take_snapshot(first) is first
    old(table.files / "b", "changed")
    second = table.take_snapshot(first)
    assert texts(second) == {"0/a": "one", "0/b": "changed"}
    assert os.path.samefile(first.folder / "0/a", second.folder / "0/a")
    first.drop()
    assert texts(second) == {"0/a": "one", "0/b": "changed"}


def test_a_copy_that_is_gone_is_made_anew(table: Table) -> None:
    old(table.files / "a", "one")
    old(table.files / "b", "two")
    first = table.take_snapshot()
    shutil.rmtree(first.folder)
    old(table.files / "b", "changed")
    assert texts(table.take_snapshot(first)) == {"0/a": "one", "0/b": "changed"}


def test_a_file_that_changes_while_it_is_copied_is_listed_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    old(table.files / "a", "one")
    old(table.files / "b", "one")
    copied: list[Path] = []

    def copy(source: Path, target: Path) -> None:
        copied.append(source)
        shutil.copyfile(source, target)
        if len(copied) == 2:
            # Both are copied, and both are of one time; the next look finds a file of another.
            old(table.files / "a", "longer")

    monkeypatch.setattr(shutil, "copy2", copy)
    assert texts(table.take_snapshot()) == {"0/a": "longer", "0/b": "one"}
    assert (table.listed, len(copied)) == (2, 4)


def test_a_file_that_goes_between_the_listing_and_the_copy_is_listed_again(table: Table) -> None:
    old(table.files / "a", "one")
    gone = table.files / "b"

    def listed() -> Mapping[PurePath, Path]:
        found = table.list()
        return {**found, PurePath("0/b"): gone} if table.listed == 1 else found

    assert texts(take_snapshot(listed, table.root / "pins", None, table.wait)) == {"0/a": "one"}
    assert (table.listed, table.waited) == (2, 1)


def test_a_file_that_was_written_this_moment_is_given_time(table: Table) -> None:
    (table.files / "a").write_text("half")

    def finish(number: int) -> None:
        if number == 3:
            old(table.files / "a", "whole")

    table.at_listing = finish
    assert texts(table.take_snapshot()) == {"0/a": "whole"}
    assert (table.listed, table.waited) == (3, 2)


def test_a_table_that_is_missing_is_waited_for_but_not_for_ever(table: Table) -> None:
    def missing() -> Mapping[PurePath, Path]:
        raise FileNotFoundError("table")

    with pytest.raises(Unreadable):
        take_snapshot(missing, table.root / "pins", None, table.wait)
    assert table.waited == 100
    assert not (table.root / "pins").exists()


def test_linked_files_take_no_room_and_outlive_their_replacement(table: Table) -> None:
    file = old(table.files / "a", "one")
    pinned = take_snapshot(table.list, table.root / "pins", None, table.wait, link=True)
    copy = pinned.folder / "0" / "a"
    assert os.path.samefile(copy, file)

    old(table.root / "new", "another").rename(file)
    assert copy.read_text() == "one"


def test_a_linked_file_that_is_written_over_is_found(table: Table) -> None:
    file, other = old(table.files / "a", "one"), old(table.files / "b", "one")
    pinned = take_snapshot(table.list, table.root / "pins", None, table.wait, link=True)
    assert pinned.written_over() is None
    old(table.root / "new", "another").rename(other)
    (pinned.folder / "0" / "b").unlink()
    assert pinned.written_over() is None
    old(file, "two", 1_700_000_001)
    assert pinned.written_over() == file


def test_a_copy_does_not_care_what_is_written_over(table: Table) -> None:
    file = old(table.files / "a", "one")
    pinned = table.take_snapshot()
    old(file, "longer", 1_700_000_001)
    assert pinned.written_over() is None
