"""`headwater quarantine`: what a user types, and what is said."""

from __future__ import annotations

import json
from dataclasses import astuple
from pathlib import Path

import pytest

from headwater.quarantine import Quarantine
from tests.checkpoints import stopped
from tests.quarantines import commit, row
from tests.unit.cli.conftest import Headwater

PIPELINE = """
name: orders
sources:
  orders:
    connector: kafka
    servers: localhost:9092
    topic: orders
    format: json
    schema: {id: int}
    bad_rows: quarantine
sinks:
  shown: {reads: orders, connector: console, trigger: TRIGGER}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline that has set three rows aside."""
    file = tmp_path / "orders.yml"
    file.write_text(PIPELINE.replace("TRIGGER", "once"))
    quarantine = Quarantine("orders", tmp_path / ".headwater/quarantine/orders")
    commit(
        quarantine, 0, [row(1, b"nonsense"), row(2, b"\xff", "too large"), row(3, b"a" * 300, detail="why")]
    )
    return file


def test_rows_are_listed_shown_and_fed(file: Path, headwater: Headwater) -> None:
    def say(*words: str | Path) -> tuple[int, str, str]:
        told = headwater("quarantine", *words)
        return told.code, told.out, told.err

    assert say("ls", file) == (0, "orders: 3 rows set aside, 3 wait\n  2 malformed\n  1 too large\n", "")
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
    assert say("show", file, "orders", "--limit", "1")[1].endswith("writes all)\n")
    code, told, _ = say("replay", file, "orders", "--id", first, "--dry-run")
    assert (code, told) == (0, "1 rows of orders would be fed again, 2 more wait.\n")
    assert json.loads(say("replay", file, "orders", "--id", first, "--json")[1]) == {
        "name": "orders", "rows": 1, "left": 2, "unknown": [], "dry": False, "unread": 0, "behind": [],
        "redefined": False,
    }  # fmt: skip
    assert json.loads(say("ls", file, "--json")[1])[0]["reasons"] == {"too large": 1, "malformed": 1}
    assert [each["id"] for each in json.loads(say("show", file, "orders", "--json")[1])] == [
        row(2, b"\xff").id,
        second,
    ]
    assert len(json.loads(say("show", file, "orders", "--json", "--all")[1])) == 3


def test_mended_rows(file: Path, headwater: Headwater) -> None:
    mended = file.parent / "mended.jsonl"
    code, told, _ = astuple(
        headwater("quarantine", "export", file, "orders", "--reason", "malformed", "--to", mended)
    )
    assert (code, told) == (0, f"2 rows written to {mended}.\n")
    rows = [json.loads(line) for line in mended.read_text().splitlines()]
    rows[0]["text"] = '{"id": 1}'
    mended.write_text(json.dumps(rows[0]) + "\n" + json.dumps({"id": "nobody", "text": "x"}) + "\n")
    code, _, beside = astuple(headwater("quarantine", "replay", file, "orders", "--from", mended))
    assert (code, beside) == (1, "No row nobody waits; it was not fed.\n")
    (fed,) = Quarantine("orders", file.parent / ".headwater/quarantine/orders").fed()
    assert (fed.value, fed.offset) == (b'{"id": 1}', 1)
    mended.write_text("no json\n")
    code, _, beside = astuple(headwater("quarantine", "replay", file, "orders", "--from", mended))
    assert (code, "HW-MENDED-UNREADABLE" in beside) == (2, True)


def test_rows_that_a_query_has_yet_to_read_are_left(file: Path, headwater: Headwater) -> None:
    folder, now = file.parent / ".headwater", {"orders": {"t": {"0": 2}}}
    stopped(folder, "shown", now)
    told = headwater("quarantine", "replay", file, "orders", "--reason", "malformed")
    first, _, last = told.out.splitlines()
    assert (told.code, told.err, first) == (0, "", "1 rows of orders are fed again, 2 more wait.")
    assert last == f"1 rows are left until `shown` has read as far: headwater run {file} --until-idle"
    stopped(folder, "shown", now, verdicts={"orders": "before"})
    stopped(folder, "quarantine.orders", now)
    told = headwater("quarantine", "replay", file, "orders")
    assert (told.code, told.out.splitlines()) == (
        0,
        [
            "0 rows of orders are fed again, 2 more wait.",
            "2 rows are left until `quarantine.orders`, `shown` have read as far: "
            f"headwater run {file} --until-idle",
            "Run it with the definition from before the fix, or rows of orders come twice.",
        ],
    )
    (folder / "facts/shown.json").unlink()
    told = headwater("quarantine", "replay", file, "orders")
    assert ("HW-REPLAY-PLACE-UNKNOWN" in told.err, told.code != 0) == (True, True)


def test_what_is_not_there_is_said(file: Path, headwater: Headwater) -> None:
    code, _, told = astuple(headwater("quarantine", "show", file, "clicks"))
    assert (code, "HW-NO-QUARANTINE" in told) == (2, True)
    file.write_text(PIPELINE.replace("TRIGGER", "continuous 1 second"))
    code, _, told = astuple(headwater("quarantine", "replay", file, "orders"))
    assert "HW-REPLAY-NEEDS-BATCHES" in told
    assert code != 0
