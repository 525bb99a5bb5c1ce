"""A quarantine as its query leaves it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]

from headwater.quarantine import Quarantine, QuarantinedRow
from headwater.quarantine.rows import replay_schema

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def row(offset: int, value: bytes | None = b"x", reason: str = "malformed", **more: Any) -> QuarantinedRow:
    fields: dict[str, Any] = {
        "source": "orders", "reason": reason, "detail": None, "quarantined_at": AT, "file": None,
        "topic": "t",
        "partition": 0, "offset": offset, "timestamp": AT, "timestamp_type": 0, "headers": (("h", b"1"),),
        "key": None, "value": value,
    }  # fmt: skip
    return QuarantinedRow(**{**fields, **more})


def commit(quarantine: Quarantine, batch: int, rows: list[QuarantinedRow]) -> None:
    """What a batch of the quarantine's query leaves."""
    folder = quarantine.directory.path / "rows"
    (folder / "_spark_metadata").mkdir(parents=True, exist_ok=True)
    file = folder / f"part-{batch}.parquet"
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist([each.record() for each in rows], replay_schema()).drop(["id"]), file
    )
    entry = {
        "path": file.as_uri(), "size": file.stat().st_size, "isDir": False, "modificationTime": 1,
        "blockReplication": 1, "blockSize": 1, "action": "add",
    }  # fmt: skip
    (folder / "_spark_metadata" / str(batch)).write_text("v1\n" + json.dumps(entry))
