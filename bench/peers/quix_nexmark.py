"""Quix Streams' jobs of the Nexmark benchmark: `python quix_nexmark.py SETTINGS`, a JSON object."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from quixstreams import Application
from quixstreams.dataframe import StreamingDataFrame

from bench.peers.python_peer import BID, STATELESS, Row, Work, moment, run_processes

GAP, DELAY = timedelta(seconds=10), timedelta(seconds=4)
IDLE_SECONDS = 5.0
"""A process ends when it has seen no message for so long; this time does not count."""


def event_time(event: dict[str, Any], headers: Any, timestamp: float, kind: Any) -> int:
    """The time of an event in milliseconds."""
    (fields,) = (each for each in event.values() if isinstance(each, dict))
    return round(moment(fields["dateTime"]).timestamp() * 1000)


def worker(settings: dict[str, str], number: int) -> Work:
    """One of several processes that share the partitions."""
    work, query = Work(), settings["query"]

    def processed(topic: str, partition: int, offset: int) -> None:
        work.begin()
        work.events += topic == settings["topic"]
        work.end()

    def keep(row: Row) -> None:
        work.rows += 1
        if settings.get("rows"):
            work.kept.append(row)

    application = Application(
        broker_address=settings["servers"],
        consumer_group=settings["group"],
        auto_offset_reset="earliest",
        state_dir=f"{settings['folder']}/state-{number}",
        on_message_processed=processed,
        loglevel="ERROR",
    )
    stateless = query in STATELESS
    topic = application.topic(
        settings["topic"],
        key_deserializer="str",
        value_deserializer="json",
        timestamp_extractor=None if stateless else event_time,
    )
    events = application.dataframe(topic)
    bids = events[events["event_type"] == BID]
    rows = bids.apply(lambda event: STATELESS[query](event["bid"])) if stateless else sessions(bids, work)
    rows = rows.filter(lambda row: row is not None)
    rows.update(keep)
    application.run(timeout=IDLE_SECONDS, collect=False)
    return work


def sessions(bids: StreamingDataFrame, work: Work) -> StreamingDataFrame:
    """q11: the number of bids in each session of a bidder."""

    def late(*given: Any, **named: Any) -> bool:
        work.late += 1
        return False

    def row(window: dict[str, Any], bidder: str, timestamp: int, headers: Any) -> Row:
        # A window ends one millisecond after its last event.
        return [int(bidder), window["value"], _text(window["start"]), _text(window["end"] - 1 + 10_000)]

    # The bidder is the key of the messages already.
    found = bids.session_window(GAP, DELAY, on_late=late).count().final(closing_strategy="partition")
    return found.apply(row, metadata=True)


def _text(milliseconds: int) -> str:
    time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return time.replace(tzinfo=None).isoformat(timespec="milliseconds")


if __name__ == "__main__":
    run_processes(worker, json.loads(sys.argv[1]))
