"""One run on a real cluster of two workers, whose Python has neither Headwater nor anything of the project.

Starting Spark on a cluster costs more than what is shown there, so one application does it all: functions by
file and by value, rows handed to the user's own code, data sources, a connector of another package, state.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from scripts.contract import ROOT
from tests.cluster import Cluster
from tests.connectors.installing import install, page_files, wheel
from tests.pipelines import feed, write
from tests.processes import program
from tests.spark.test_foreach import CODE, WORDS, lives, noted
from tests.spark.test_project_code import EXPECTED, PROJECT
from tests.spark.test_project_code import write as write_all

ABSENT = """
import sys


class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ("headwater", "headwater_jsonl"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent)
"""
PIPELINE = """
import os

import headwater as hw
from pyspark.sql.functions import udf
from pyspark.sql.types import BooleanType, StringType

from lib import rules

p = hw.Pipeline("everything")
p.source("numbers", hw.files(path="in", format="json", schema="id bigint"))
p.source("words", hw.files(path="words", format="json", schema="id int, word string"))
p.source("places", hw.connector("python", **{"class": "feeds.py:Where"}))
p.source("spread", hw.connector(**SPREAD_SOURCE))
p.source(
    "logins",
    hw.files(path="data", format="json", schema="user string, ok boolean, at timestamp"),
    watermark=("at", "5 minutes"),
)
for name in ("scalar", "nested", "arrow", "frames"):
    p.table(name, python=f"alerts.py:{name}")
p.table(
    "functions",
    sql='''
    SELECT 'scalar' AS kind, id, string(over) AS a, NULL AS b FROM scalar
    UNION ALL SELECT 'nested', id, name, string(`limit`) FROM nested
    UNION ALL SELECT 'arrow', id, string(above), NULL FROM arrow
    UNION ALL SELECT 'frames', id, NULL, NULL FROM frames
    ''',
)
p.table("by_file", python="by_file.py:by_file")
p.table("parted", python="out.py:spread")
p.table("alerts", python="logins.py:alerts")


@udf(StringType())
def place(number):
    from lib.rules import LIMIT

    return f"{LIMIT} {os.getcwd()}"


@udf(BooleanType())
def over(number):
    return rules.over(number)


@p.table
def by_value(numbers):
    return numbers.where(over("id")).select("id", place("id").alias("place"))


def sink(name, *what, **more):
    if name in SINKS:
        p.sink(name, *what, **more)


for name in ("functions", "by_file", "by_value", "alerts"):
    sink(name, hw.files(path=f"results/{name}", format="json"), reads=name)
sink("called", hw.foreach(function="out.py:called"), reads="words")
sink("written", hw.foreach(object="meeting.py:Meeting"), reads="parted")
sink(
    "places", hw.connector("python", **{"class": "feeds.py:Where", "options": {"file": FILE}}), reads="places"
)
sink("spread", hw.connector(**SPREAD_SINK), reads="spread")
"""
BY_FILE = """
import os

from pyspark.sql.functions import udf

import lib.rules


@udf("boolean")
def over(number):
    return lib.rules.over(number)


@udf("string")
def place(number):
    return f"{lib.rules.__file__} {os.getcwd()}"


def by_file(numbers):
    return numbers.where(over("id")).select("id", place("id").alias("place"))
"""
# Each task waits for the other, so the two run at the same time: one on each worker's only core.
MEETING = """
import os
import threading
import time

from out import HERE, Writer


class Meeting(Writer):
    def open(self, partition_id, epoch_id):
        (HERE / f"here-{partition_id}").write_text(os.getcwd())
        pause, deadline = threading.Event(), time.monotonic() + 100
        while not all((HERE / f"here-{number}").exists() for number in range(2)):
            assert time.monotonic() < deadline, "the other task did not come"
            pause.wait(0.05)
        return super().open(partition_id, epoch_id)
"""
FEEDS = """
import json
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)

import lib.places


class Where(DataSource):
    def schema(self):
        return "number int, place string"

    def streamReader(self, schema):
        return Reader()

    def streamWriter(self, schema, overwrite):
        return Writer(self.options["file"])


class Reader(DataSourceStreamReader):
    def initialOffset(self):
        return {"at": lib.places.FIRST}

    def latestOffset(self):
        return {"at": lib.places.FIRST + 4}

    def partitions(self, start, end):
        return [InputPartition(number) for number in range(start["at"], end["at"])]

    def read(self, partition):
        yield partition.value, lib.places.here()


