"""A function or an object of the user's, called with each row on the executors."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.api.check import check
from headwater.errors import PipelineError
from headwater.events import Event
from tests.pipelines import batches, feed, run_as_batch, run_until_idle, write

PIPELINE = """
name: rows
sources:
  numbers: {connector: files, path: in, format: json, schema: "id int, word string", max_files_per_batch: 1}
tables:
  spread: {python: "out.py:spread"}
  checked: SELECT id, cast(word AS int) AS number FROM numbers
  counts: SELECT id % 2 AS odd, count(*) AS n FROM numbers GROUP BY id % 2
sinks:
  called: {reads: numbers, connector: foreach, function: "out.py:called"}
  written: {reads: spread, connector: foreach, object: "out.py:Writer"}
  plain: {reads: numbers, connector: foreach, object: "out.py:OnlyProcess"}
  passed_over: {reads: counts, connector: foreach, object: "out.py:PassedOver", mode: update}
"""
CODE = """
import json
import os
import sys
import threading
import time
import uuid
from pathlib import Path

HERE = Path("HOME")
LOCK = threading.Lock()  # made anew wherever the module is imported


def note(sink, *what):
    with LOCK, (HERE / f"{sink}.txt").open("a") as out:
        out.write(json.dumps(what) + "\\n")


def spread(numbers):
    return numbers.repartition(2, "id")


def wait_for_another_close():
    # Spark stops the other task when this one fails.
    deadline = time.monotonic() + 60
    while '"close"' not in (HERE / "written.txt").read_text() and time.monotonic() < deadline:
        time.sleep(0.05)


def called(row):
    note("called", row.id, row["word"], "headwater" in sys.modules, os.getcwd())


class Writer:
    def __init__(self):
        self.copy = None

    def open(self, partition_id, epoch_id):
        assert self.copy is None, "another task had this object"
        self.copy = uuid.uuid4().hex
        note("written", "open", self.copy, partition_id, epoch_id)
        return True

    def process(self, row):
        note("written", "row", self.copy, row.id)
        if "poison" in tuple(row):
            wait_for_another_close()
            raise ValueError(f"row {row.id} is poison")

    def close(self, error):
        note("written", "close", self.copy, repr(error))


class OnlyProcess:
    def process(self, row):
        note("plain", row.id)


class PassedOver:
    def open(self, partition_id, epoch_id):
        note("passed_over", "open", partition_id, epoch_id)
        return epoch_id != 0

    def process(self, row):
        note("passed_over", row.odd, row.n)

    def close(self, error):
        note("passed_over", "close", error)
"""
# A row of the second partition and an earlier one: `repartition` by id spreads them alike every time.
WORDS = [{"id": 1, "word": "a"}, {"id": 2, "word": "b"}, {"id": 3, "word": "c"}, {"id": 4, "word": "d"}]


CLOSE_SECONDS = 20.0


def project(folder: Path, pipeline: str = PIPELINE) -> Path:
    write(folder, CODE.replace("HOME", str(folder)), "out.py")
    feed(folder / "in", "1", WORDS, at=1000)
    return write(folder, pipeline)


def noted(folder: Path, sink: str) -> list[list[Any]]:
    """What the sink's code has noted, in the order in which it did."""
    file = folder / f"{sink}.txt"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def lives(notes: list[list[Any]]) -> list[tuple[Any, ...]]:
    """The life of each copy: partition, epoch, its rows, how it was closed."""
    found: dict[str, list[Any]] = {}
    for what, copy, *rest in notes:
        if what == "open":
            assert copy not in found
            found[copy] = [*rest, []]
        elif what == "row":
            found[copy][2] += rest
        else:
            found[copy] += rest
    return sorted((partition, epoch, sorted(rows), *end) for partition, epoch, rows, *end in found.values())


def closed_lives(folder: Path, sink: str) -> list[tuple[Any, ...]]:
    """The lives after all of them are over: a task may close a moment after Spark has told its failure."""
    end = time.monotonic() + CLOSE_SECONDS
    while not (found := lives(noted(folder, sink))) or any(len(life) < 4 for life in found):
        assert time.monotonic() < end, f"not every object was closed: {found}"
        time.sleep(0.02)
    return found


