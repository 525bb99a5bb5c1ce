"""Sink groups: one query reads and computes each batch once, and every sink of the group writes it exactly."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

import headwater as hw
from headwater.api.check import check
from headwater.connectors import sink_side
from headwater.connectors.connector import BatchWriter, ReadsBack
from headwater.connectors.contract import Context
from headwater.connectors.files import batches as files
from headwater.connectors.files.options import FilesSink
from headwater.errors import PipelineError, UsageError
from headwater.events import Event, RunStarted
from headwater.runtime import RunOptions, start
from headwater.runtime.handles import Run
from headwater.testing.subjects import schema_of
from tests.lines import HOST, LineServer
from tests.pipelines import batches, feed, rows_of, run_as_batch, run_until_idle, wait_for, write
from tests.processes import headwater, jvm_of

PIPELINE = """
name: shop
restart: never
sources:
  orders:
    connector: files
    path: in
    format: json
    schema: {id: int, customer: string, cents: int}
    max_files_per_batch: 1
    bad_rows: drop
  names: {connector: files, path: names, format: json, schema: {customer: string, name: string}, static: true}
tables:
  seen: {python: "code.py:seen"}
  named:
    sql: SELECT s.id, s.cents, n.name FROM seen s JOIN names n USING (customer)
    expect: {small: cents < 100, priced: {condition: cents > 0, on_violation: drop}}
  large: {python: "code.py:large"}
sinks:
  all: {reads: seen, connector: sqlite, path: shop.db, into: orders, group: shop}
  kept: {reads: SEEN, connector: files, path: kept, format: json, partition_by: customer, group: shop}
  named: {reads: named, connector: sqlite, path: shop.db, into: named, group: shop}
  large: {reads: large, connector: foreach_batch, function: "code.py:store", group: shop}
"""
CODE = """
import os
import signal
from pathlib import Path

from pyspark.sql.functions import col, udf

HERE = Path(__file__).parent


@udf("int")
def traced(id):
    with open(HERE / "computed.txt", "a") as out:
        out.write(f"{id}\\n")
    return id


def seen(orders):
    return orders.withColumn("id", traced(col("id")))


def large(named):
    return named.where("cents > 10")


def store(batch, batch_id):
    if batch_id == 1 and (HERE / "fails").exists():
        raise ValueError("the store is closed")
    if batch_id == 1 and (HERE / "dies").exists():
        (HERE / "dies").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    batch.count()
    batch.write.mode("overwrite").parquet(str(HERE / "large" / f"batch={batch_id}"))