@dataclass
class Written(WriterCommitMessage):
    rows: list
    place: str


class Writer(DataSourceStreamWriter):
    def __init__(self, file):
        self.file = Path(file)

    def write(self, rows):
        return Written([list(row) for row in rows], lib.places.here())

    def commit(self, messages, batchId):
        parts = [[each.place, each.rows] for each in messages]
        self.file.write_text(json.dumps({"committed": lib.places.here(), "parts": parts}))
"""
PLACES = "import os\n\nFIRST = 3\n\n\ndef here():\n    return os.getcwd()\n"
# One application for all runs: a driver and executors for each would cost more than what they do.
DRIVER = """
import json
import sys
from pathlib import Path

from headwater.spark.java import find_java
from headwater.spark.jvm import start_context
from tests.pipelines import run_until_idle

settings, files = json.loads(sys.argv[1]), sys.argv[2:]
jvm = start_context(settings, java=find_java(), log_folder=Path.cwd(), stdout=lambda line: None)
for file in files:
    result = run_until_idle(Path(file))
    assert result.exit_code == 0, result.queries
jvm.stop()
"""
RUN_SECONDS = 400.0
# Each starts Python processes of its own when its query does; all at once is too much for two cores.
SINKS = (("functions", "by_file", "by_value"), ("called", "written", "alerts"), ("places", "spread"))
FAILED = {"anna": (0, 4, 7), "ben": (0, 5, 11), "cora": (2, 3, 4), "dora": (30,)}


# The run is part of the first test's set-up.
pytestmark = pytest.mark.timeout(1_800)


@dataclass(frozen=True)
class Ran:
    """What the run has left, and where it was started."""

    project: Path
    elsewhere: Path
    cluster: Cluster

    def rows(self, *folder: str) -> list[dict[str, Any]]:
        files = [file for file in self.project.joinpath(*folder).iterdir() if file.suffix == ".json"]
        return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]

    def worker(self, place: str) -> str:
        """The worker in whose folder a task ran."""
        return Path(place).relative_to(os.path.realpath(self.cluster.folder)).parts[0]


def bare_python(folder: Path) -> Path:
    """This interpreter, as it is on a machine without Headwater and without the connector."""
    write(folder / "bare", ABSENT, "sitecustomize.py")
    script = f'#!/bin/sh\nPYTHONPATH="{folder / "bare"}:$PYTHONPATH" exec "{sys.executable}" "$@"\n'
    file = write(folder, script, "python")
    file.chmod(0o755)
    return file


def make_project(folder: Path) -> list[Path]:
    """A file of the pipeline for each part of its sinks, with the code and the data that they need."""
    write_all(folder, {name: text for name, text in PROJECT.items() if name != "pipeline.py"})
    spread: dict[str, Any] = YAML(typ="safe").load(page_files()["spread.yml"])
    source, sink = spread["sources"]["numbers"], spread["sinks"]["numbers"]
    sink = {key: value for key, value in sink.items() if key != "reads"}
    text = PIPELINE.replace("FILE", repr(str(folder / "places.json")))
    for name, call in {"SPREAD_SOURCE": source, "SPREAD_SINK": sink}.items():
        text = text.replace(f"**{name}", f"{call.pop('connector')!r}, **{dict(call)!r}")
    for name, code in {"by_file.py": BY_FILE, "meeting.py": MEETING, "feeds.py": FEEDS}.items():
        write(folder, code, name)
    write(folder / "lib", PLACES, "places.py")
    write(folder, CODE.replace("HOME", str(folder)), "out.py")
    shutil.copy(ROOT / "examples" / "user_alerts" / "alerts.py", folder / "logins.py")
    feed(folder / "in", "1", [{"id": number} for number in range(2)])
    feed(folder / "in", "2", [{"id": number} for number in range(2, 4)])
    feed(folder / "words", "1", WORDS)
    logins = [
        {"user": user, "ok": False, "at": f"2026-01-01T12:{minute:02}:00Z"}
        for user, minutes in FAILED.items()
        for minute in reversed(minutes)
    ]
    feed(folder / "data", "1", logins)
    return [
        write(folder, text.replace("SINKS", repr(sinks)), f"pipeline_{number}.py")
        for number, sinks in enumerate(SINKS)
    ]


@pytest.fixture(scope="module")
def ran(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("on_the_cluster")
    files = make_project(folder / "project")
    site = install(wheel(page_files(), folder), folder / "site")
    python = str(bare_python(folder))
    absent = subprocess.run([python, "-c", "import headwater"], stderr=subprocess.DEVNULL, check=False)
    assert absent.returncode == 1
    # From another folder, so that no process finds the modules by where it happens to be.
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    settings = {
        **cluster.settings,
        "spark.master": cluster.master,
        "spark.scheduler.mode": "FAIR",
        "spark.locality.wait": "0s",
    }
    driver_file = write(folder, DRIVER, "driver.py")
    path = os.pathsep.join([str(ROOT), str(site)])
    command: list[str | Path] = [sys.executable, driver_file, json.dumps(settings), *files]
    with program(elsewhere, *command, PYTHONPATH=path, PYSPARK_PYTHON=python) as driver:
        assert driver.wait(RUN_SECONDS) == 0, driver.told
    return Ran(folder / "project", elsewhere, cluster)


@pytest.mark.feature("C1.3")
def test_functions_find_the_projects_modules(ran: Ran) -> None:
    """By file, as YAML names them, and by value, from the file that declares them; on both workers."""
    (by_file,), (by_value,) = (ran.rows("results", name) for name in ("by_file", "by_value"))
    assert [by_file["id"], by_value["id"]] == [3, 3]
    module, _, folder = by_file["place"].partition(" ")
    assert re.fullmatch(r"./(\w+)\.zip/\1/lib/rules\.pyc", module)
    assert ran.worker(folder) in ("worker-1", "worker-2")
    limit, _, folder = by_value["place"].partition(" ")
    assert limit == "2"
    assert ran.worker(folder) in ("worker-1", "worker-2")
    assert {ran.worker((ran.project / f"here-{number}").read_text()) for number in range(2)} == {
        "worker-1",
        "worker-2",
    }


@pytest.mark.feature("C1.3", part="every kind of Python function, on a real two-worker cluster")
def test_every_kind_of_python_function(ran: Ran) -> None:
    def text(value: Any) -> str | None:
        return None if value is None else str(value).lower()

    expected = Counter(
        (kind, row[0], *map(text, row[1:]), *[None] * (3 - len(row)))
        for kind, rows in EXPECTED.items()
        if kind != "by_value"
        for row in rows
    )
    found = [(row["kind"], row["id"], row.get("a"), row.get("b")) for row in ran.rows("results", "functions")]
    assert Counter(found) == expected


@pytest.mark.feature("D4", part="on a cluster")
def test_foreach(ran: Ran) -> None:
    called = noted(ran.project, "called")
    assert sorted(number for number, *_ in called) == [row["id"] for row in WORDS]
    for *_, imported, folder in called:
        assert not imported
        assert ran.worker(folder) in ("worker-1", "worker-2")
    life = lives(noted(ran.project, "written"))
    assert sorted(number for _, _, rows, _ in life for number in rows) == [0, 1, 2, 3]
    assert [(partition, epoch, end) for partition, epoch, _, end in life] == [(0, 0, "None"), (1, 0, "None")]


@pytest.mark.feature("B8", part="on the executors of a cluster")
@pytest.mark.feature("D9", part="on the executors of a cluster")
def test_a_data_source_of_the_users(ran: Ran) -> None:
    found = json.loads((ran.project / "places.json").read_text(encoding="utf-8"))
    rows = [row for _, part in found["parts"] for row in part]
    assert sorted(number for number, _ in rows) == [3, 4, 5, 6]
    for place in (*(place for _, place in rows), *(place for place, _ in found["parts"])):
        assert ran.worker(place) in ("worker-1", "worker-2")
    assert Path(found["committed"]) == ran.elsewhere


def test_a_connector_that_the_workers_do_not_have(ran: Ran) -> None:
    """Word for word that of its docs page."""
    rows = [
        json.loads(line)
        for part in (ran.project / "numbers").iterdir()
        for line in part.read_text(encoding="utf-8").splitlines()
    ]
    assert sorted(row["number"] for row in rows) == [0, 1, 2, 3, 4, 5]
    for place in (row[key] for row in rows for key in ("made", "written")):
        assert ran.worker(place) in ("worker-1", "worker-2")


@pytest.mark.feature("C13.6", part="on two workers")
def test_state_of_the_example_of_alerts(ran: Ran) -> None:
    assert sorted((row["user"], row["at"], row["since"]) for row in ran.rows("results", "alerts")) == [
        ("anna", "2026-01-01T12:07:00.000Z", "2026-01-01T12:00:00.000Z"),
        ("cora", "2026-01-01T12:04:00.000Z", "2026-01-01T12:02:00.000Z"),
    ]
