"""Recorded outcomes of many messages that are hard to validate: which are bad, why, and what is read of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.connectors.contract import DETAIL, OWN, REASON, ROW
from headwater.connectors.decoding import decode
from headwater.connectors.decoding.decode import decoded
from headwater.engine.rows import apply_bad_rows, quarantined_bad_rows
from headwater.spark.evaluate_once import evaluated_once
from headwater.spec import SourceSpec
from headwater.values import BadRows
from tests.spark.test_decoding import context, messages, options

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "golden" / "decoded_messages.json").read_text(encoding="utf-8")
)
DROPPED = "dropped"
"""The recorded reason of a message that is not read at all."""


def _bytes(text: str | None) -> bytes | None:
    """Bytes are recorded as Latin-1."""
    return None if text is None else text.encode("latin-1")


@pytest.mark.parametrize("has_jar", [True, False], ids=["with the jar", "without the jar"])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_every_message_is_judged_as_recorded(
    case: dict[str, Any], has_jar: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_jar:
        monkeypatch.setattr(decode, "jar_functions", lambda spark: None)
    pairs = [(_bytes(key), _bytes(value)) for key, value, *_ in case["messages"]]
    expected = {
        offset: (reason, detail, columns)
        for offset, (_, _, reason, detail, columns) in enumerate(case["messages"])
        if reason != DROPPED
    }
    said = options(**case["options"])
    rows = decoded(messages(spark, pairs), said, context(tmp_path), case["max_row_bytes"])
    frame = rows.frame
    names = ", ".join(f"`{name}`" for name in frame.columns if name not in OWN)
    found = frame.selectExpr(f"{ROW}.offset", REASON, DETAIL, f"to_json(struct({names}))").collect()
    assert {row[0]: tuple(row)[1:] for row in found} == expected

    # A query uses only parts of this; each part agrees with the whole.
    source = SourceSpec.model_construct(name="messages", bad_rows=BadRows.DROP)
    bad = {offset: outcome[:2] for offset, outcome in expected.items() if outcome[0] is not None}
    kept = evaluated_once(quarantined_bad_rows(rows, source))
    assert {row.row.offset: (row.reason, row.detail) for row in kept.collect()} == bad
    good = apply_bad_rows(rows, source, "counted").selectExpr(f"to_json(struct({names}))")
    assert Counter(row[0] for row in good.collect()) == Counter(
        columns for reason, _, columns in expected.values() if reason is None
    )