"""
ORDERS: list[list[tuple[int, str, int]]] = [
    [(1, "a", 5), (2, "b", 50), (3, "x", 7)],
    [(4, "a", 500), (5, "b", -1)],
    [(6, "a", 11)],
]


def project(folder: Path) -> Path:
    for number, rows in enumerate(ORDERS):
        named = [{"id": id_, "customer": customer, "cents": cents} for id_, customer, cents in rows]
        feed(folder / "in", str(number), named, at=1_700_000_000 + number)
    with (folder / "in" / "1.json").open("a") as out:
        out.write("not json\n")
    os.utime(folder / "in" / "1.json", (1_700_000_001, 1_700_000_001))
    feed(folder / "names", "1", [{"customer": "a", "name": "Ann"}, {"customer": "b", "name": "Bob"}])
    write(folder, CODE, "code.py")
    return write(folder, PIPELINE)


def table(folder: Path, name: str, database: str = "shop.db") -> Counter[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / database)) as connection:
        return Counter(connection.execute(f"SELECT * FROM {name}").fetchall())


def ledger(folder: Path) -> dict[str, int]:
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        found = connection.execute("SELECT sink, batch_id FROM headwater_ledger").fetchall()
    assert len(found) == len(dict(found))
    return dict(found)


def expected(count: int) -> dict[str, Counter[tuple[Any, ...]]]:
    """What each sink contains after that many batches."""
    orders = [(batch, *row) for batch, rows in enumerate(ORDERS[:count]) for row in rows]
    names = {"a": "Ann", "b": "Bob"}
    named = [(b, id_, cents, names[c]) for b, id_, c, cents in orders if c in names and cents > 0]
    return {
        "all": Counter((id_, customer, cents) for _, id_, customer, cents in orders),
        "kept": Counter((id_, cents, batch, customer) for batch, id_, customer, cents in orders),
        "named": Counter((id_, cents, name) for _, id_, cents, name in named),
        "large": Counter((id_, cents, name, batch) for batch, id_, cents, name in named if cents > 10),
    }


def written(spark: SparkSession, folder: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    return {
        "all": table(folder, "orders"),
        "kept": rows_of(spark, folder / "kept", "json", "id int, cents int"),
        "named": table(folder, "named"),
        "large": rows_of(spark, folder / "large", "parquet"),
    }


def computed(folder: Path) -> Counter[int]:
    return Counter(map(int, (folder / "computed.txt").read_text().split()))


@pytest.mark.feature("D5.2")
def test_a_failing_sink_fails_the_batch_and_the_others_are_no_ops_on_the_retry(
    context: SparkContext, spark: SparkSession, tmp_path: Path
) -> None:
    file, events = project(tmp_path), list[Event]()
    (tmp_path / "fails").touch()
    result = run_until_idle(file, events)
    # The error names the sink and the user's line, not only the group.
    problem = result.queries["shop"].problem
    assert problem is not None
    assert (problem.code, problem.params["sink"]) == ("HW-QUERY-CODE-FAILED", "large")
    assert (problem.file, problem.place and problem.place.line) == (str(tmp_path / "code.py"), 28)
    found = written(spark, tmp_path)
    assert {name: found[name] for name in ("all", "kept", "named")} == {
        name: expected(2)[name] for name in ("all", "kept", "named")
    }
    assert found["large"] == expected(1)["large"]
    assert ledger(tmp_path) == {"all": 1, "named": 1}

    (tmp_path / "fails").unlink()
    assert run_until_idle(file, events).exit_code == 0
    assert written(spark, tmp_path) == expected(3)
    assert ledger(tmp_path) == {"all": 2, "named": 2}
    # Each attempt of a batch has read and computed each row once, for four sinks.
    assert computed(tmp_path) == Counter({1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 1})
    progress = batches(events, "shop")
    assert [(each.batch_id, each.rows_in, each.rows_out) for each in progress] == [
        (0, 3, 3),
        (1, 3, 2),
        (2, 1, 1),
    ]
    sources = [each.source_counts["orders"].to_json() for each in progress]
    assert sources[1] == {"read": 3, "good": 2, "bad": 1}
    named = [each.table_counts["named"].to_json() for each in progress]
    assert named == [
        {"rows": 2, "failed": {"small": 0, "priced": 0}},
        {"rows": 2, "failed": {"small": 1, "priced": 1}},
        {"rows": 1, "failed": {"small": 0, "priced": 0}},
    ]
    started = next(each for each in events if isinstance(each, RunStarted))
    assert started.queries == ("shop",)
    assert started.details["shop"].guarantee == "at-least-once"
    assert started.details["shop"].connector == "sqlite, files, foreach_batch"
    assert not list((tmp_path / "kept").glob("_headwater_staging/*"))
    # As `headwater sql` reads it.
    kept, side = next(each for each in hw.load(file).spec().sinks if each.name == "kept"), sink_side("files")
    assert isinstance(side, ReadsBack)
    schema = schema_of(spark, "customer string, id int, cents int")
    back = side.read_back(spark, kept.options, schema).collect()
    assert Counter(map(tuple, back)) == Counter((c, i, n) for i, n, _, c in expected(3)["kept"].elements())
    assert context._jsc.getPersistentRDDs().size() == 0


@pytest.mark.feature("D5.2", part="killed between the commits of two sinks")
@pytest.mark.feature("H1.1", part="a sink group: the process is killed between the commits of its sinks")
def test_killed_between_the_commits_of_two_sinks(
    context: SparkContext, spark: SparkSession, tmp_path: Path
) -> None:
    file = project(tmp_path)
    (tmp_path / "dies").touch()
    with headwater(tmp_path, "run", "pipeline.yml", "--until-idle", "--json") as killed:
        killed.until(lambda: not (tmp_path / "dies").exists())
        os.kill(jvm_of(tmp_path, "shop").pid, signal.SIGKILL)
        assert killed.wait() != 0
    assert table(tmp_path, "orders") == expected(2)["all"]
    assert ledger(tmp_path) == {"all": 1, "named": 1}
    assert run_until_idle(file).exit_code == 0
    assert written(spark, tmp_path) == expected(3)
    assert ledger(tmp_path) == {"all": 2, "named": 2}


STATEFUL = """
name: totals
sources:
  orders: {connector: files, path: in, format: json, schema: {customer: string, cents: int}, max_files_per_batch: 1}
