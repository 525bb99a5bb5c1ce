"""A data source of the user's, as source and sink, whose workers know nothing of the project."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.pipelines import write
from tests.processes import headwater

FEEDS = """
import json
import os
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
YAML = """
name: places
sources:
  numbers: {{connector: python, class: "feeds.py:Where"}}
sinks:
  numbers: {{reads: numbers, connector: python, class: "feeds.py:Where", options: {{file: {file}}}}}
"""


@pytest.mark.feature("B8", part="on the executors of a cluster")
@pytest.mark.feature("D9", part="on the executors of a cluster")
def test_on_two_workers(cluster: Cluster, tmp_path: Path) -> None:
    write(tmp_path / "lib", PLACES, "places.py")
    write(tmp_path, FEEDS, "feeds.py")
    written = tmp_path / "written.json"
    file = write(tmp_path, YAML.format(file=written))
    # From another folder, so that no process finds the modules by where it happens to be.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    conf = [word for key, value in cluster.settings.items() for word in ("--conf", f"{key}={value}")]
    command = ["run", str(file), "--master", cluster.master, "--until-idle", *conf]
    with headwater(elsewhere, *command, PYSPARK_PYTHON=sys.executable) as run:
        assert run.wait() == 0, run.told
    found = json.loads(written.read_text(encoding="utf-8"))
    rows = [row for _, part in found["parts"] for row in part]
    assert sorted(number for number, _ in rows) == [3, 4, 5, 6]
    for place in (*(place for _, place in rows), *(place for place, _ in found["parts"])):
        assert Path(place).relative_to(cluster.folder).parts[0] in ("worker-1", "worker-2")
    assert Path(found["committed"]) == elsewhere
