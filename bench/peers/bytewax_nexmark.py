"""Bytewax's jobs of the Nexmark benchmark: `python bytewax_nexmark.py SETTINGS`, a JSON object."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
import orjson
from bytewax._bytewax import cli_main
from bytewax.connectors.kafka import KafkaSource, KafkaSourceMessage
from bytewax.dataflow import Dataflow, Stream
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from bench.peers.python_peer import BID, STATELESS, Row, Work, moment, run_processes

GAP, DELAY = timedelta(seconds=10), timedelta(seconds=4)
STILL = moment("2015-07-15T00:00:00")
"""The system time that the clock of events sees: it stands still, so that only events close sessions."""


class Rows(DynamicSink[Row]):  # type: ignore[misc]
    """Counts the rows, and keeps them if asked to."""

    def __init__(self, work: Work, *, keep: bool) -> None:
        self.work, self.keep = work, keep

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition[Row]:
        return _Partition(self)


class _Partition(StatelessSinkPartition[Row]):  # type: ignore[misc]
    """The rows of one worker."""

    def __init__(self, sink: Rows) -> None:
        self._sink = sink

    def write_batch(self, items: list[Row]) -> None:
        self._sink.work.rows += len(items)
        if self._sink.keep:
            self._sink.work.kept += items


def dataflow(settings: dict[str, str], work: Work) -> Dataflow:
    """The query over all events of the topic."""

    def bid_of(message: KafkaSourceMessage[Any, bytes]) -> dict[str, Any] | None:
        work.begin()
        work.events += 1
        event: dict[str, Any] = orjson.loads(message.value)
        return event["bid"] if event["event_type"] == BID else None

    flow = Dataflow("nexmark")
    messages = op.input("events", flow, KafkaSource([settings["servers"]], [settings["topic"]], tail=False))
    bids = op.filter_map("bids", messages, bid_of)
    query = settings["query"]
    rows = op.filter_map(query, bids, STATELESS[query]) if query in STATELESS else sessions(bids, work)
    op.output("rows", rows, Rows(work, keep=bool(settings.get("rows"))))
    return flow


def sessions(bids: Stream[dict[str, Any]], work: Work) -> Stream[Row]:
    """q11: the number of bids in each session of a bidder."""

    def time_of(bid: dict[str, Any]) -> datetime:
        return moment(bid["dateTime"])

    def row(item: tuple[str, tuple[int, tuple[int, datetime, datetime]]]) -> Row:
        bidder, (_, (count, first, last)) = item
        return [int(bidder), count, _text(first), _text(last + GAP)]

    def add(total: _Session | None, bid: dict[str, Any]) -> _Session:
        time = time_of(bid)
        return merge(total, (1, time, time))

    def merge(one: _Session | None, other: _Session) -> _Session:
        if one is None:
            return other
        return one[0] + other[0], min(one[1], other[1]), max(one[2], other[2])

    def count_late(item: object) -> None:
        work.late += 1

    clock = win.EventClock(
        ts_getter=time_of,
        wait_for_system_duration=DELAY,
        now_getter=lambda: STILL,
        to_system_utc=lambda time: None,
    )
    keyed = op.key_on("bidder", bids, lambda bid: str(bid["bidder"]))
    found = win.fold_window(
        "sessions", keyed, clock, win.SessionWindower(GAP), lambda: None, add, merge, ordered=False
    )
    op.inspect("late", found.late, lambda step, item: count_late(item))
    return op.map("row", found.down, row)


_Session = tuple[int, datetime, datetime]


def _text(time: datetime) -> str:
    return time.replace(tzinfo=None).isoformat(timespec="milliseconds")


def worker(settings: dict[str, str], number: int) -> Work:
    """One of several processes that form a cluster."""
    work, addresses = Work(), settings["addresses"].split(";")
    cli_main(dataflow(settings, work), process_id=number, addresses=addresses)
    work.end()
    return work


if __name__ == "__main__":
    run_processes(worker, json.loads(sys.argv[1]))
