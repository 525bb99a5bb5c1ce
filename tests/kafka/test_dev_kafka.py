"""`headwater dev kafka` as a user types it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from tests.messages import consume
from tests.processes import Program, headwater

LINES = b'{"ad": "a1", "n": 1}\n\nnonsense\n{"ad": 7}\n'
SENT = [(b"a1", b'{"ad": "a1", "n": 1}'), (None, b"nonsense"), (b"7", b'{"ad": 7}')]


def told(running: Program, kind: str) -> list[dict[str, Any]]:
    """The events of a kind so far, without what differs from run to run."""
    mine = [event for event in running.events if event.get("event") == kind]
    return [{key: event[key] for key in event if key not in ("event", "version", "at")} for event in mine]


def values(servers: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return [(each.key, each.value) for each in consume(servers, topic)]


def test_it_starts_fills_and_stops_and_keeps_the_data(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_bytes(LINES)
    start = ("dev", "kafka", "--port", "0", "--data-dir", "the data")
    feed = ("--produce", "m.jsonl", "--topic", "ads", "--key", "ad")
    with headwater(tmp_path, *start, "--topics", "ads:1,more:3", *feed, "--json") as first:
        first.until(lambda: told(first, "produced"))
        assert told(first, "topic_ready") == [
            {"topic": "ads", "partitions": 1, "made": True},
            {"topic": "more", "partitions": 3, "made": True},
        ]
        assert told(first, "produced") == [{"topic": "ads", "messages": 3}]
        (started,) = told(first, "broker_started")
        assert values(started["bootstrap_servers"], "ads") == SENT

        with headwater(
            tmp_path, "dev", "kafka", "--bootstrap-server", started["bootstrap_servers"], *feed
        ) as second:
            assert second.wait() == 0
        assert second.stdout == "Topic ads exists, with 1 partition.\nSent 3 messages to ads.\n"

        port = started["bootstrap_servers"].rpartition(":")[2]
        with headwater(tmp_path, "dev", "kafka", "--port", port, "--data-dir", "other") as third:
            assert third.wait() == 5
        assert "HW-PORT-IN-USE" in third.stderr
        # Nothing is left of it afterwards, though it could not stop the broker itself.
        first.signal(signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL

    with headwater(tmp_path, *start, "--topics", "more:2") as again:
        again.until(lambda: "Topic more" in again.stdout)
        assert "Topic more exists, with 3 partitions." in again.stdout
        servers = again.stdout.partition("Kafka is running at ")[2].partition(". ")[0]
        assert values(servers, "ads") == [*SENT, *SENT]
        again.signal(signal.SIGINT, group=True)
        assert again.wait() == 0
    assert again.stdout.endswith("Stopped. The data is in the data.\n")
    assert again.stderr == ""


def test_a_signal_while_it_starts_stops_it_too(tmp_path: Path) -> None:
    with headwater(tmp_path, "dev", "kafka", "--port", "0", "--data-dir", "b") as starting:
        starting.until((tmp_path / "b" / "server.properties").exists)
        starting.signal(signal.SIGTERM)
        assert starting.wait() == 0
    assert (starting.stdout, starting.stderr) == ("Stopped. The data is in b.\n", "")
