"""Headwater's own small files: what older versions wrote still reads, and is written the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from headwater.checkpoint import LocalStore
from headwater.checkpoint.store import Note, NoteError
from headwater.connectors.files import admission, compaction
from headwater.connectors.kafka import source, start
from headwater.runtime import records

STAMP = '{"size": 3, "modified_ms": 5}'
STORED = {
    "start": (start._Start, '{"version": 1, "start": "latest", "offsets": {"clicks": {"0": 7, "1": 9}}}'),
    "topic ids": (source._Noted, '{"version": 1, "sources": {"clicks": {"clicks-topic": "id"}}}'),
    "owner": (records._Owner, '{"version": 1, "name": "p\\u00fc"}'),
    "admission": (
        admission._Noted,
        '{"version": 1, "files": {"/in/a": {"stamp": STAMP, "stands_in": "/x"}}, "stand_ins": {"/x": STAMP}}',
    ),
    "compaction": (
        compaction._Noted,
        '{"version": 1, "passes": [{"replaced": ["a", "b"], "written": ["c"], "planned": 4, "at": 1.5}, '
        '{"replaced": [], "written": [], "planned": null, "at": 0.0}]}',
    ),
}


@pytest.mark.parametrize("kind", STORED)
def test_an_old_file_reads_and_is_written_the_same(tmp_path: Path, kind: str) -> None:
    model, text = STORED[kind]
    text = text.replace("STAMP", STAMP) + "\n"
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
        ('{"version": 2, "name": "p"}', "it has version 2, and 1 is known"),
        ('{"name": "p"}', "it has version None, and 1 is known"),
        ('{"version": 1}', "`name` is missing"),
        ('{"version": 1, "name": 3}', "`name`: Input should be a valid string"),
        ("[]", "it is no JSON object"),
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ],
)
def test_what_is_wrong_with_a_note_is_told(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "note.json").write_text(text)
    with pytest.raises(NoteError) as told:
        Note.at(tmp_path / "note.json", Owner).read()
    assert (told.value.reason, str(told.value)) == (reason, f"{tmp_path / 'note.json'}: {reason}")
