"""Sources and sinks of the user's own, through Spark's Python Data Source API."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from headwater.api.batch import run_batch
from headwater.api.check import check
from headwater.api.explain import explain
from headwater.errors import PipelineError
from headwater.runtime import RunOptions
from tests.pipelines import run_until_idle, write

NAMES = "NAMES = {0: 'zero', 1: 'one', 2: 'two'}\n"

FEEDS = """
import json
from pathlib import Path

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)

from lib.names import NAMES


class Ticks(DataSource):
    @classmethod
    def name(cls):
        return "rate"  # the name of a source of Spark's, which must do no harm

    def schema(self):
        return "id int, step int, key int"

    def streamReader(self, schema):
        return TickReader(self.options)


class TickReader(DataSourceStreamReader):
    def __init__(self, options):
        self.file, self.key = Path(options["file"]), len(options["token"])

    def initialOffset(self):
        return {"step": 0}

    def latestOffset(self):
        return {"step": int(self.file.read_text())}

    def partitions(self, start, end):
        return [InputPartition((id, start["step"], end["step"])) for id in range(2)]

    def read(self, partition):
        id, start, end = partition.value
        yield from ((id, step, self.key) for step in range(start, end))


class Numbers(DataSource):
    def reader(self, schema):
        return NumberReader(schema)


class NumberReader(DataSourceReader):
    def __init__(self, schema):
        self.names = schema.names

    def read(self, partition):
        from lib.names import NAMES as known

        yield from known.items()


class Lines(DataSource):
    def schema(self):
        return "line string"

    def reader(self, schema):
        return LineReader(self.options["file"])

    def simpleStreamReader(self, schema):
        return NewLines(self.options["file"])


class LineReader(DataSourceReader):
    def __init__(self, file):
        self.file = file

    def read(self, partition):
        yield from ((line,) for line in Path(self.file).read_text().splitlines())


class NewLines(SimpleDataSourceStreamReader):
    def __init__(self, file):
        self.file = Path(file)

    def initialOffset(self):
        return {"line": 0}

    def read(self, start):
        lines = self.file.read_text().splitlines()[start["line"]:]
        return iter([(line,) for line in lines]), {"line": start["line"] + len(lines)}

    def readBetweenOffsets(self, start, end):
        return iter([(line,) for line in self.file.read_text().splitlines()[start["line"]:end["line"]]])


class NoMethods(DataSource):
    def schema(self):
        return "id int"


class Raises(DataSource):
    def schema(self):
        raise KeyError("no columns today")

    def streamReader(self, schema):
        return None


class Plain:
    pass
"""

OUT = """
import json
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

from lib.names import NAMES


@dataclass
class Part(WriterCommitMessage):
    rows: list


class Folder(DataSource):
    def streamWriter(self, schema, overwrite):
        return Stream(self.options["folder"])

    def writer(self, schema, overwrite):
        return All(self.options["folder"], overwrite)


class Writing:
    def write(self, rows):
        return Part([list(row) for row in rows])

    def keep(self, name, messages):
        rows = [row for part in messages for row in part.rows]
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        Path(self.folder, name + ".json").write_text(json.dumps(rows))


class Stream(Writing, DataSourceStreamWriter):
    def __init__(self, folder):
        self.folder = folder

    def commit(self, messages, batchId):
        self.keep(NAMES.get(batchId, str(batchId)), messages)


class All(Writing, DataSourceWriter):
    def __init__(self, folder, overwrite):
        self.folder = folder
        assert not overwrite

    def commit(self, messages):
        self.keep("all", messages)
"""

PIPELINE = """
name: own
sources:
  ticks:
    connector: python
    class: "feeds.py:Ticks"
    options: {{file: {folder}/steps, token: "${{secret:TICKS_TOKEN}}"}}
  numbers: {{connector: python, class: "feeds.py:Numbers", schema: {{id: int, name: string}}, static: true}}
  lines: {{connector: python, class: "feeds.py:Lines", options: {{file: {folder}/lines}}}}
tables:
  named: SELECT name, step, key FROM ticks JOIN numbers USING (id)
sinks:
  named: {{reads: named, connector: python, class: "out.py:Folder", options: {{folder: {folder}/named}}}}
  lines: {{reads: lines, connector: python, class: "out.py:Folder", options: {{folder: {folder}/out}}}}
"""
BATCH = """
name: batch
sources:
  numbers: {{connector: python, class: "feeds.py:Numbers", schema: "id int, name string", static: true}}
  lines: {{connector: python, class: "feeds.py:Lines", options: {{file: {folder}/lines}}}}
tables:
  both: SELECT line, name FROM lines CROSS JOIN numbers
sinks:
  both: {{reads: both, connector: python, class: "out.py:Folder", options: {{folder: {folder}/both}}}}
"""
WRONG = """
name: wrong
sources:
  plain: {connector: python, class: "feeds.py:Plain"}
  none: {connector: python, class: "feeds.py:NoMethods"}
  at_once: {connector: python, class: "feeds.py:Numbers", schema: id int}
  no_columns: {connector: python, class: "feeds.py:Numbers", static: true}
  not_static: {connector: python, class: "feeds.py:Ticks", static: true}
  raises: {connector: python, class: "feeds.py:Raises"}
  lines: {connector: python, class: "feeds.py:Lines", options: {file: lines}}
