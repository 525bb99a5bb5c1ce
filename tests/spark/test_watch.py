"""`hw.watch`: hand-written queries with the history, health, metrics and control of a run."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import headwater as hw
from headwater.api.remote import connect
from headwater.errors import UsageError
from headwater.events import Event
from headwater.history.reader import History
from headwater.run_directory import RunDirectory
from tests.pipelines import feed
from tests.processes import COMMAND, program

SECONDS = 30.0

SCRIPT = """\
import headwater as hw
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").appName("shop").getOrCreate()
hw.watch(spark)
ticks = spark.readStream.format("rate").load()
for name in ("first", "second"):
    ticks.writeStream.queryName(name).format("noop").trigger(processingTime="1 second").start()
print("started", flush=True)
spark.streams.awaitAnyTermination()
"""


@pytest.fixture(autouse=True)
def watched(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Afterwards, no query runs, and nothing is left of a watch."""
    monkeypatch.setenv("HEADWATER_STATE_DIR", str(tmp_path / "state"))
    yield
    for query in spark.streams.active:
        query.stop()
    assert listeners(spark) == 0
    until(lambda: not headwater_threads())


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline, pause = time.monotonic() + SECONDS, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not come"
        pause.wait(0.02)


def listeners(spark: SparkSession) -> int:
    return len(spark.streams._jsqm.listListeners())


def headwater_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("headwater ")]


def started(
    spark: SparkSession, folder: Path, name: str, change: Callable[[DataFrame], DataFrame] = lambda rows: rows
) -> StreamingQuery:
    """A query that takes one file with each batch."""
    (folder / "in").mkdir(exist_ok=True)
    rows = spark.readStream.schema("id int").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    writer = change(rows).writeStream.queryName(name).format("memory")
    return writer.option("checkpointLocation", str(folder / name)).start()


def counts(watch: Any, query: str) -> tuple[int, int, int]:
    found = watch.queries[query]
    return found["batches"], found["rows_in"], found["rows_out"]


@pytest.mark.feature("L4", part="history, health and status")
def test_queries_from_before_and_after_are_watched(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path / "in", "0", [{"id": 1}, {"id": 2}])
    before = started(spark, tmp_path, "before")
    before.processAllAvailable()
    events: list[Event] = []
    with hw.watch(spark, name="shop", run_dir=tmp_path / "run", on_event=events.append) as watch:
        after = started(spark, tmp_path, "after")
        feed(tmp_path / "in", "1", [{"id": 3}])
        feed(tmp_path / "in", "2", [{"id": 4}])
        before.processAllAvailable()
        after.processAllAvailable()
        until(lambda: watch.queries["before"]["batches"] == watch.queries["after"]["batches"] == 3)
        remote = connect(tmp_path / "run")
        assert (remote.status, remote.to_json()["pipeline"]) == ("running", "shop")
        details = remote.query("before").to_json()
        assert (details["connector"], details["mode"], details["trigger"]) == ("memory", "append", "default")
        assert (details["id"], details["checkpoint"]) == (before.id, str(tmp_path / "before"))
        remote.query(after.id).stop()
        assert not after.isActive
        assert before.isActive
    assert [counts(watch, name) for name in ("before", "after")] == [(3, 4, 4), (3, 4, 4)]
    assert watch.queries["after"]["status"] == "stopped"
    with History(tmp_path / "run" / "history.sqlite") as history:
        rows = {
            name: sorted((each.batch_id, each.values["rows_in"]) for each in history.batches(name))
            for name in history.queries()
        }
        kinds = [each.body["event"] for each in history.events()]
    assert rows == {name: [(0, 2), (1, 1), (2, 1)] for name in ("before", "after")}
    assert [kind for kind in kinds if kind != "query_idle"] == [
        "run_started",
        "query_started",
        "query_started",
        "query_terminated",
        "run_finished",
    ]
    assert [event.kind for event in events if event.kind == "query_progress"] == ["query_progress"] * 6


