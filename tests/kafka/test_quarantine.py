"""Rows that can't be read, from a real broker into a quarantine and back."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.api.quarantine import list_quarantines, replay, show
from headwater.dev import Broker
from headwater.events import Event, Notice, QueryProgress
from tests.messages import fresh_topic, produce
from tests.pipelines import run_until_idle, write

PIPELINE = """
name: orders
sources:
  orders:
    connector: kafka
    bootstrap_servers: {servers}
    topic: {topic}
    start: earliest
    format: json
    schema: {{id: int, cost: {cost}}}
    bad_rows: quarantine
tables:
  priced: SELECT id, CAST(cost AS double) AS cost FROM orders
  large: SELECT id FROM orders WHERE cost >= 10
sinks:
  all: {{reads: priced, connector: files, path: out/all, format: json}}
  large: {{reads: large, connector: files, path: out/large, format: json}}
"""


def rows_in(spark: SparkSession, folder: Path, schema: str) -> Counter[str]:
    """The rows of a sink as others read them, as JSON."""
    read = spark.read.schema(schema).json(str(folder)).toJSON()
    return Counter(json.dumps(json.loads(row), sort_keys=True) for row in read.collect())


def as_int(rows: list[dict[str, float]]) -> list[dict[str, int]]:
    return [{"id": int(row["id"]), "cost": int(row["cost"])} for row in rows]


@pytest.mark.feature("K1.2")
@pytest.mark.feature("K1.3")
def test_bad_rows_are_set_aside_and_flow_again_after_a_fix(
    tmp_path: Path, broker: Broker, spark: SparkSession
) -> None:
    topic = fresh_topic(broker.servers, 2)
    good = [{"id": n, "cost": float(n)} for n in range(20)]
    bad: list[Any] = ['{"id": 20, "cost": 20.5}', "nonsense", b"\xff\x00"]
    produce(broker.servers, topic, [*as_int(good[:10]), *bad[:1]], partition=0)
    produce(broker.servers, topic, [*as_int(good[10:]), *bad[1:]], partition=1)
    file = write(tmp_path, PIPELINE.format(servers=broker.servers, topic=topic, cost="int"))
    events: list[Event] = []
    result = run_until_idle(file, events)
    assert result.exit_code == 0
    for query in ("all", "large"):
        assert result.queries[query].sources == {"orders": {"read": 23, "good": 20, "bad": 3}}
    assert result.queries["quarantine.orders"].rows_out == 3
    expected = Counter(json.dumps(row, sort_keys=True) for row in good)
    assert rows_in(spark, tmp_path / "out/all", "id int, cost double") == expected
    quarantined = show(file, "orders")
    assert Counter((row.reason, row.partition, row.offset, row.value) for row in quarantined) == Counter(
        [
            ("type_mismatch", 0, 10, b'{"id": 20, "cost": 20.5}'),
            ("malformed", 1, 10, b"nonsense"),
            ("malformed", 1, 11, b"\xff\x00"),
        ]
    )
    assert [(each.name, each.rows, each.pending) for each in list_quarantines(file)] == [("orders", 3, 3)]

    # The fix: costs may have parts. Two of the rows stay bad, and come back.
    write(tmp_path, PIPELINE.format(servers=broker.servers, topic=topic, cost="double"))
    assert replay(file, "orders").rows == 3
    assert replay(file, "orders").rows == 0
    produce(broker.servers, topic, [{"id": 30, "cost": 1}], partition=0)
    events.clear()
    result = run_until_idle(file, events)
    assert result.queries["all"].sources == {"orders": {"read": 4, "good": 2, "bad": 2}}
    said = [event.text for event in events if isinstance(event, Notice)]
    assert sum("replaying rows" in text for text in said) == 3, said
    again = [{"id": 20, "cost": 20.5}, {"id": 30, "cost": 1.0}]
    expected = Counter(json.dumps(row, sort_keys=True) for row in [*good, *again])
    assert rows_in(spark, tmp_path / "out/all", "id int, cost double") == expected
    (held,) = list_quarantines(file)
    assert (held.rows, held.pending, held.reasons) == (5, 2, {"malformed": 2})
    progress = [event for event in events if isinstance(event, QueryProgress) and event.query == "all"]
    assert sum(event.source_counts["orders"].bad for event in progress) == 2
    assert sum(event.rows_out or 0 for event in progress) == 2
    large = Counter(json.dumps({"id": row["id"]}) for row in [*good, *again] if row["cost"] >= 10)
    assert rows_in(spark, tmp_path / "out/large", "id int") == large