tables:
  totals: SELECT customer, sum(cents) AS cents FROM orders GROUP BY customer
  debts: SELECT customer, -cents AS owes FROM totals WHERE cents < 0
sinks:
  totals: {reads: totals, mode: update, connector: sqlite, path: shop.db, into: totals, key: customer, group: g}
  debts: {reads: debts, mode: update, connector: sqlite, path: shop.db, into: debts, key: customer, group: g}
"""


@pytest.mark.feature("D5.2", part="a stateful table, and a batch that every sink has")
def test_a_batch_that_every_sink_has_still_updates_the_state(context: SparkContext, tmp_path: Path) -> None:
    feed(
        tmp_path / "in",
        "1",
        [{"customer": "a", "cents": 5}, {"customer": "b", "cents": -3}],
        at=1_700_000_001,
    )
    feed(tmp_path / "in", "2", [{"customer": "a", "cents": -9}], at=1_700_000_002)
    file = write(tmp_path, STATEFUL)
    assert run_until_idle(file).exit_code == 0
    for name in ("1", ".1.crc"):
        (tmp_path / ".headwater/checkpoints/g/commits" / name).unlink(missing_ok=True)
    feed(
        tmp_path / "in", "3", [{"customer": "a", "cents": 1}, {"customer": "c", "cents": 1}], at=1_700_000_003
    )
    assert run_until_idle(file).exit_code == 0
    assert table(tmp_path, "totals") == Counter([("a", -3), ("b", -3), ("c", 1)])
    assert table(tmp_path, "debts") == Counter([("a", 3), ("b", 3)])
    assert ledger(tmp_path) == {"totals": 2, "debts": 2}


LINES = """
name: lines
sources:
  lines: {{connector: socket, host: {host}, port: {port}}}
tables:
  long: SELECT upper(value) AS value FROM lines WHERE length(value) > 3
sinks:
  lines: {{reads: lines, connector: sqlite, path: lines.db, into: lines, group: lines_twice}}
  long: {{reads: long, connector: sqlite, path: lines.db, into: long, group: lines_twice}}
"""


@pytest.mark.feature("D5.2", part="a source that is not replayable")
@pytest.mark.feature("B9.2", part="a source that is not replayable with two grouped sinks")
def test_two_sinks_of_a_source_that_delivers_each_row_once(context: SparkContext, tmp_path: Path) -> None:
    with LineServer() as server:
        file = write(tmp_path, LINES.format(host=HOST, port=server.port))
        assert [each.problem.code for each in check(file).findings] == ["HW-SOURCE-NOT-REPLAYABLE"]
        running = start(hw.load(file).spec(), RunOptions(), lambda event: None, lambda line: None)
        with running:
            for number, line in enumerate(("one", "three", "seven"), start=1):
                server.send(line)
                wait_for(lambda number=number: _read(running) >= number, running)  # type: ignore[misc]
        running.raise_for_failure()
    assert table(tmp_path, "lines", "lines.db") == Counter([("one",), ("three",), ("seven",)])
    assert table(tmp_path, "long", "lines.db") == Counter([("THREE",), ("SEVEN",)])


def _read(run: Run) -> int:
    return run.queries["lines_twice"].rows_in or 0


WRONG = """
name: wrong
sources:
  orders: {connector: files, path: in, format: json, schema: {id: int, cents: int, at: timestamp}}
  clicks: {connector: rate}
tables:
  total: SELECT sum(cents) AS cents FROM orders
  now: SELECT id, current_timestamp() AS now FROM orders
  once: {reads: orders, deduplicate: id}
  paid: {sql: SELECT * FROM orders, expect: {paid: {condition: cents > 0, on_violation: quarantine}}}
  places: SELECT _metadata.file_path AS path, id FROM orders
  joined: SELECT a.id FROM orders a JOIN orders b ON a.id = b.id
