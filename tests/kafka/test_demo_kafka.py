"""`make demo-kafka`, small: its own comparison with the generator's figures says that all is right."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark import SparkContext

from demo.kafka.run import HERE, TOPICS, play_on
from headwater.dev import Broker
from headwater.dev.topics import delete_topic


def test_the_figures_are_those_of_the_generator(
    tmp_path: Path,
    broker: Broker,
    context: SparkContext,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KAFKA_SERVERS", broker.servers)
    demo = tmp_path / "demo"
    shutil.copytree(HERE, demo, ignore=shutil.ignore_patterns("work", "__pycache__"))
    try:
        exit_code = play_on(broker.servers, demo, 600)
    finally:
        for topic in TOPICS:
            delete_topic(broker.servers, topic)
    told = capsys.readouterr().out
    assert exit_code == 0, told
    assert told.endswith("\nAll as the generator says.\n")
