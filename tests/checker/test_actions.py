"""Calls on a stream that need all its rows, inside a Python table: caught at the user's own line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.api.check import check
from tests.pipelines import write

ACTIONS = {
    "count()": "events.count()",
    "show()": "events.show()",
    "collect()": "events.select('word').collect()",
    "toPandas()": "events.toPandas()",
    "foreach()": "events.foreach(print)",
    "cache()": "events.cache()",
    "persist()": "events.where('n > 1').persist()",
    "take()": "events.take(3)",
    "first()": "events.first()",
    "head()": "events.head()",
    "tail()": "events.tail(1)",
    "isEmpty()": "events.isEmpty()",
    "foreachPartition()": "events.foreachPartition(print)",
    "write": "events.write.json('/nowhere')",
    "writeTo()": "events.writeTo('nowhere').create()",
    "checkpoint()": "events.checkpoint()",
    "localCheckpoint()": "events.localCheckpoint()",
    "toLocalIterator()": "next(events.toLocalIterator())",
    "toArrow()": "events.toArrow()",
    "rdd": "events.rdd.map(len)",
    "approxQuantile()": "events.approxQuantile('n', [0.5], 0.1)",
    "pandas_api()": "events.pandas_api()",
    "sql()": "spark.sql('CACHE TABLE events')",
}
# These are not run: they give tables that a stream can have, or that the rules judge.
LAZY = {"describe": "events.describe('n')", "printSchema": "events.printSchema() or events"}

PIVOT = "events.groupBy('word').pivot('n').count()"
WRITES = {
    "`writeStream.start()`": "events.writeStream.format('memory').queryName('seen').start()",
    "`writeStream.toTable()`": "events.writeStream.option('checkpointLocation', f'{OUT}/c').toTable('made')",
    "`write.json()`": "users.write.json(f'{OUT}/json')",
    "`write.save()`": "users.write.format('parquet').mode('append').save(f'{OUT}/parquet')",
    "`write.saveAsTable()`": "users.write.saveAsTable('made')",
    "`write.insertInto()`": "users.write.insertInto('made')",
    "`writeTo(…).create()`": "users.writeTo('made').create()",
    "`catalog.createTable()`": "spark.catalog.createTable('made', schema=users.schema)",
    "`rdd.saveAsTextFile()`": "users.rdd.saveAsTextFile(f'{OUT}/rows')",
    "`foreach()`": "users.foreach(lambda row: open(f'{OUT}/row', 'w'))",
    "SQL that writes": "spark.sql('CREATE TABLE made USING json AS SELECT * FROM users')",
}
"""By what is told of it."""


def name_of(action: str) -> str:
    return "on_" + action.removesuffix("()").lower()


@pytest.mark.feature("C14.2")
@pytest.mark.filterwarnings("ignore:'PYARROW_IGNORE_TIMEZONE'")
def test_an_action_on_a_stream_is_caught_at_the_users_line(context: SparkContext, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    code, lines = "", {}
    for action, call in ACTIONS.items():
        code += f"def {name_of(action)}(events, spark):\n    seen = {call}\n    return events\n\n\n"
        lines[action] = code.count("\n") - 3
    for name, call in LAZY.items():
        code += f"def {name}(events):\n    return {call}\n\n\n"
    code += f"def pivoted(events):\n    return {PIVOT}\n"
    tables = [*map(name_of, ACTIONS), *LAZY, "pivoted"]
    pipeline = "\n".join(
        [
            "name: actions",
            "sources:",
            "  events: {connector: files, path: in, format: json, schema: {word: string, n: int}}",
            "tables:",
            *(f'  {name}: {{python: "tables.py:{name}"}}' for name in tables),
            "sinks:",
            *(f"  {name}: {{reads: {name}, connector: noop, mode: update}}" for name in tables),
        ]
    )
    write(tmp_path, code, "tables.py")
    found = [each.problem for each in check(write(tmp_path, pipeline)).findings if each.is_error]

    told = {
        str(each.params.get("name")): (each.code, each.params.get("action"), each.place and each.place.line)
        for each in found
    }
    assert told == {
        # The table of a pivot is not named in its message.
        "None": ("HW-PIVOT-UNSUPPORTED", None, code.count("\n")),
        **{
            name_of(action): ("HW-TABLE-ACTION-UNSUPPORTED", f"`{action}`", lines[action])
            for action in ACTIONS
        },
    }
    assert {Path(each.place.file).name for each in found if each.place} == {"tables.py"}


@pytest.mark.feature("C14.2", part="starts and writes inside a table's function")
def test_a_write_in_a_table_is_refused_at_the_users_line(context: SparkContext, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    write(tmp_path / "users", '{"id": 1}\n', "one.json")
    code, told = f"OUT = {str(tmp_path / 'out')!r}\n\n\n", {}
    for number, (call, line) in enumerate(WRITES.items()):
        code += f"def table_{number}(events, users, spark):\n    {line}\n    return events\n\n\n"
        told[f"table_{number}"] = ("HW-TABLE-WRITE-UNSUPPORTED", call, code.count("\n") - 3)
    # What is refused is told all the same when the function goes on without.
    code += "def swallowed(events, users):\n    try:\n        users.write.csv(f'{OUT}/csv')\n"
    code += "    except Exception:\n        pass\n    return events\n"
    told["swallowed"] = ("HW-TABLE-WRITE-UNSUPPORTED", "`write.csv()`", code.count("\n") - 3)
    # To look at static rows is all right.
    code += "\n\ndef looks(events, users, spark):\n    spark.sql('SELECT 1').collect()\n"
    code += "    return events.limit(users.count())\n"
    pipeline = "\n".join(
        [
            "name: writes",
            "sources:",
            "  events: {connector: files, path: in, format: json, schema: {word: string, n: int}}",
            "  users: {connector: files, path: users, format: json, schema: {id: int}, static: true}",
            "tables:",
            *(f'  {name}: {{python: "tables.py:{name}"}}' for name in (*told, "looks")),
            "sinks:",
            *(f"  {name}: {{reads: {name}, connector: noop}}" for name in (*told, "looks")),
        ]
    )
    write(tmp_path, code, "tables.py")
    found = [each.problem for each in check(write(tmp_path, pipeline)).findings if each.is_error]

    assert {
        str(each.params.get("name")): (each.code, each.params.get("call"), each.place and each.place.line)
        for each in found
    } == told
    spark = SparkSession(context)
    assert (list((tmp_path / "out").iterdir()), spark.streams.active) == ([], [])
    assert not spark.catalog.tableExists("made")
