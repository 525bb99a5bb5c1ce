"""`headwater quarantine`: what a user types, and what is said."""

from __future__ import annotations

import base64
import json
from collections import Counter
from dataclasses import astuple
from pathlib import Path

import pytest

from headwater.quarantine import Quarantine
from headwater.run_directory import RunDirectory
from tests.checkpoints import stopped
from tests.quarantines import commit, row
from tests.unit.cli.conftest import Headwater

PIPELINE = """
name: orders
sources:
  orders:
    connector: kafka
    bootstrap_servers: localhost:9092
    topic: orders
    format: json
    schema: {id: int}
    bad_rows: quarantine
sinks:
  shown: {reads: orders, connector: console, trigger: TRIGGER}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline that has quarantined three rows."""
    file = tmp_path / "orders.yml"
    file.write_text(PIPELINE.replace("TRIGGER", "once"))
    quarantine = Quarantine(RunDirectory(tmp_path / ".headwater").quarantine("orders"))
    commit(
        quarantine, 0, [row(1, b"nonsense"), row(2, b"\xff", "too_large"), row(3, b"a" * 300, detail="why")]
    )
    return file


def test_rows_are_listed_shown_and_fed(file: Path, headwater: Headwater) -> None:
    def say(*words: str | Path) -> tuple[int, str, str]:
        told = headwater("quarantine", *words)
        return told.code, told.out, told.err

    listed = (0, "orders: 3 quarantined, 3 pending\n  2 malformed\n  1 too_large\n", "")
    assert say("list", file) == say("ls", file) == listed
    _, shown, _ = say("show", file, "orders", "--reason", "malformed")
    first, second = row(1, b"nonsense").id, row(3, b"a" * 300).id
    assert shown.splitlines() == [
        f"{first}  t partition 0 offset 1  2026-01-02 03:04:05 UTC",
        "  malformed",
        "  nonsense",
        f"{second}  t partition 0 offset 3  2026-01-02 03:04:05 UTC",
        "  malformed: why",
        f"  {'a' * 200}… (300 bytes)",
    ]
    assert say("show", file, "orders", "--limit", "1")[1].endswith("to write all)\n")
    code, told, _ = say("replay", file, "orders", "--id", first, "--dry-run")
    assert (code, told) == (0, "Would queue 1 row of orders for replay; 2 still pending.\n")
    assert json.loads(say("replay", file, "orders", "--id", first, "--json")[1]) == {
        "name": "orders", "rows": 1, "left": 2, "unknown": [], "dry": False, "unwanted": [], "unchanged": 0,
        "unread": 0, "behind": [], "redefined": False,
    }  # fmt: skip
    assert json.loads(say("list", file, "--json")[1])[0]["reasons"] == {"too_large": 1, "malformed": 1}
    assert [each["id"] for each in json.loads(say("show", file, "orders", "--json")[1])] == [
        row(2, b"\xff").id,
        second,
    ]
    assert len(json.loads(say("show", file, "orders", "--json", "--all")[1])) == 3


def test_mended_rows(file: Path, headwater: Headwater) -> None:
    mended = file.parent / "mended.jsonl"
    code, told, _ = astuple(
        headwater("quarantine", "export", file, "orders", "--reason", "malformed", "--output", mended)
    )
    assert (code, told) == (0, f"Wrote 2 rows to {mended}.\n")
    rows = [json.loads(line) for line in mended.read_text().splitlines()]
    rows[0]["text"] = '{"id": 1}'
    mended.write_text(json.dumps(rows[0]) + "\n" + json.dumps({"id": "nobody", "text": "x"}) + "\n")
    code, _, beside = astuple(headwater("quarantine", "replay", file, "orders", "--file", mended))
    assert (code, beside) == (1, "Row nobody is not pending. It was not replayed.\n")
    (replayed,) = Quarantine(RunDirectory(file.parent / ".headwater").quarantine("orders")).replayed()
    assert (replayed.value, replayed.offset) == (b'{"id": 1}', 1)
    mended.write_text("no json\n")
    code, _, beside = astuple(headwater("quarantine", "replay", file, "orders", "--file", mended))
    assert (code, "HW-REPLAY-FILE-INVALID" in beside) == (2, True)
    mended.unlink()
    code, _, beside = astuple(headwater("quarantine", "replay", file, "orders", "--file", mended))
    assert (code, "HW-REPLAY-FILE-UNREADABLE" in beside, "No such file" in beside) == (2, True, True)