@pytest.mark.feature("D4")
@pytest.mark.parametrize("way", ["stream", "batch"])
def test_functions_and_objects_get_every_row_between_open_and_close(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    file, events = project(tmp_path), list[Event]()
    if way == "stream":
        feed(tmp_path / "in", "2", [{"id": 5, "word": "e"}], at=1001)
        assert run_until_idle(file, events).exit_code == 0
        for sink, counted in {
            "called": [(4, 4), (1, 1)],
            "written": [(4, 4), (1, 1)],
            "passed_over": [(4, 2), (1, 1)],
        }.items():
            assert [(each.rows_in, each.rows_out) for each in batches(events, sink)] == counted
    else:
        run_as_batch(file, tmp_path / "results")
    later = [(5, "e")] if way == "stream" else []
    # The executors need no Headwater: nothing of it was imported where the function ran.
    rows = [(row["id"], row["word"], False) for row in WORDS] + [(*row, False) for row in later]
    assert Counter(tuple(note[:3]) for note in noted(tmp_path, "called")) == Counter(rows)
    assert Counter(number for (number,) in noted(tmp_path, "plain")) == Counter(row[0] for row in rows)
    life = lives(noted(tmp_path, "written"))
    epochs = [0, 1] if way == "stream" else [0]
    # One copy for each partition of each epoch, with rows or without.
    assert [(partition, epoch) for partition, epoch, *_ in life] == sorted(
        (partition, epoch) for partition in (0, 1) for epoch in epochs
    )
    assert Counter(number for _, epoch, ids, _ in life for number in ids) == Counter(row[0] for row in rows)
    assert {ending for *_, ending in life} == {"None"}


@pytest.mark.feature("D4", part="open's False")
def test_false_skips_the_rows_and_the_state_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    sinks = PIPELINE.partition("sinks:")
    only = next(line for line in sinks[2].splitlines() if "passed_over" in line)
    file = project(tmp_path, f"{sinks[0]}sinks:\n{only}\n")
    feed(tmp_path / "in", "2", [{"id": 5, "word": "e"}], at=1001)
    assert run_until_idle(file).exit_code == 0
    notes = noted(tmp_path, "passed_over")
    opened, closed = [n for n in notes if n[0] == "open"], [n for n in notes if n[0] == "close"]
    assert Counter(map(tuple, opened)) == Counter(("open", p, e) for p in (0, 1) for e in (0, 1))
    assert closed == [["close", None]] * 4
    # Epoch 0 was skipped; what it had counted is in the state all the same.
    assert [n for n in notes if n[0] not in ("open", "close")] == [[1, 3]]


@pytest.mark.feature("D4", part="close(error)")
def test_close_hears_of_every_failure(spark: SparkSession, tmp_path: Path) -> None:
    # `process` fails in one pipeline, the computation of the rows halfway in the other.
    for name, table, word in (("own", "spread", "poison"), ("upstream", "checked", "x")):
        folder = tmp_path / name
        file = project(
            folder,
            PIPELINE.partition("sinks:")[0]
            + f'sinks:\n  written: {{reads: {table}, connector: foreach, object: "out.py:Writer"}}\n',
        )
        (folder / "in" / "1.json").unlink()
        rows = [{"id": number, "word": str(number)} for number in range(300)]
        feed(folder / "in", "2", [*rows, {"id": 300, "word": word}], at=1001)
        result = run_until_idle(file)
        problem: Any = result.queries["written"].problem
        ends = {life[3] for life in closed_lives(folder, "written")}
        if name == "own":
            line = CODE.splitlines().index('            raise ValueError(f"row {row.id} is poison")') + 1
            assert problem.code == "HW-QUERY-CODE-FAILED"
            assert (problem.place.file, problem.place.line) == (str(folder / "out.py"), line)
            assert ends == {"None", "ValueError('row 300 is poison')"}
        else:
            # An object that commits in `close(None)` must not do so for half of its rows.
            assert (problem.code, problem.place.line) == ("HW-QUERY-FAILED", 7)
            assert ends == {"RowsCutOff('the computation of the rows failed or was stopped')"}


REFUSED = """
import sqlite3
import threading


class Holds:
    def __init__(self):
        self.name = "x"
        self.guards = [threading.Lock()]

    def process(self, row):
        pass


class Connects:
    def __init__(self):
        self.database = sqlite3.connect(":memory:")

    def process(self, row):
        pass


class Fails:
    def __init__(self):
        raise OSError("no way")

    def process(self, row):
        pass


class Made:
    process = None


Factory = Holds


def closed_over():
    guard = threading.Lock()

    def send(row):
        guard.acquire()

    return send


send = closed_over()
"""


@pytest.mark.feature("D4", part="refused before start")
def test_what_cannot_reach_the_executors_is_refused_at_the_users_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, REFUSED, "out.py")
    (tmp_path / "in").mkdir()
    sinks = {
        "holds": 'object: "out.py:Holds"',
        "connects": 'object: "out.py:Connects"',
        "fails": 'object: "out.py:Fails"',
        "made": 'object: "out.py:Made"',
        "closed": 'function: "out.py:send"',
    }
    lines = [f"  {name}: {{reads: n, connector: foreach, {key}}}" for name, key in sinks.items()]
    text = "name: r\nsources:\n  n: {connector: files, path: in, format: text}\nsinks:\n"
    file = write(tmp_path, text + "\n".join(lines))
    found = {
        finding.problem.params.get("part") or finding.problem.code: (
            finding.problem.code,
            finding.problem.place.line if finding.problem.place else 0,
            finding.problem.params.get("type"),
        )
        for finding in check(file).findings
    }

    def at(text: str) -> int:
        return REFUSED.splitlines().index(text) + 1

    assert found == {
        "`self.guards[0]`": (
            "HW-NOT-SERIALIZABLE",
            at("        self.guards = [threading.Lock()]"),
            "_thread.lock",
        ),
        "`self.database`": (
            "HW-NOT-SERIALIZABLE",
            at('        self.database = sqlite3.connect(":memory:")'),
            "sqlite3.Connection",
        ),
        "`guard`": ("HW-NOT-SERIALIZABLE", at("    guard = threading.Lock()"), "_thread.lock"),
        "HW-CLASS-INIT-FAILED": ("HW-CLASS-INIT-FAILED", at('        raise OSError("no way")'), None),
        "HW-CLASS-METHOD-MISSING": ("HW-CLASS-METHOD-MISSING", 8, None),
    }


