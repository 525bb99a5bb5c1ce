"""Calls on a stream that need all its rows, inside a Python table: caught at the user's own line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from headwater.api.checking import check
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
    "pivot()": "events.groupBy('word').pivot('n').count()",
    "pandas_api()": "events.pandas_api()",
    "sql()": "spark.sql('CACHE TABLE events')",
}
# These are not run: they give tables that a stream can have, or that the rules judge.
LAZY = {"describe": "events.describe('n')", "printSchema": "events.printSchema() or events"}


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
    tables = [*map(name_of, ACTIONS), *LAZY]
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
        name_of(action): ("HW-ACTION-ON-A-STREAM", f"`{action}`", lines[action]) for action in ACTIONS
    }
    assert {Path(each.place.file).name for each in found if each.place} == {"tables.py"}