sinks:
  a1: {reads: orders, connector: noop, group: a, mode: update}
  a2: {reads: total, connector: noop, group: a, mode: update}
  b1: {reads: orders, connector: noop, group: b}
  b2: {reads: now, connector: noop, group: b}
  b3: {reads: once, connector: noop, group: b}
  b4: {reads: paid, connector: noop, group: b}
  b5: {reads: places, connector: noop, group: b}
  b6: {reads: joined, connector: noop, group: b}
  c1: {reads: orders, connector: noop, group: c}
  c2: {reads: clicks, connector: noop, group: c}
  d1: {reads: total, connector: noop, group: d, mode: complete}
  d2: {reads: total, connector: console, group: d, mode: complete}
"""


@pytest.mark.feature("D5.2", part="what one query cannot compute is rejected before the start")
def test_rejected_before_the_start(context: SparkContext, tmp_path: Path) -> None:
    feed(tmp_path / "in", "1", [{"id": 1}])
    result = check(write(tmp_path, WRONG))
    found = {(each.sink, each.problem.code, each.problem.params.get("name")) for each in result.errors}
    assert found == {
        ("a2", "HW-GROUP-BRANCH-STATEFUL", "total"),
        ("b2", "HW-GROUP-BRANCH-CLOCK", "now"),
        ("b3", "HW-GROUP-BRANCH-STATEFUL", "once"),
        ("b4", "HW-GROUP-BRANCH-QUARANTINE", "paid"),
        ("b5", "HW-GROUP-BRANCH-METADATA", "places"),
        ("b6", "HW-GROUP-BRANCH-STATEFUL", "joined"),
        ("c1", "HW-GROUP-TABLES-UNRELATED", None),
    }
    guarantees = {each.name: each.outline.guarantee.level.value for each in result.sinks if each.outline}
    assert (guarantees["d1"], guarantees["d2"]) == ("exactly-once", "at-least-once")


CHANGING = """
name: changing
sources:
  orders: {connector: files, path: in, format: json, schema: {id: int}}