def test_what_was_written_out_can_be_fed_as_it_is(file: Path, headwater: Headwater) -> None:
    quarantine = Quarantine(RunDirectory(file.parent / ".headwater").quarantine("orders"))
    commit(quarantine, 1, [row(4, None, "unreadable_file"), row(5, b"\x00\xfe")])
    mended = file.parent / "mended.jsonl"
    headwater("quarantine", "export", file, "orders", "--output", mended)
    rows = [json.loads(line) for line in mended.read_text().splitlines()]
    assert [each["text"] for each in rows] == ["nonsense", None, "a" * 300, None, None]
    rows[4]["value"] = base64.b64encode(b"\x00\xff").decode()
    mended.write_text("".join(json.dumps(each) + "\n" for each in rows))
    told = headwater("quarantine", "replay", file, "orders", "--file", mended, "--reason", "malformed")
    assert (told.code, told.out.splitlines()[0]) == (
        0,
        "Queued 3 rows of orders for replay; 1 still pending.",
    )
    unwanted = (rows[1]["id"], rows[3]["id"])
    assert told.err.splitlines() == [
        f"Row {each} is not among the selected rows. It was not replayed." for each in sorted(unwanted)
    ]
    assert Counter((each.offset, each.value) for each in quarantine.replayed()) == Counter(
        [(1, b"nonsense"), (3, b"a" * 300), (5, b"\x00\xff")]
    )
    mended.write_text(json.dumps(rows[1]) + "\n" + json.dumps(rows[3]))
    told = headwater("quarantine", "replay", file, "orders", "--file", mended)
    assert (told.code, told.out, told.err) == (
        0,
        "Queued no rows of orders for replay; 1 still pending.\n",
        "Skipped 2 rows that were not changed: `text` is null and `value` is the same.\n",
    )
    assert headwater("quarantine", "list", file).out.splitlines() == [
        "orders: 5 quarantined, 1 pending",
        "  1 too_large",
        "  1 unreadable_file (not replayable; replace the file, and the next batch reads it)",
    ]


@pytest.mark.parametrize(
    "line",
    [
        {"id": "a"},
        {"id": 1, "text": "x"},
        {"id": "a", "text": 1},
        {"id": "a", "text": None, "value": "é"},
        {"id": "a", "text": "\ud800"},
        ["id", "text"],
    ],
)
def test_a_line_that_can_t_be_a_mended_row_is_named(file: Path, headwater: Headwater, line: object) -> None:
    mended = file.parent / "mended.jsonl"
    mended.write_text("\n" + json.dumps(line))
    told = headwater("quarantine", "replay", file, "orders", "--file", mended)
    assert (told.code, "HW-REPLAY-FILE-INVALID" in told.err, "line 2 is not" in told.err) == (2, True, True)


def test_rows_can_t_be_written_into_a_folder_that_is_not_there(file: Path, headwater: Headwater) -> None:
    to = file.parent / "missing" / "x.jsonl"
    told = headwater("quarantine", "export", file, "orders", "--output", to)
    assert (told.code, told.out, "HW-EXPORT-FILE-UNWRITABLE" in told.err, str(to) in told.err) == (
        2, "", True, True
    )  # fmt: skip


def test_a_row_can_do_nothing_to_the_terminal(file: Path, headwater: Headwater) -> None:
    quarantine = Quarantine(RunDirectory(file.parent / ".headwater").quarantine("orders"))
    bad = row(9, "\x1b[2J\a\u202eé\r\n".encode(), "type_mismatch", detail="\x1b]0;x\a", topic="t\x9b")
    commit(quarantine, 1, [bad])
    assert headwater("quarantine", "show", file, "orders", "--id", bad.id).out.splitlines() == [
        f"{bad.id}  t\\x9b partition 0 offset 9  2026-01-02 03:04:05 UTC",
        "  type_mismatch: \\x1b]0;x\\x07",
        "  \\x1b[2J\\x07\\u202eé\\r\\n",
    ]


def test_rows_that_a_query_has_yet_to_read_are_left(file: Path, headwater: Headwater) -> None:
    folder, now = file.parent / ".headwater", {"orders": {"t": {"0": 2}}}
    stopped(folder, "shown", now)
    told = headwater("quarantine", "replay", file, "orders", "--reason", "malformed")
    first, _, last = told.out.splitlines()
    assert (told.code, told.err, first) == (0, "", "Queued 1 row of orders for replay; 2 still pending.")
    assert (
        last
        == f"1 row stays pending until `shown` reaches the same offset: headwater run {file} --until-idle"
    )
    stopped(folder, "shown", now, verdicts={"orders": "before"})
    stopped(folder, "quarantine.orders", now)
    told = headwater("quarantine", "replay", file, "orders")
    assert (told.code, told.out.splitlines()) == (
        0,
        [
            "Queued no rows of orders for replay; 2 still pending.",
            "2 rows stay pending until `quarantine.orders`, `shown` reach the same offset: "
            f"headwater run {file} --until-idle",
            "Restore the definition from before the fix for this run. Otherwise, rows of orders are duplicated.",
        ],
    )
    (folder / "queries/shown.json").unlink()
    told = headwater("quarantine", "replay", file, "orders")
    assert ("HW-REPLAY-OFFSET-UNKNOWN" in told.err, told.code != 0) == (True, True)


def test_what_is_not_there_is_said(file: Path, headwater: Headwater) -> None:
    code, _, told = astuple(headwater("quarantine", "show", file, "clicks"))
    assert (code, "HW-QUARANTINE-NOT-FOUND" in told) == (2, True)
    file.write_text(PIPELINE.replace("TRIGGER", "continuous 1 second"))
    code, _, told = astuple(headwater("quarantine", "replay", file, "orders"))
    assert "HW-REPLAY-TRIGGER-UNSUPPORTED" in told
    assert code != 0