@pytest.mark.feature("L4", part="history, health and status")
def test_a_failure_has_its_code_and_a_new_start_is_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path / "in", "0", [{"id": 7}])

    def refuse(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("raise_error('no ' || id) AS id")

    with hw.watch(spark, run_dir=tmp_path / "run") as watch:
        started(spark, tmp_path, "out", refuse)
        until(lambda: watch.queries.get("out", {}).get("status") == "failed")
        found = watch.queries["out"]
        assert (found["health"], found["problem"]["code"]) == ("critical", "HW-QUERY-FAILED")
        assert "no 7" in found["problem"]["message"]
        assert "no 7" in (tmp_path / "run" / "logs" / "failures.log").read_text(encoding="utf-8")
        # A table in memory cannot resume from its checkpoint.
        shutil.rmtree(tmp_path / "out")
        started(spark, tmp_path, "out").processAllAvailable()
        until(lambda: counts(watch, "out") == (1, 1, 1))
        assert (watch.queries["out"]["restarts"], watch.queries["out"]["health"]) == (1, "ok")


@pytest.mark.feature("L4", part="metrics")
def test_metrics_are_served_until_the_watch_ends(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path / "in", "0", [{"id": 1}, {"id": 2}])
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with hw.watch(spark, name="shop", run_dir=tmp_path / "run", metrics=str(port)) as watch:
        started(spark, tmp_path, "out").processAllAvailable()
        until(lambda: counts(watch, "out") == (1, 2, 2))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as answer:
            lines = answer.read().decode().splitlines()
    (read,) = (line for line in lines if line.startswith("headwater_query_rows_in_total{"))
    assert 'query="out"' in read
    assert read.endswith(" 2.0")
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS)


@pytest.mark.feature("L4", part="a watch leaves nothing behind")
def test_a_second_watch_replaces_the_first_and_nothing_is_left(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path / "in", "0", [{"id": 1}])
    query = started(spark, tmp_path, "out")
    query.processAllAvailable()
    first = hw.watch(spark, run_dir=tmp_path / "run")
    second = hw.watch(spark, run_dir=tmp_path / "run")
    assert (first.is_active, second.is_active, listeners(spark)) == (False, True, 1)
    assert counts(second, "out") == (1, 1, 1)
    second.stop()
    second.stop()
    assert (listeners(spark), query.isActive) == (0, True)
    until(lambda: not headwater_threads())
    directory = RunDirectory(tmp_path / "run")
    left = (directory.control, directory.control_socket)
    assert [each.exists() for each in left] == [False, False]
    assert not directory.in_use
    # What both have read of the query is stored once.
    with History(directory.history) as history:
        assert [each.batch_id for each in history.batches("out")] == [0]
        assert [run.run_id for run in history.runs()] == [second.id, first.id]


@pytest.mark.feature("L4", part="sessions that cannot be watched")
def test_only_a_session_of_this_process_can_be_watched(tmp_path: Path) -> None:
    connected = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    for given, code in ((connected, "HW-WATCH-CONNECT-UNSUPPORTED"), (3, "HW-WATCH-SESSION-EXPECTED")):
        with pytest.raises(UsageError) as refused:
            hw.watch(given, run_dir=tmp_path / "run")  # type: ignore[arg-type]
        (problem,) = refused.value.problems
        assert (problem.code, problem.place and problem.place.file) == (code, __file__)
    assert not (tmp_path / "run").exists()


@pytest.mark.feature("L4", part="status in another process")
def test_a_ten_line_script_is_shown_in_status_and_so_is_its_death(
    tmp_path: Path, context: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(SCRIPT, encoding="utf-8")
    with program(tmp_path, sys.executable, "shop.py") as running:
        running.until(lambda: "started" in running.stdout)
        remote = connect(tmp_path / ".headwater")
        running.until(lambda: all(each["batches"] for each in remote.to_json()["queries"]))
        assert shown(tmp_path) == ["shop: running", "first running ok", "second running ok"]
        running.signal(signal.SIGKILL)
        running.process.wait(SECONDS)
        assert shown(tmp_path) == [
            "shop: killed",
            "HW-RUN-KILLED Run",
            "first killed critical",
            "second killed critical",
        ]


def shown(folder: Path) -> list[str]:
    """What `headwater status` says of the run in a folder, of its problem if it has one, and of each query."""
    done = subprocess.run(
        [COMMAND, "status", "."], cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    table = next(number for number, words in enumerate(lines) if words[0] == "query")
    # The last line before the table is the hint of a problem.
    heads = [" ".join(words[:2]) for words in lines[: max(1, table - 1)]]
    return [*heads, *(f"{each[0]} {each[1]} {each[-1]}" for each in lines[table + 1 :])]
