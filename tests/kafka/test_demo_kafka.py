"""`make demo-kafka`, small: its own comparison with the generator's figures says that all is right."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark import SparkContext

from demo.kafka.ads import day, totals
from demo.kafka.run import HERE, TOPICS, found_revenue, play_on
from headwater.dev import Broker
from headwater.dev.topics import delete_topic


def test_a_row_that_was_written_twice_counts_twice(tmp_path: Path) -> None:
    expected = day(200).revenue
    names = ("minute", "campaign", "clicks", "revenue")
    rows = [dict(zip(names, row, strict=True)) for row in expected]
    text = "".join(json.dumps(row, default=float) + "\n" for row in rows)
    (tmp_path / "1.json").write_text(text)
    assert (found_revenue(tmp_path), len(expected) > 10) == (expected, True)
    (tmp_path / "2.json").write_text(text)
    assert found_revenue(tmp_path) == expected + expected
    assert [clicks for _, clicks, _ in totals(expected + expected)] == [
        2 * clicks for _, clicks, _ in totals(expected)
    ]


def test_the_figures_are_those_of_the_generator(
    tmp_path: Path,
    broker: Broker,
    context: SparkContext,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.servers)
    demo = tmp_path / "demo"
    shutil.copytree(HERE, demo, ignore=shutil.ignore_patterns("work", "__pycache__"))
    try:
        exit_code = play_on(broker.servers, demo, 600)
    finally:
        for topic in TOPICS:
            delete_topic(broker.servers, topic)
    told = capsys.readouterr().out
    assert exit_code == 0, told
    assert told.endswith("\nAll results match the generated data.\n")
