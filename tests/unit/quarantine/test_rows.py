"""Quarantined rows: read by the log's word, replayed once for each time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest

from headwater.errors import CheckpointError
from headwater.quarantine import CorrectedRow, Quarantine, QuarantinedRow, quarantines, replay_rows
from headwater.quarantine.rows import replay_schema
from headwater.run_directory import RunDirectory
from tests.quarantines import commit, row


@pytest.fixture
def quarantine(tmp_path: Path) -> Quarantine:
    return Quarantine(RunDirectory(tmp_path).quarantine("orders"))


def test_rows_are_those_of_the_log(quarantine: Quarantine) -> None:
    commit(quarantine, 0, [row(1), row(2, None)])
    commit(quarantine, 1, [row(3, b"\xff")])
    # A batch that was not committed leaves files that nobody may read.
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist([row(9).record()], replay_schema()),
        quarantine.directory.rows / "part-9.parquet",
    )
    assert list(quarantine.rows()) == [row(1), row(2, None), row(3, b"\xff")]
    assert [each.name for each in quarantines(quarantine.directory.path.parent.parent)] == ["orders"]


def test_each_row_is_fed_once_for_each_time_it_was_set_aside(quarantine: Quarantine) -> None:
    commit(quarantine, 0, [row(1), row(2), row(2, reason="too_large")])
    assert replay_rows(quarantine, lambda each: each.reason == "malformed").rows == 2
    # The equal row of another reason is the same row by its id, and still waits once.
    assert [each.offset for each in quarantine.waiting()] == [2]
    assert replay_rows(quarantine, lambda each: True).rows == 1
    assert replay_rows(quarantine, lambda each: True).rows == 0
    commit(quarantine, 1, [row(1)])
    assert [each.offset for each in quarantine.waiting()] == [1]
    replayed = replay_rows(quarantine, lambda each: True)
    assert (replayed.rows, replayed.left) == (1, 0)
    assert [each.id for each in quarantine.replayed()] == [row(n).id for n in (1, 2, 2, 1)]


def test_mended_rows_are_fed_with_their_new_text_under_their_old_id(quarantine: Quarantine) -> None:
    commit(quarantine, 0, [row(1), row(2)])
    replayed = replay_rows(
        quarantine,
        lambda each: True,
        {row(2).id: [CorrectedRow(b'{"a": 1}')], "unknown": [CorrectedRow(b"x")]},
    )
    assert (replayed.rows, replayed.left, replayed.unknown) == (1, 1, ("unknown",))
    (again,) = quarantine.replayed()
    assert (again.id, again.value, again.offset) == (row(2).id, b'{"a": 1}', 2)
    assert [each.offset for each in quarantine.waiting()] == [1]


@pytest.mark.parametrize(
    "other",
    [
        row(2),
        row(1, b"y"),
        row(1, None),
        row(1, key=b"x"),
        row(1, topic="u"),
        row(1, partition=1),
        row(1, source="o"),
    ],
)
def test_rows_that_differ_have_other_ids(other: QuarantinedRow) -> None:
    assert other.id != row(1).id
    assert row(1, reason="other", quarantined_at=datetime.now(UTC)).id == row(1).id


def test_a_row_as_json() -> None:
    told = row(1, b"\xff").to_json()
    assert (told["id"], told["value"], told["text"], told["offset"]) == (row(1, b"\xff").id, "/w==", None, 1)
    assert (told["headers"], told["quarantined_at"]) == (
        [{"key": "h", "value": "MQ=="}],
        "2026-01-02T03:04:05+00:00",
    )
    assert json.loads(json.dumps(told)) == told


def test_a_file_that_can_t_be_read_is_named(quarantine: Quarantine) -> None:
    commit(quarantine, 0, [row(1)])
    (quarantine.directory.rows / "part-0.parquet").write_bytes(b"nonsense")
    with pytest.raises(CheckpointError) as refused:
        list(quarantine.rows())
    assert [problem.code for problem in refused.value.problems] == ["HW-QUARANTINE-UNREADABLE"]


def test_equal_rows_take_their_texts_one_after_another(quarantine: Quarantine) -> None:
    commit(quarantine, 0, [row(1, file="f"), row(1, file="f")])
    assert (
        replay_rows(
            quarantine, lambda each: True, {row(1, file="f").id: [CorrectedRow(b"X"), CorrectedRow(b"Y")]}
        ).rows
        == 2
    )
    assert [each.value for each in quarantine.replayed()] == [b"X", b"Y"]


@pytest.mark.parametrize(
    ("value", "line", "replayed"),
    [
        (b"x", CorrectedRow(b"x", b"x"), b"x"),
        (b"x", CorrectedRow(b"y", b"x"), b"y"),
        # Bytes that happen to be text can be mended as bytes, too.
        (b"x", CorrectedRow(b"x", b"\xff"), b"\xff"),
        (b"x", CorrectedRow(b"y", b"z"), b"y"),
        (b"x", CorrectedRow(None, b"y"), b"y"),
        (b"\xff", CorrectedRow(None, b"\xff"), None),
        (b"\xff", CorrectedRow(None, b"\x00"), b"\x00"),
        (b"\xff", CorrectedRow(b"y", b"\xff"), b"y"),
        (None, CorrectedRow(), None),
        (None, CorrectedRow(b""), b""),
    ],
)
def test_a_mended_row_is_what_was_changed_of_it(
    value: bytes | None, line: CorrectedRow, replayed: bytes | None
) -> None:
    assert line.bytes_of(row(1, value)) == replayed


def test_mended_rows_that_are_not_fed_are_told_of(quarantine: Quarantine) -> None:
    other, broken = row(3, reason="too_large"), row(4, None, "unreadable_file")
    commit(quarantine, 0, [row(1), row(2, b"\xff"), other, broken])
    lines = {
        row(1).id: [CorrectedRow(b"X"), CorrectedRow(b"one too many")],
        row(2, b"\xff").id: [CorrectedRow(None, b"\xff")],
        other.id: [CorrectedRow(b"Y")],
        broken.id: [CorrectedRow(b"no row")],
    }
    replayed = replay_rows(quarantine, lambda each: each.reason != "too_large", lines)
    assert (replayed.rows, replayed.left, replayed.passed_over) == (1, 2, 2)
    assert (replayed.unknown, replayed.unwanted) == ((row(1).id,), (other.id,))
    assert [each.value for each in quarantine.replayed()] == [b"X"]


def test_a_file_that_could_not_be_opened_is_not_fed(quarantine: Quarantine) -> None:
    commit(quarantine, 0, [row(1, None, "unreadable_file"), row(2)])
    replayed = replay_rows(quarantine, lambda each: True)
    assert (replayed.rows, replayed.left) == (1, 0)
    assert [each.reason for each in quarantine.waiting()] == ["unreadable_file"]


def test_a_dry_feeding_feeds_nothing(quarantine: Quarantine) -> None:
    commit(quarantine, 0, [row(1)])
    replayed = replay_rows(
        quarantine,
        lambda each: True,
        {"unknown": [CorrectedRow(b"x")], row(1).id: [CorrectedRow(b"y")]},
        dry=True,
    )
    assert (replayed.rows, replayed.left, replayed.unknown, replayed.file) == (1, 0, ("unknown",), None)
    assert list(quarantine.replayed()) == []
