"""The stored results: appended, compacted, and read after a crash at any byte and from the former format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.checkpoint import LocalStore
from headwater.checkpoint.store import NoteError
from headwater.connectors.files import admission_record as module
from headwater.connectors.files.admission_record import (
    AdmissionRecord,
    FileStamp,
    RejectedFile,
    ResultFile,
    rejected_files,
)

Content = tuple[dict[str, FileStamp], dict[str, RejectedFile], dict[str, FileStamp]]


def opened(folder: Path) -> AdmissionRecord:
    record = AdmissionRecord(folder, "/in")
    record.begin()
    record.read()
    return record


def stored(folder: Path) -> Content:
    record = AdmissionRecord(folder, "")
    record.read()
    return content(record)


def content(record: AdmissionRecord) -> Content:
    return record.admitted, record.rejected, record._placeholders


def test_each_write_adds_its_results(tmp_path: Path) -> None:
    record = opened(tmp_path)
    record.write()
    assert (tmp_path / "files.jsonl").read_text() == '{"version": 2}\n'
    record.admit('/in/a \u00fc"\\\udc80.x', FileStamp(1, 2))
    record.reject("/in/b.x", FileStamp(3, 4), "/run/b.bad", 5)
    record.write()
    assert stored(tmp_path) == content(record)
    assert rejected_files(tmp_path) == {"/in/b.x": "/run/b.bad"}
    # The file was fixed: it is admitted, and its placeholder stays.
    record.admit("/in/b.x", FileStamp(6, 7))
    record.forget('/in/a \u00fc"\\\udc80.x')
    record.write()
    expected: Content = ({"/in/b.x": FileStamp(6, 7)}, {}, {"/run/b.bad": FileStamp(5, 4)})
    assert stored(tmp_path) == content(record) == expected
    assert len((tmp_path / "files.jsonl").read_text().splitlines()) == 5


def test_after_a_crash_at_any_byte_the_rest_of_the_write_is_lost_and_overwritten(tmp_path: Path) -> None:
    record = opened(tmp_path)
    record.admit("/in/a", FileStamp(1, 2))
    record.write()
    file = tmp_path / "files.jsonl"
    before = file.read_bytes()
    record.admit("/in/b", FileStamp(3, 4))
    record.reject("/in/c", FileStamp(5, 6), "/run/c.bad", 7)
    record.write()
    after = file.read_bytes()
    added = ["/in/b", "/in/c"]
    for cut in range(len(before), len(after) + 1):
        # The file system may also have made room for what it had not written.
        for tail in (b"", b"\0" * (len(after) - cut)):
            file.write_bytes(after[:cut] + tail)
            whole = after[:cut].count(b"\n") - 2
            found = opened(tmp_path)
            assert [*found.admitted, *found.rejected] == ["/in/a", *added[:whole]]
            found.admit("/in/d", FileStamp(8, 9))
            found.write()
            assert stored(tmp_path) == content(found)
            assert list(found.admitted)[-1] == "/in/d"


@pytest.mark.parametrize(
    "line",
    [
        b'{"file": "/in/b", "size": 3}\n',
        b'{"file": "/in/b", "size": "3", "modified_ms": 4}\n',
        b'{"file": 7, "size": 3, "modified_ms": 4}\n',
        b'["gone"]\n',
        b"\xff\n",
    ],
)
def test_reading_ends_at_a_line_that_is_no_entry(tmp_path: Path, line: bytes) -> None:
    record = opened(tmp_path)
    record.admit("/in/a", FileStamp(1, 2))
    record.write()
    with (tmp_path / "files.jsonl").open("ab") as out:
        out.write(line + b'{"gone": "/in/a"}\n')
    assert stored(tmp_path) == content(record)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ('{"version": 3}', "unsupported version 3, expected 2"),
        ("", "expected a version in the first line, got b''"),
        ("[]", "expected a version in the first line, got b'[]'"),
    ],
)
def test_another_version_is_not_read(tmp_path: Path, header: str, reason: str) -> None:
    (tmp_path / "files.jsonl").write_text(header)
    with pytest.raises(NoteError) as error:
        AdmissionRecord(tmp_path, "").read()
    assert error.value.reason == reason


def test_a_file_with_many_outdated_lines_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ResultFile, "SPARE", 3)
    record = opened(tmp_path)
    record.reject("/in/a", FileStamp(1, 2), "/run/a.bad", 3)
    record.write()
    lengths = []
    for time in range(4, 10):
        record.admit("/in/b", FileStamp(1, time))
        record.write()
        lengths.append(len((tmp_path / "files.jsonl").read_text().splitlines()))
        assert stored(tmp_path) == content(record)
    # Two lines for the rejected file and its placeholder, and one for the other; at most 9 in addition to the first.
    assert lengths == [4, 5, 6, 7, 8, 9]
    record.admit("/in/b", FileStamp(1, 10))
    record.write()
    assert len((tmp_path / "files.jsonl").read_text().splitlines()) == 10
    record.admit("/in/b", FileStamp(1, 11))
    record.write()
    assert len((tmp_path / "files.jsonl").read_text().splitlines()) == 4
    assert stored(tmp_path) == content(record)


def test_the_former_format_is_read_and_replaced(tmp_path: Path) -> None:
    stamp = {"size": 3, "modified_ms": 4}
    files = {
        "/in/a": {"stamp": {"size": 1, "modified_ms": 2}, "stands_in": ""},
        "/in/b": {"stamp": stamp, "stands_in": "/run/b.bad"},
    }
    stand_ins = {"/run/b.bad": {"size": 9, "modified_ms": 4}, "/run/c.bad": {"size": 8, "modified_ms": 6}}
    old = tmp_path / "files.json"
    old.write_text(json.dumps({"version": 1, "files": files, "stand_ins": stand_ins}))
    record = opened(tmp_path)
    expected: Content = (
        {"/in/a": FileStamp(1, 2)},
        {"/in/b": RejectedFile(FileStamp(3, 4), "/run/b.bad")},
        {"/run/b.bad": FileStamp(9, 4), "/run/c.bad": FileStamp(8, 6)},
    )
    assert content(record) == expected
    record.write()
    assert not old.exists()
    assert stored(tmp_path) == expected
    # A crash can leave both files behind; the new one counts.
    old.write_text(json.dumps({"version": 1, "files": {}, "stand_ins": {}}))
    assert stored(tmp_path) == expected


def test_the_list_for_spark_contains_what_is_unread(tmp_path: Path) -> None:
    record = opened(tmp_path)
    for name in "abc":
        record.admit(f"/in/{name}", FileStamp(1, 2))
    record.write()
    assert listed(tmp_path) == ["/in/a", "/in/b", "/in/c"]
    record.hide({"/in/a", "/in/x"})
    record.reject("/in/b", FileStamp(3, 4), "/run/b.bad", 5)
    record.write()
    assert listed(tmp_path) == ["/in/c", "/run/b.bad"]
    # A file of the same name, with another size.
    record.admit("/in/c", FileStamp(6, 7))
    record.admit("/in/d", FileStamp(1, 2))
    record.write()
    assert listed(tmp_path) == ["/in/c", "/run/b.bad", "/in/d"]
    # Everything is listed again by a record that was just read.
    again = opened(tmp_path)
    assert sorted(again.unread) == ["/in/a", "/in/c", "/in/d", "/run/b.bad"]


def listed(folder: Path) -> list[str]:
    version, *lines = (folder / "_spark_metadata" / "0").read_text().split("\n")
    assert version == "v1"
    return [json.loads(line)["path"].removeprefix("file://") for line in lines]


def test_files_that_another_process_shortened_or_removed_are_written_as_a_whole(tmp_path: Path) -> None:
    record = opened(tmp_path)
    record.admit("/in/a", FileStamp(1, 2))
    record.write()
    (tmp_path / "files.jsonl").write_text('{"version": 2}\n')
    record.admit("/in/b", FileStamp(3, 4))
    record.write()
    assert stored(tmp_path) == content(record)
    (tmp_path / "_spark_metadata" / "0").unlink()
    record.admit("/in/c", FileStamp(5, 6))
    with pytest.raises(FileNotFoundError):
        record.write()
    record.write()
    assert listed(tmp_path) == ["/in/a", "/in/b", "/in/c"]


def test_what_follows_the_known_bytes_is_overwritten(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.replace("a", b"known, torn")
    assert store.append("a", 5, b"!")
    assert store.read("a") == b"known!"
    assert not store.append("a", 7, b"?")
    assert store.read("a") == b"known!"
    with pytest.raises(FileNotFoundError):
        store.append("b", 0, b"")
    assert module._parsed(b'{"gone": "/in/a"}') is None
