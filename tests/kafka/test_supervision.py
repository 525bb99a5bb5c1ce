"""Ten queries in one run, of which four fail: each in its own way, and the other six know nothing of it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headwater.dev import Broker
from tests.load import on_this_machine
from tests.messages import produce
from tests.pipelines import committed, feed, put, write
from tests.processes import COMMAND, Program, headwater, queries_of

HEALTHY = ("all", "odd", "even", "twice", "square", "negative")
PIPELINE = """
name: ten
restart: {{backoff: 200 ms, max_backoff: 1 second, attempts: 100}}
spark: {{spark.master: "local[2]", spark.driver.memory: 1g}}
sources:
  clicks:
    connector: kafka
    bootstrap_servers: {servers}
    topic: {topic}
    schema: {{id: int}}
    options: {{kafka.default.api.timeout.ms: 2000, kafka.request.timeout.ms: 1000}}
  rows: {{connector: files, path: rows, format: json, schema: {{id: int}}, max_files_per_batch: 1}}
  orders: {{connector: files, path: orders, format: json, schema: {{id: int}}, bad_rows: fail}}
  sizes: {{connector: files, path: sizes, format: json, schema: {{id: int, size: int}}}}
tables:
  odd: SELECT id FROM rows WHERE id % 2 = 1
  even: SELECT id FROM rows WHERE id % 2 = 0
  twice: SELECT id FROM rows UNION ALL SELECT id FROM rows
  square: SELECT id * id AS id FROM rows
  negative: SELECT -id AS id FROM rows
  large: SELECT id, length(repeat('x', size)) AS length FROM sizes
sinks:
  all: {{reads: rows, connector: files, path: out/all, format: json}}
  clicks: {{reads: clicks, connector: files, path: out/clicks, format: json}}
  odd: {{reads: odd, connector: files, path: out/odd, format: json}}
  orders: {{reads: orders, connector: files, path: out/orders, format: json}}
  even: {{reads: even, connector: files, path: out/even, format: json}}
  booked: {{reads: orders, connector: foreach_batch, function: "out.py:write"}}
  twice: {{reads: twice, connector: files, path: out/twice, format: json}}
  large: {{reads: large, connector: files, path: out/large, format: json}}
  square: {{reads: square, connector: files, path: out/square, format: json}}
  negative: {{reads: negative, connector: files, path: out/negative, format: json}}
"""
OUT = """\
def write(batch, batch_id):
    if batch_id == 1:
        raise ValueError("no such account")
