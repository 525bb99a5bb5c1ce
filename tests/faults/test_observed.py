"""One run, observed in every way from outside: commands, events, metrics, SQL."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headwater.history.reader import History
from tests.pipelines import committed, feed, write
from tests.processes import COMMAND, headwater, queries_of

PIPELINE = """
name: shop
sources:
  orders:
    connector: files
    path: in
    format: json
    schema: {id: int, at: timestamp, shop: string}
    watermark: {column: at, delay: 10 minutes}
tables:
  totals: SELECT shop, count(*) AS n FROM orders GROUP BY shop
sinks:
  totals: {reads: totals, connector: memory, mode: complete}
  copy: {reads: orders, connector: files, path: out, format: json}
  called: {reads: orders, connector: foreach_batch, function: "code.py:call"}
restart: {backoff: 100 ms, max_backoff: 200 ms}
alerts: {repeated_restarts: {warning: 1, critical: 20}, disk_almost_full: off}
on_event: "alerts.py:notify"
event_log: events.jsonl
webhook: URL
"""
CODE = """\
from pathlib import Path

FOLDER = Path(__file__).parent


def call(batch, batch_id):
    batch.count()
    if (FOLDER / "unreachable").exists():
        raise ConnectionRefusedError("no server")
"""
ALERTS = """\
from pathlib import Path

FOLDER = Path(__file__).parent


def notify(event):
    with (FOLDER / "notified").open("a") as file:
        file.write(event.kind + "\\\\n")
