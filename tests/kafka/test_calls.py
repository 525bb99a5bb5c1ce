"""The calls into the JVM of a batch of messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

import headwater as hw
from headwater.dev import Broker
from tests.calls import calls_above, calls_per_batch
from tests.messages import fresh_topic, produce

SECONDS = 60.0


def test_a_batch_of_messages_costs_one_call_into_the_jvm(
    context: SparkContext, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The cluster is asked about the topic by time, not by batch.
    monkeypatch.setattr("headwater.connectors.kafka.source.LOOK_SECONDS", 3600.0)

    def run(batches: int) -> None:
        topic = fresh_topic(broker.servers)
        produce(broker.servers, topic, [{"id": number} for number in range(batches)])
        source = hw.kafka(
            bootstrap_servers=broker.servers,
            topic=topic,
            start="earliest",
            format="json",
            schema="id int",
            max_rows_per_batch=1,
        )
        pipeline = hw.Pipeline("counting", run_dir=tmp_path / str(batches))
        pipeline.source("orders", source)
        pipeline.sink("out", hw.noop(), reads="orders", trigger="available now")
        running = pipeline.start()
        assert running.wait(SECONDS)
        running.raise_for_failure()
        assert running.queries["out"].rows_in == batches

    found = calls_per_batch(run, monkeypatch)
    assert found["json"] >= 1
    assert calls_above(found, {"json": 1}) == {}