sinks:
"""
ALONE = "  kept: {reads: orders, connector: files, path: kept, format: json}\n"
DATABASE = "  table: {reads: orders, connector: sqlite, path: shop.db, into: orders, group: g}\n"


def codes(file: Path, *sinks: str) -> list[tuple[str, str]]:
    """The findings of a check with these sinks."""
    write(file.parent, CHANGING + "".join(sinks), file.name)
    return sorted((each.problem.code, each.severity.value) for each in check(file).findings)


@pytest.mark.feature("D5.2", part="sinks that join and leave a group are checked before the start")
def test_changes_of_a_group_on_existing_checkpoints(
    context: SparkContext, spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path / "in", "1", [{"id": 1}])
    file, grouped = tmp_path / "pipeline.yml", ALONE.replace("json}", "json, group: g}")
    assert codes(file, ALONE) == []
    run_until_idle(file)
    # The group has a new checkpoint, and Spark readers of the directory would not see what it writes.
    changed = ("HW-GROUP-QUERY-CHANGED", "error")
    assert codes(file, grouped) == [("HW-FILES-GROUP-CONFLICT", "error"), changed]
    elsewhere = grouped.replace(
        "path: kept", "path: elsewhere, suppress: {HW-GROUP-QUERY-CHANGED: read again}"
    )
    assert codes(file, elsewhere) == [changed]
    assert run_until_idle(file).exit_code == 0
    assert rows_of(spark, tmp_path / "elsewhere") == Counter([(1, 0)])
    elsewhere = grouped.replace("path: kept", "path: elsewhere")
    assert codes(file, elsewhere) == []

    # A sink that is added starts at the offset of the group.
    assert codes(file, elsewhere, DATABASE) == [("HW-GROUP-SINK-ADDED", "warning")]
    feed(tmp_path / "in", "2", [{"id": 2}])
    assert run_until_idle(file).exit_code == 0
    assert rows_of(spark, tmp_path / "elsewhere") == Counter([(1, 0), (2, 1)])
    assert table(tmp_path, "orders") == Counter([(2,)])
    assert codes(file, elsewhere, DATABASE) == []

    # A sink that leaves the group, alone and with the other one.
    left = DATABASE.replace(", group: g", "")
    assert codes(file, elsewhere, left) == [("HW-DATABASE-LEDGER-FOREIGN", "error"), changed]
    assert codes(file, DATABASE) == []
    back = ALONE.replace("path: kept", "path: elsewhere")
    # Its own checkpoint is that of another directory.
    moved = ("HW-SINK-OPTION-CHANGED", "error")
    assert codes(file, back, DATABASE) == [("HW-FILES-GROUP-CONFLICT", "error"), changed, moved]

    # Without its checkpoint, the batches of the group would be replaced by others.
    assert codes(file, elsewhere) == []
    shutil.rmtree(tmp_path / ".headwater")
    assert codes(file, elsewhere) == [("HW-FILES-GROUP-FOREIGN", "error")]


@pytest.mark.feature("D5.2", part="run --batch computes the common table once")
def test_a_suspended_run_does_not_replace_the_files_of_its_successor(
    spark: SparkSession, tmp_path: Path
) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text('{"id":"0b9c1f4e-7a35-4b0e-8f65-2d8b9d5f6a01"}')
    options = FilesSink(path=str(out), format="json")

    def run(epoch: int) -> BatchWriter:
        unused: Any = None
        of_sink = (unused, tmp_path, unused, unused, unused, lambda *keys: None, False)
        context = Context("kept", *of_sink, checkpoint=checkpoint, epoch=epoch, group="shop")
        return files.batch_writer(options, context)

    def stored() -> Counter[tuple[int, int]]:
        return Counter((row.id, row.batch) for row in spark.read.json(str(out)).collect())

    suspended, successor = run(1), run(2)
    suspended(spark.range(3), 0)
    # It is suspended while it writes batch 1; its successor writes this batch.
    successor(spark.range(3, 5), 1)
    with pytest.raises(PipelineError, match="HW-FILES-GROUP-SUPERSEDED"):
        suspended(spark.range(9), 1)
    # The same run retries a batch, and the next one replaces it.
    successor(spark.range(3, 6), 1)
    run(3)(spark.range(3, 5), 1)
    assert stored() == Counter([(0, 0), (1, 0), (2, 0), (3, 1), (4, 1)])
    records = (name for name in os.listdir(out / "_headwater") if not name.startswith("."))
    assert sorted(records) == ["epoch-3", "query-0b9c1f4e-7a35-4b0e-8f65-2d8b9d5f6a01"]
    # An earlier attempt stays if the new one cannot take its place.
    shutil.rmtree(out / "_headwater_staging")
    with pytest.raises(Py4JJavaError, match="missing does not exist"):
        files.replace_batch(spark, options, 1, "_headwater_staging/missing")
    assert stored() == Counter([(0, 0), (1, 0), (2, 0), (3, 1), (4, 1)])


def test_a_batch_run(context: SparkContext, spark: SparkSession, tmp_path: Path) -> None:
    project(tmp_path)
    text = PIPELINE.replace("connector: sqlite, path: shop.db, into: orders", "connector: noop")
    text = text.replace(
        "connector: sqlite, path: shop.db, into: named", "connector: files, path: n, format: json"
    )
    run_as_batch(write(tmp_path, text), tmp_path / "out")
    assert computed(tmp_path) == Counter(range(1, 7))
    assert (
        rows_of(spark, tmp_path / "out" / "named", "json", "id int, cents int, name string")
        == expected(3)["named"]
    )
    kept = Counter((id_, cents, customer) for (id_, cents, _, customer) in expected(3)["kept"].elements())
    assert rows_of(spark, tmp_path / "out" / "kept", "json", "id int, cents int") == kept
    assert context._jsc.getPersistentRDDs().size() == 0


@pytest.mark.feature("D5.2", part="plain PySpark")
@pytest.mark.feature("L3", part="several sinks of one query")
def test_a_group_in_plain_pyspark(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path / "in", "1", [{"id": 1}, {"id": 2}])
    seen: list[tuple[int, list[int]]] = []

    def collected(batch: DataFrame, batch_id: int) -> None:
        seen.append((batch_id, sorted(row.id for row in batch.collect())))

    def sink(name: str) -> Any:
        return hw.sinks.sqlite(path=str(tmp_path / "shop.db"), into=name)

    rows = spark.readStream.schema("id int").json(str(tmp_path / "in"))
    writer = rows.writeStream.foreachBatch(hw.sinks.group(sink("one"), sink("two"), collected))
    query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert [each["numInputRows"] for each in query.recentProgress] == [2]
    assert table(tmp_path, "one") == table(tmp_path, "two") == Counter([(1,), (2,)])
    assert seen == [(0, [1, 2])]
    with pytest.raises(UsageError) as error:
        hw.sinks.group()
    assert error.value.problems[0].code == "HW-DATABASE-SINK-INVALID"