"""
FAILED = {"orders": "HW-ROW-MALFORMED", "booked": "HW-QUERY-CODE-FAILED", "large": "HW-OUT-OF-MEMORY"}
LATEST_SECONDS = 2.0
"""How long after a failure its status may be out of date, if the run does not wait for cores."""


class Ten:
    """The run, what was fed to it, and which queries have failed so far."""

    def __init__(self, folder: Path, run: Program, broker: Broker, topic: str) -> None:
        self.folder, self.run, self.broker, self.topic = folder, run, broker, topic
        self.rows = self.clicks = 0

    def feed(self, clicks: bool = True) -> None:
        """Three more rows in a file, and three more messages."""
        feed(self.folder / "rows", str(self.rows), [{"id": self.rows + n} for n in range(3)])
        self.rows += 3
        if clicks:
            produce(self.broker.servers, self.topic, [{"id": self.clicks + n} for n in range(3)])
            self.clicks += 3

    def expected(self) -> dict[str, Counter[int]]:
        every = range(self.rows)
        return {
            "all": Counter(every),
            "odd": Counter(n for n in every if n % 2 == 1),
            "even": Counter(n for n in every if n % 2 == 0),
            "twice": Counter([*every, *every]),
            "square": Counter(n * n for n in every),
            "negative": Counter(-n for n in every),
        }

    def found(self) -> dict[str, Counter[int]]:
        return {name: committed(self.folder / "out" / name) for name in HEALTHY}

    def is_done(self) -> bool:
        """Whether the healthy queries have delivered as many rows as they have to."""
        totals = {name: rows.total() for name, rows in self.expected().items()}
        return all(rows.total() >= totals[name] for name, rows in self.found().items())

    def query(self, name: str) -> dict[str, Any]:
        return queries_of(self.folder).get(name, {})

    def until_failed(self, name: str, status: str, *codes: str) -> None:
        """Wait for a failure; it is in the status soon after Spark has noted it in its log."""
        self.run.until(lambda: self.query(name).get("status") == status)
        seen = datetime.now(UTC)
        problem = self.query(name)["problem"]
        assert problem["code"] in codes
        assert (seen - self.failed_at(name)).total_seconds() < on_this_machine(LATEST_SECONDS)

    def failed_at(self, name: str) -> datetime:
        """When Spark says that the query has failed for the last time."""
        log = (self.folder / ".headwater/logs/spark.log").read_text(encoding="utf-8")
        times = re.findall(rf"^(\S+) ERROR .*Query {name} \[.* terminated with error", log, re.MULTILINE)
        return datetime.fromisoformat(times[-1])

    def statuses(self) -> dict[str, str]:
        return {name: query["status"] for name, query in queries_of(self.folder).items()}


@pytest.mark.feature("F2", part="ten queries")
@pytest.mark.feature("F3")
def test_four_of_ten_fail(tmp_path: Path, mortal: Broker, topic: str) -> None:
    write(tmp_path, PIPELINE.format(servers=mortal.servers, topic=topic))
    write(tmp_path, OUT, "out.py")
    feed(tmp_path / "orders", "0", [{"id": 0}])
    feed(tmp_path / "sizes", "0", [{"id": 0, "size": 3}])
    with headwater(tmp_path, "run", "pipeline.yml", "--json") as run:
        ten = Ten(tmp_path, run, mortal, topic)
        ten.feed()
        run.until(lambda: set(ten.statuses().values()) == {"idle"})

        # The broker dies. The query of its topic fails, is restarted in vain, and waits.
        mortal.kill()
        ten.feed(clicks=False)
        ten.until_failed("clicks", "restarting", "HW-KAFKA-TIMEOUT", "HW-KAFKA-UNREACHABLE")
        run.until(lambda: ten.query("clicks")["restarts"] >= 1)

        # A row of 2 GB. Only its query runs out of memory.
        feed(tmp_path / "sizes", "1", [{"id": 1, "size": 2_000_000_000}])
        ten.until_failed("large", "failed", FAILED["large"])

        # A bug in user code, in the second batch.
        feed(tmp_path / "orders", "1", [{"id": 1}])
        ten.until_failed("booked", "failed", FAILED["booked"])
        put(tmp_path / "orders/2.json", '{"id": 2}\n{"id": "many"}\n')
        ten.until_failed("orders", "failed", FAILED["orders"])

        # The broker is there again, and with it the query.
        mortal.start()
        ten.feed()
        run.until(lambda: committed(tmp_path / "out/clicks").total() >= ten.clicks)
        run.until(ten.is_done)
        right = {**dict.fromkeys((*HEALTHY, "clicks"), "idle"), **dict.fromkeys(FAILED, "failed")}
        run.until(lambda: ten.statuses() == right)
        shown = subprocess.run(
            [COMMAND, "status", "pipeline.yml", "--json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        told = {each["query"]: each for each in json.loads(shown.stdout)["queries"]}
        assert {name: query["status"] for name, query in told.items()} == right
        codes = {name: query["problem"] and query["problem"]["code"] for name, query in told.items()}
        assert codes.pop("clicks") in ("HW-KAFKA-TIMEOUT", "HW-KAFKA-UNREACHABLE")
        assert codes == {**dict.fromkeys(HEALTHY), **FAILED}
        restarts = {name: query["restarts"] for name, query in told.items()}
        assert restarts.pop("clicks") >= 1
        assert set(restarts.values()) == {0}
        run.signal(signal.SIGTERM)
        assert run.wait() == 1, run.told

    assert ten.found() == ten.expected()
    assert committed(tmp_path / "out/clicks") == Counter(range(ten.clicks))
    assert committed(tmp_path / "out/orders") == Counter([0, 1])
    assert committed(tmp_path / "out/large") == Counter([0])
    # Of the hopeless ones, none was started a second time.
    starts = Counter(event["query"] for event in run.events if event["event"] == "query_started")
    assert starts.pop("clicks") == restarts_of(run) + 1
    assert starts == dict.fromkeys((*HEALTHY, *FAILED), 1)
    assert {event["query"] for event in run.events if event["event"] == "query_restarting"} == {"clicks"}
    (finished,) = (event for event in run.events if event["event"] == "run_finished")
    summary = {name: (each["status"], each["problem"]) for name, each in finished["queries"].items()}
    assert {name: problem["code"] for name, (_, problem) in summary.items() if problem} == FAILED
    assert {name for name, (status, _) in summary.items() if status == "stopped"} == {*HEALTHY, "clicks"}
    assert finished["exit_code"] == 1


def restarts_of(run: Program) -> int:
    return max(int(event["restarts"]) for event in run.events if event["event"] == "query_restarted")
