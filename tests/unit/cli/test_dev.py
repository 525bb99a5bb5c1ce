"""`dev kafka` on the command line: what it reads, refuses and shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.cli.dev_views import feed_of, next_command, refuse_contradictions, text_of, topics_of
from headwater.dev.topics import BrokerStarted, BrokerStopped, Feed, Produced, TopicReady
from headwater.errors import UsageError
from headwater.events import Notice

NOTHING: dict[str, Any] = {
    "produce": None,
    "alone": {"--topic": None, "--rate": None, "--key": None, "--repeat": False},
    "servers": None,
    "started": {"--port": None, "--data-dir": None},
    "asked": False,
}
TOPIC = {**NOTHING["alone"], "--topic": "t"}


def test_topics_have_one_partition_unless_said() -> None:
    assert topics_of("impressions:2, clicks") == {"impressions": 2, "clicks": 1}
    assert topics_of(None) == {}


@pytest.mark.parametrize("text", ["", "a:", "a:0", "a:x", "a b", "a,,b", ":3", "a:1001", "a:²"])
def test_other_topics_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        topics_of(text)
    assert caught.value.problems[0].code == "HW-TOPICS-INVALID"


@pytest.mark.parametrize(
    "changes",
    [
        {"alone": {**NOTHING["alone"], "--rate": "1/s"}},
        {"alone": {**NOTHING["alone"], "--repeat": True}},
        {"produce": "f"},
        {"produce": "-", "alone": {**TOPIC, "--repeat": True}},
        {"servers": "h:1", "asked": True, "started": {"--port": 0, "--data-dir": None}},
        {"servers": "h:1", "asked": True, "started": {"--port": None, "--data-dir": Path("x")}},
        {"servers": "h:1"},
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        refuse_contradictions(**{**NOTHING, **changes})
    assert caught.value.problems[0].code == "HW-DEV-OPTIONS-CONFLICT"


def test_what_goes_together_passes() -> None:
    refuse_contradictions(**NOTHING)
    refuse_contradictions(**{**NOTHING, "produce": "f", "alone": TOPIC, "servers": "h:1", "asked": True})


def test_a_feed_is_read(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    file.touch()
    found = feed_of(str(file), "t", "120/m", "ad", repeat=True)
    assert found == Feed(str(file), "t", per_second=2.0, key="ad", repeat=True)
    assert feed_of("-", "t", None, None, repeat=False) == Feed("-", "t")
    assert feed_of(None, None, None, None, repeat=False) is None


@pytest.mark.parametrize(
    ("file", "topic", "rate", "code"),
    [
        ("gone.jsonl", "t", None, "HW-PRODUCE-FILE-UNREADABLE"),
        (".", "t", None, "HW-PRODUCE-FILE-UNREADABLE"),
        ("-", "no topic", None, "HW-DEV-OPTIONS-CONFLICT"),
        ("-", "t", "fast", "HW-PRODUCE-RATE-INVALID"),
        ("-", "t", "0/s", "HW-PRODUCE-RATE-INVALID"),
        ("-", "t", "5/w", "HW-PRODUCE-RATE-INVALID"),
    ],
)
def test_a_feed_that_can_not_be_is_refused(file: str, topic: str, rate: str | None, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        feed_of(file, topic, rate, None, repeat=False)
    assert caught.value.problems[0].code == code


def test_each_event_has_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    started = BrokerStarted(bootstrap_servers="127.0.0.1:9092", data_dir="f", log="f/broker.log", pid=1)
    assert text_of(started).splitlines()[0] == (
        "Kafka is running at 127.0.0.1:9092. Data and broker.log are in f."
    )
    assert text_of(TopicReady(topic="a", partitions=1, made=True)) == "Created topic a with 1 partition."
    assert text_of(TopicReady(topic="a", partitions=2, made=False)) == "Topic a exists, with 2 partitions."
    assert text_of(Produced(topic="a", messages=3)) == "Sent 3 messages to a."
    assert text_of(BrokerStopped(data_dir="f")) == "Stopped. The data is in f."
    assert text_of(Notice(code="HW-NOTICE", message="hello")) == "hello"


def test_the_next_command_is_the_pipeline_that_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert next_command("h:1").startswith("headwater dev kafka --bootstrap-server h:1 --produce ")
    (tmp_path / "pipeline.yml").touch()
    assert next_command("h:1") == "KAFKA_BOOTSTRAP_SERVERS=h:1 headwater run pipeline.yml"
    assert next_command("127.0.0.1:9092") == "headwater run pipeline.yml"
