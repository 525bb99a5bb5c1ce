from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from headwater.checkpoint import LocalStore
from headwater.checkpoint.store import Note, NoteError
from headwater.connectors.files import compaction
from headwater.connectors.kafka import source, start
from headwater.runtime import records


def refuse(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def no_links(source: object, target: object) -> None:
    raise refuse(errno.EPERM)


def test_what_was_created_is_read_back(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert store.create("a", b"1") is True
    assert store.read("a") == b"1"
    assert store.exists("a")
    assert store.locate("a") == str(tmp_path / "a")
    assert store.modified("a") == (tmp_path / "a").stat().st_mtime


def test_a_file_that_is_replaced_in_pieces(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("a", b"first")
    with store.replacing("a") as out:
        out.write(b"sec")
        assert store.read("a") == b"first"
        out.write(b"ond")
    assert store.read("a") == b"second"
    with pytest.raises(ZeroDivisionError), store.replacing("a") as out:
        out.write(bytes(1 // 0))
    assert store.read("a") == b"second"
    assert store.names("") == ("a",)


def test_names_are_sorted_and_a_missing_folder_has_none(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / "f").mkdir()
    store.create("f/b", b"")
    store.create("f/a", b"")
    assert store.names("f") == ("a", "b")
    assert store.names("missing") == ()
    assert store.names("f/a") == ()


def test_create_leaves_an_existing_file_alone(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("a", b"first")
    assert store.create("a", b"second") is False
    assert store.read("a") == b"first"
    assert store.names("") == ("a",)


def test_create_works_where_there_are_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", no_links)
    store = LocalStore(tmp_path)
    assert store.create("a", b"first") is True
    assert store.create("a", b"second") is False
    assert store.read("a") == b"first"
    assert store.names("") == ("a",)


def test_other_refusals_to_link_are_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: object, target: object) -> None:
        raise refuse(errno.ENOSPC)

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(OSError) as caught:
        LocalStore(tmp_path).create("a", b"1")
    assert caught.value.errno == errno.ENOSPC
    assert os.listdir(tmp_path) == []


def test_a_failed_replace_leaves_the_old_content_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    store.create("a", b"old")

    def fail(descriptor: int) -> None:
        raise refuse(errno.EIO)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError):
        store.replace("a", b"new")
    assert store.read("a") == b"old"
    assert store.names("") == ("a",)


def test_writes_are_on_the_disk_before_the_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, put = os.fsync, os.replace

    def sync(descriptor: int) -> None:
        steps.append("folder" if os.path.isdir(f"/dev/fd/{descriptor}") else "file")
        fsync(descriptor)

    def rename(source: Path, target: Path) -> None:
        steps.append("name")
        put(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", rename)
    LocalStore(tmp_path).replace("a", b"1")
    assert steps == ["file", "name", "folder"]


def test_folders_that_can_not_be_synced_are_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def sync(descriptor: int) -> None:
        if os.path.isdir(f"/dev/fd/{descriptor}"):
            raise refuse(errno.EINVAL)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    assert LocalStore(tmp_path).create("a", b"1") is True


def test_delete_of_what_is_not_there_does_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("a", b"1")
    store.delete("a")
    store.delete("a")
    store.delete("no/such/folder")
    assert not store.exists("a")


STORED = {
    "start": (start._Start, '{"version": 1, "start": "latest", "offsets": {"clicks": {"0": 7, "1": 9}}}'),
    "topic ids": (source._Noted, '{"version": 1, "sources": {"clicks": {"clicks-topic": "id"}}}'),
    "owner": (records._Owner, '{"version": 1, "name": "p\\u00fc"}'),
    "compaction": (
        compaction._Noted,
        '{"version": 1, "passes": [{"replaced": ["a", "b"], "written": ["c"], "planned": 4, "at": 1.5}, '
        '{"replaced": [], "written": [], "planned": null, "at": 0.0}]}',
    ),
}


@pytest.mark.parametrize("kind", STORED)
def test_an_old_file_reads_and_is_written_the_same(tmp_path: Path, kind: str) -> None:
    model, text = STORED[kind]
    text += "\n"
    note = Note[object](LocalStore(tmp_path), "folder/note.json", model)
    assert note.read() is None
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/note.json").write_text(text)
    read = note.read()
    assert isinstance(read, model)
    note.write(read)
    assert (tmp_path / "folder/note.json").read_text() == text


@dataclass(frozen=True)
class Owner:
    name: str


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"version": 2, "name": "p"}', "unsupported version 2, expected 1"),
        ('{"name": "p"}', "unsupported version None, expected 1"),
        ('{"version": 1}', "`name` is missing"),
        ('{"version": 1, "name": 3}', "`name`: Input should be a valid string"),
        ("[]", "expected a JSON object"),
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ],
)
def test_what_is_wrong_with_a_note_is_told(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "note.json").write_text(text)
    with pytest.raises(NoteError) as told:
        Note.at(tmp_path / "note.json", Owner).read()
    assert (told.value.reason, str(told.value)) == (reason, f"{tmp_path / 'note.json'}: {reason}")