@pytest.mark.feature("D4", part="declared in Python")
def test_a_class_and_a_function_themselves(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path / "in", "1", WORDS)
    out = tmp_path / "rows.txt"

    class Writer:
        def process(self, row: Any) -> None:
            with out.open("a") as stream:
                stream.write(f"{row.id}\n")

    def send(row: Any) -> None:
        with out.open("a") as stream:
            stream.write(f"{-row.id}\n")

    p = hw.Pipeline("rows", run_dir=tmp_path / "run")
    p.source("numbers", hw.files(path=str(tmp_path / "in"), format="json", schema="id int"))
    p.sink("object", hw.foreach(object=Writer), reads="numbers", trigger="available now")
    p.sink("function", hw.foreach(function=send), reads="numbers", trigger="available now")
    run = p.start()
    assert run.wait(60)
    run.raise_for_failure()
    assert sorted(map(int, out.read_text().split())) == [-4, -3, -2, -1, 1, 2, 3, 4]
    wrong = hw.Pipeline("wrong", run_dir=tmp_path / "wrong")
    wrong.source("numbers", hw.files(path=str(tmp_path / "in"), format="json", schema="id int"))
    wrong.sink("out", hw.foreach(object=Writer, function=send), reads="numbers")
    with pytest.raises(PipelineError) as caught:
        wrong.spec()
    assert [problem.code for problem in caught.value.problems] == ["HW-VALUE-INVALID"]