sinks:
  a: {reads: plain, connector: noop}
  b: {reads: none, connector: noop}
  c: {reads: at_once, connector: noop}
  d: {reads: no_columns, connector: noop}
  e: {reads: not_static, connector: noop}
  f: {reads: raises, connector: noop}
  g: {reads: lines, connector: python, class: "feeds.py:Lines"}
"""


def project(folder: Path, text: str, name: str = "pipeline.yml") -> Path:
    write(folder / "lib", NAMES, "names.py")
    write(folder, FEEDS, "feeds.py")
    write(folder, OUT, "out.py")
    return write(folder, text, name)


def put(folder: Path, steps: int, *lines: str) -> None:
    write(folder, str(steps), "steps")
    write(folder, "".join(f"{line}\n" for line in lines), "lines")


def rows(folder: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    """The rows of every file that the sink has written."""
    return {file.stem: Counter(map(tuple, json.loads(file.read_text()))) for file in folder.iterdir()}


@pytest.mark.feature("B8", part="streaming, and static in a streaming query")
@pytest.mark.feature("D9")
def test_streams_of_classes(context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKS_TOKEN", "hush-hush")
    file = project(tmp_path, PIPELINE.format(folder=tmp_path))
    put(tmp_path, 2, "a", "b")
    assert "hush-hush" not in json.dumps(explain(file).to_json())
    assert run_until_idle(file).exit_code == 0
    first = [("zero", 0, 9), ("zero", 1, 9), ("one", 0, 9), ("one", 1, 9)]
    assert rows(tmp_path / "named") == {"zero": Counter(first)}
    assert rows(tmp_path / "out") == {"zero": Counter([("a",), ("b",)])}

    put(tmp_path, 3, "a", "b", "c")
    # As after a crash between the writing of a batch and its commit: the same rows come again.
    (tmp_path / ".headwater" / "checkpoints" / "lines" / "commits" / "0").unlink()
    (tmp_path / ".headwater" / "checkpoints" / "lines" / "commits" / ".0.crc").unlink(missing_ok=True)
    assert run_until_idle(file).exit_code == 0
    second = [("zero", 2, 9), ("one", 2, 9)]
    assert rows(tmp_path / "named") == {"zero": Counter(first), "one": Counter(second)}
    assert rows(tmp_path / "out") == {"zero": Counter([("a",), ("b",)]), "one": Counter([("c",)])}


@pytest.mark.feature("B8")
@pytest.mark.feature("D9", part="in a batch run")
@pytest.mark.parametrize("form", ["stream", "batch"])
def test_streaming_and_batch_give_the_same(context: SparkContext, tmp_path: Path, form: str) -> None:
    file = project(tmp_path, BATCH.format(folder=tmp_path))
    put(tmp_path, 0, "a", "b")
    if form == "batch":
        run_batch(file, RunOptions(), stdout=print)
    else:
        assert run_until_idle(file).exit_code == 0
    expected = Counter((line, name) for line in "ab" for name in ("zero", "one", "two"))
    assert rows(tmp_path / "both") == {"all" if form == "batch" else "zero": expected}


@pytest.mark.feature("B8", part="what can't work is refused before anything starts")
@pytest.mark.feature("D9", part="what can't work is refused before anything starts")
def test_what_a_class_lacks(context: SparkContext, tmp_path: Path) -> None:
    file = project(tmp_path, WRONG)
    found = [(each.problem.code, each.problem.location.partition(":")[2]) for each in check(file).findings]
    raised = FEEDS.splitlines().index('        raise KeyError("no columns today")') + 1
    assert Counter(found) == Counter(
        [
            ("HW-PYTHON-CLASS-INVALID", "4:37"),
            ("HW-PYTHON-METHOD-MISSING", "5:36"),
            ("HW-PYTHON-METHOD-MISSING", "6:39"),
            ("HW-PYTHON-SCHEMA-MISSING", "7:42"),
            ("HW-PYTHON-METHOD-MISSING", "8:42"),
            ("HW-CLASS-CODE-FAILED", f"{raised}:1"),
            ("HW-PYTHON-METHOD-MISSING", "18:47"),
        ]
    )


@pytest.mark.feature("A1.2", part="a class that can only be streamed")
def test_a_class_without_a_reader_has_no_batch_form(
    context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TICKS_TOKEN", "hush-hush")
    file = project(tmp_path, PIPELINE.format(folder=tmp_path))
    put(tmp_path, 2, "a")
    with pytest.raises(PipelineError) as refused:
        run_batch(file, RunOptions(), stdout=print)
    assert [(each.code, each.params["name"], each.params["method"]) for each in refused.value.problems] == [
        ("HW-PYTHON-METHOD-MISSING", "ticks", "reader")
    ]
    assert not (tmp_path / "out").exists()
