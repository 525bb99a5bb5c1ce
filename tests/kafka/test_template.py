"""The project of `headwater init --template kafka`, run on a broker as its page says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark import SparkContext

from headwater.api.dev import KafkaOptions, kafka
from headwater.api.init import init
from headwater.api.quarantine import show
from headwater.dev import Broker
from headwater.dev.happenings import Produced, TopicReady
from headwater.dev.producing import Feed
from headwater.dev.topics import delete_topic
from headwater.events import Event
from tests.pipelines import run_until_idle


@pytest.mark.soak
def test_its_good_clicks_are_written_and_its_broken_ones_set_aside(
    tmp_path: Path, broker: Broker, context: SparkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "ads"
    init(project, "kafka")
    monkeypatch.setenv("KAFKA_SERVERS", broker.servers)
    events: list[Event] = []
    feed = Feed(str(project / "data" / "clicks.jsonl"), "clicks", key="campaign")
    asked = KafkaOptions(tmp_path, 0, topics={"clicks": 2}, feed=feed, servers=broker.servers)
    try:
        assert kafka(asked, events.append) == 0
        made, sent = events
        assert isinstance(made, TopicReady)
        assert (made.partitions, made.made) == (2, True)
        assert isinstance(sent, Produced)
        assert sent.messages == 60
        result = run_until_idle(project / "pipeline.yml")
    finally:
        delete_topic(broker.servers, "clicks")
    assert result.exit_code == 0
    assert result.queries["clicks"]["sources"] == {"clicks": {"read": 60, "good": 57, "bad": 3}}
    files = (project / "out" / "clicks").glob("*.json")
    found = [json.loads(line)["click_id"] for file in files for line in file.read_text("utf-8").splitlines()]
    assert sorted(found) == [f"c{number:02}" for number in range(1, 58)]
    aside = show(project / "pipeline.yml", "clicks")
    assert sorted((row.reason, (row.value or b"")[13:15]) for row in aside) == [
        ("malformed", b"b2"),
        ("wrong type", b"b1"),
        ("wrong type", b"b3"),
    ]
