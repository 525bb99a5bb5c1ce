"""Spark's own metrics, switched on by one key in a real run: files, beans, a Graphite server, a page of the UI."""

from __future__ import annotations

import json
import re
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.engine.pipeline_file import load
from headwater.errors import SetupError
from headwater.runtime import RunOptions, start
from headwater.values import Position
from tests.pipelines import write
from tests.processes import Program, program

PIPELINE = """
name: shop
spark: {spark.master: "local[2]", spark.ui.port: 0, spark.sql.shuffle.partitions: 1}
spark_metrics:
  csv: {directory: measured, period: 1 second}
  jmx: {}
  graphite: {host: 127.0.0.1, port: PORT, period: 1 second}
  prometheus: {}
sources:
  ticks: {connector: rate, rows_per_second: 20}
tables:
  counts: SELECT value % 3 AS digit, count(*) AS n FROM ticks GROUP BY value % 3
sinks:
  per_digit: {reads: counts, connector: noop, mode: update, trigger: every 1 second}
"""
METRICS = ("inputRate-total", "latency", "processingRate-total", "states-rowsTotal")
PREFIX = "shop.driver.spark.streaming.per_digit."
DONE = "done"
PYTHON = Path(sys.executable)

# Reads the beans and the page from inside, and runs until the test has seen the rest.
SCRIPT = """
import json
import urllib.request
from contextlib import suppress
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

import headwater as hw

METRICS, PREFIX = {metrics!r}, {prefix!r}


def beans(jvm):
    found = {{}}
    for each in METRICS:
        name = jvm.javax.management.ObjectName(f"metrics:name={{PREFIX}}{{each}},type=gauges")
        with suppress(Py4JJavaError):  # a bean that is not there yet
            found[each] = str(attribute(jvm, name, "Value"))
    return found


def attribute(jvm, name, attribute):
    # The class of the server is not public: its methods are those of the interface.
    new_array, java = SparkContext._gateway.new_array, jvm.java.lang
    types, values = new_array(java.Class, 2), new_array(java.Object, 2)
    types[0], types[1] = name.getClass(), java.Class.forName("java.lang.String")
    values[0], values[1] = name, attribute
    interface = java.Class.forName("javax.management.MBeanServer")
    server = java.management.ManagementFactory.getPlatformMBeanServer()
    return interface.getMethod("getAttribute", types).invoke(server, values)


run = hw.load("pipeline.yml").start()
context = SparkContext._active_spark_context
found = {{}}
while float(found.get("states-rowsTotal", 0)) < 3:
    assert not run.wait(0.1)
    found = beans(context._jvm)
page = urllib.request.urlopen(f"{{context.uiWebUrl}}/metrics/prometheus").read().decode()
Path("seen.part").write_text(json.dumps({{"beans": found, "page": page}}))
Path("seen.part").rename("seen.json")
while not Path({done!r}).exists():
    assert not run.wait(0.1)
run.stop()
"""


@contextmanager
def graphite() -> Iterator[tuple[int, list[str]]]:
    """A server that keeps the lines that it receives, and its port."""
    lines: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            lines.extend(line.decode().rstrip("\n") for line in self.rfile)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1], lines
        finally:
            server.shutdown()
            thread.join()


def rows_of(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def files_have(folder: Path, metric: str) -> bool:
    """Whether a file has a head and a value greater than 0."""
    return any(float(row.partition(",")[2]) > 0 for row in rows_of(folder / f"{PREFIX}{metric}.csv")[1:])


def received(lines: list[str]) -> dict[str, float]:
    """The greatest value of each metric of the query, by name."""
    found: dict[str, float] = {}
    for line in list(lines):
        name, value, time = line.split(" ")
        if name.startswith(PREFIX):
            assert time.isdigit()
            short = name.removeprefix(PREFIX)
            found[short] = max(found.get(short, 0.0), float(value))
    return found


@pytest.mark.feature("G3.2")
def test_spark_reports_the_metrics_of_a_query_to_every_sink(tmp_path: Path) -> None:
    write(tmp_path, SCRIPT.format(metrics=METRICS, prefix=PREFIX, done=DONE), "script.py")
    with graphite() as (port, lines):
        write(tmp_path, PIPELINE.replace("PORT", str(port)))
        with program(tmp_path, PYTHON, "script.py") as run:
            measured = tmp_path / "measured"
            run.until((tmp_path / "seen.json").exists)
            run.until(lambda: all(files_have(measured, metric) for metric in METRICS))
            run.until(lambda: all(received(lines).get(metric, 0) > 0 for metric in METRICS))
            (tmp_path / DONE).touch()
            assert run.wait() == 0, run.told
    assert {rows_of(measured / f"{PREFIX}{metric}.csv")[0] for metric in METRICS} == {"t,value"}
    check_seen(json.loads((tmp_path / "seen.json").read_text(encoding="utf-8")), run)


def check_seen(seen: dict[str, dict[str, str] | str], run: Program) -> None:
    beans, page = seen["beans"], seen["page"]
    assert isinstance(beans, dict)
    assert sorted(beans) == list(METRICS), run.told
    assert beans["states-rowsTotal"] == "3"
    assert isinstance(page, str)
    name = r"metrics_shop_driver_spark_streaming_per_digit_states_rowsTotal_Value\{type=\"gauges\"\} 3$"
    assert re.search(name, page, re.MULTILINE)


def test_a_spark_that_was_started_elsewhere_cannot_get_sinks(spark: SparkSession, tmp_path: Path) -> None:
    file = write(tmp_path, PIPELINE.replace("PORT", "2003").replace("spark: {", "#"))
    with pytest.raises(SetupError) as error:
        start(load(file), RunOptions(), lambda event: None, lambda line: None)
    found = [(problem.code, problem.params["value"]) for problem in error.value.problems]
    assert found == [("HW-SETTING-TOO-LATE", each) for each in ("csv", "jmx", "graphite", "prometheus")]
    assert error.value.problems[0].place == Position(str(file), 5, 3)
    assert not (tmp_path / "measured").exists()