"""


@contextmanager
def receiver() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A web server that keeps what is posted to it."""
    posted: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/hook", posted
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Another process of the command, in the folder of the pipeline."""
    return subprocess.run([COMMAND, *arguments], cwd=folder, capture_output=True, text=True, timeout=60)


def rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": n, "at": "2026-01-01T12:00:00Z", "shop": "ab"[n % 2]} for n in ids]


def samples(text: str) -> dict[str, float]:
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


@pytest.mark.feature("D6")
@pytest.mark.feature("F1", part="from another process")
@pytest.mark.feature("F4", part="the command")
@pytest.mark.feature("G1")
@pytest.mark.feature("G2")
@pytest.mark.feature("G3.1")
def test_everything_about_a_run_is_seen_from_outside(tmp_path: Path) -> None:
    write(tmp_path, CODE, "code.py")
    write(tmp_path, ALERTS.replace("\\\\n", "\\n"), "alerts.py")
    feed(tmp_path / "in", "1", rows(1, 2, 3))
    with receiver() as (url, posted):
        write(tmp_path, PIPELINE.replace("URL", url), "pipeline.yml")
        with headwater(tmp_path, "run", "pipeline.yml", "--json", "--metrics", "0") as run:
            names = ("totals", "copy", "called")

            def all_are(status: str, batch: int) -> bool:
                found = queries_of(tmp_path)
                return all(
                    (found.get(name, {}).get("status"), found.get(name, {}).get("batch")) == (status, batch)
                    for name in names
                )

            run.until(lambda: all_are("idle", 0))
            check_status(tmp_path)
            check_sql(tmp_path)

            # A server of the user's code is away for a while.
            (tmp_path / "unreachable").touch()
            feed(tmp_path / "in", "2", rows(4))
            run.until(lambda: queries_of(tmp_path)["called"]["restarts"] >= 2)
            (tmp_path / "unreachable").unlink()
            run.until(lambda: all_are("idle", 1))
            recovered = queries_of(tmp_path)["called"]
            assert recovered["problem"]["code"] == "HW-USER-CONNECTION-FAILED"
            assert (recovered["rows_in"], recovered["health"]) == (4, "warning")
            assert [each["alert"] for each in recovered["alerts"]] == ["repeated_restarts"]

            detail = call(tmp_path, "status", ".", "--query", "called").stdout
            assert re.search(r"\n  last failure  \S+Z HW-USER-CONNECTION-FAILED ", detail), detail
            assert f"  restarts      {recovered['restarts']}\n" in detail
            check_metrics(run.events, recovered["restarts"])
            feed(tmp_path / "in", "3", rows(5, 6))
            restarted = call(tmp_path, "restart", ".", "copy")
            assert restarted.returncode == 0, restarted
            run.until(lambda: all_are("idle", 2))
            assert queries_of(tmp_path)["copy"]["restarts"] == 1
            stopped = call(tmp_path, "stop", ".")
            assert stopped.returncode == 0, stopped
            assert run.wait() == 0, run.told
        kinds = Counter(event["event"] for event in run.events)
        check_events(tmp_path, kinds, posted)
    assert committed(tmp_path / "out") == Counter(range(1, 7))
    # The status of a run that has ended is the one of its last moment.
    after = json.loads(call(tmp_path, "status", ".", "--json").stdout)
    assert (after["status"], after["exit_code"]) == ("stopped", 0)
    assert {query["query"]: query["rows_in"] for query in after["queries"]} == dict.fromkeys(names, 6)


def check_status(folder: Path) -> None:
    """As JSON and for people, and one query in detail."""
    found = call(folder, "status", ".", "--json")
    assert (found.returncode, found.stderr) == (0, "")
    status = json.loads(found.stdout)
    assert (status["pipeline"], status["status"], status["health"]) == ("shop", "running", "ok")
    (query,) = [each for each in status["queries"] if each["query"] == "totals"]
    last = query["last_batch"]
    assert (last["batch_id"], last["rows_in"], last["rows_out"]) == (0, 3, 2)
    assert {"addBatch", "queryPlanning", "walCommit", "commitOffsets"} <= last["phases_ms"].keys()
    assert last["duration_ms"] > 0
    (source,) = query["sources"]
    assert (source["name"], source["rows"], source["end_offset"]) == ("orders", 3, {"logOffset": 0})
    (state,) = query["state"]
    assert (state["rows"], state["bytes"] > 0) == (2, True)
    assert (query["id"] != query["run_id"], query["restarts"]) == (True, 0)
    assert (query["connector"], query["mode"]) == ("memory", "complete")
    (copy,) = [each for each in status["queries"] if each["query"] == "copy"]
    assert copy["guarantee"] == "exactly-once"
    assert copy["event_time"]["max"] == "2026-01-01T12:00:00.000Z"
    for text in (call(folder, "status", ".").stdout, call(folder, "status").stdout):
        assert all(name in text for name in ("shop", "totals", "copy", "called", "idle"))
    detail = call(folder, "status", ".", "--query", "copy").stdout
    assert all(word in detail for word in (copy["id"], copy["run_id"], "exactly-once", "addBatch", "orders"))
    labels = ("id", "run id", "status", "guarantee", "restarts", "last batch", "source", "watermark")
    assert shown_labels(detail).issuperset(labels)
    assert re.search(r"\n  watermark   (not reached|\S+Z)\n", detail), detail
    assert re.search(r"\n  status      idle since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n", detail), detail
    assert re.search(
        r"\n  source      orders: 3 rows in the last batch\n +offset {\"logOffset\": 0}\n", detail
    ), detail
    assert re.search(
        r"\n  last batch  0 at \S+Z, [\d,]+ ms, 3 rows in, 3 out\n +addBatch [\d,]+ ms, ", detail
    ), detail
    assert "state" in shown_labels(call(folder, "status", ".", "--query", "totals").stdout)
    assert (copy["status"], copy["held_back_by"], source["total_lag"]) == ("idle", [], None)
    assert call(folder, "status", ".", "--check").returncode == 0


def shown_labels(detail: str) -> set[str]:
    """The names of the lines in the detail of a query."""
    lines = (line[2:] for line in detail.splitlines()[1:])
    return {line.partition("  ")[0] for line in lines if not line.startswith(" ")}


def check_sql(folder: Path) -> None:
    """Rows of a memory table and of files, and what is refused."""
    first = call(folder, "sql", ".", "SELECT shop, n FROM totals ORDER BY shop", "--json")
    assert json.loads(first.stdout)["rows"] == [["a", 1], ["b", 2]], first
    found = call(folder, "sql", ".", "SELECT id FROM copy ORDER BY id DESC", "--json", "--max-rows", "2")
    assert json.loads(found.stdout)["rows"] == [[3], [2]]
    assert json.loads(found.stdout)["truncated"] is True
    for text, code in (
        ("INSERT INTO totals VALUES ('c', 1)", "HW-SQL-NOT-READ-ONLY"),
        ("SELECT 1; SELECT 2", "HW-SQL-NOT-READ-ONLY"),
        ("SELECT * FROM nothing", "HW-SQL-TABLE-UNREADABLE"),
    ):
        refused = call(folder, "sql", ".", text, "--json")
        assert refused.returncode == 2, refused
        assert [each["code"] for each in json.loads(refused.stdout)["problems"]] == [code]


def check_metrics(events: list[dict[str, Any]], restarts: int) -> None:
    """What Prometheus scrapes is what the status says; the probes answer."""
    (notice,) = [each for each in events if each.get("code") == "HW-METRICS-SERVED"]
    url = notice["fields"]["url"]
    with urllib.request.urlopen(url) as answer:
        found = samples(answer.read().decode())
    label = 'pipeline="shop",query="called"'
    assert found[f"headwater_query_rows_in_total{{{label}}}"] == 4
    assert found[f"headwater_query_restarts_total{{{label}}}"] == restarts
    for probe in ("live", "ready"):
        with urllib.request.urlopen(url.replace("/metrics", f"/health/{probe}")) as answer:
            assert answer.status == 200


def check_events(folder: Path, kinds: Counter[str], posted: list[dict[str, Any]]) -> None:
    """The same events reach the output, a function, a file, a web server and the history."""
    wanted = {
        "run_started",
        "query_started",
        "query_progress",
        "query_idle",
        "query_restarting",
        "query_restarted",
        "alert",
        "query_terminated",
        "run_finished",
    }
    assert wanted <= kinds.keys()
    log = Counter(json.loads(line)["event"] for line in (folder / "events.jsonl").read_text().splitlines())
    called = Counter((folder / "notified").read_text().split())
    sent = Counter(event["event"] for event in posted)
    for kind in sorted(wanted - {"query_idle"}):
        assert log[kind] == kinds[kind], kind
        assert called[kind] == kinds[kind], kind
        if kind not in ("query_progress", "query_started"):
            assert sent[kind] == kinds[kind], kind
    assert {event["pipeline"] for event in posted} == {"shop"}
    with History(folder / ".headwater" / "history.sqlite") as history:
        stored = Counter(event.to_json()["event"] for event in history.events())
        batches = sum(len(history.batches(query)) for query in history.queries())
    for kind in sorted(wanted - {"query_progress", "query_idle"}):
        assert stored[kind] == kinds[kind], kind
    assert batches == kinds["query_progress"]
