"""Tables in the memory of the run, queried from the same process while it goes on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.api.batch import run_batch
from headwater.api.check import check
from headwater.errors import HeadwaterError, PipelineError
from headwater.events import Event, Notice
from headwater.runtime import RunOptions
from tests.pipelines import batches, feed, run_until_idle, write

# A query that has nothing to do looks for files every 10 ms; the others need the two cores more.
CONF = {"spark.sql.streaming.pollingDelay": "100ms"}
COUNTS = "SELECT word, count(*) AS n FROM words GROUP BY word"


def pipeline(folder: Path) -> hw.Pipeline:
    p = hw.Pipeline("words", run_dir=folder / "run")
    p.source("words", hw.files(path=str(folder / "in"), format="json", schema="word string"))
    p.source(
        "lengths",
        hw.files(path=str(folder / "lengths"), format="json", schema="word string, size int"),
        static=True,
    )
    p.table("counts", sql=COUNTS)
    p.table("sized", sql="SELECT word, size FROM words LEFT JOIN lengths USING (word)")
    p.sink("words", hw.memory(), reads="sized")
    p.sink("changed", hw.memory(), reads="counts", mode="update")
    p.sink("counts", hw.memory(), reads="counts", mode="complete")
    return p


def rows(run: hw.Run, sql: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in run.sql(sql).collect())


def words(*texts: str) -> list[dict[str, str]]:
    return [{"word": text} for text in texts]


@pytest.mark.feature("D6", part="memory, queried in the same process, started twice")
def test_tables_are_queried_while_the_stream_runs_and_a_second_start_begins_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path / "in", "1", words("ant", "bee", "ant"), at=1000)
    feed(tmp_path / "lengths", "1", [{"word": "bee", "size": 3}])
    p, ids = pipeline(tmp_path), dict[str, str]()
    with p.start(conf=CONF) as run:
        assert run.wait_idle(60)
        # The sink's rows, not the source of the same name.
        assert rows(run, "SELECT * FROM words") == Counter({("ant", None): 2, ("bee", 3): 1})
        assert rows(run, "SELECT word, n FROM counts") == Counter([("ant", 2), ("bee", 1)])
        assert rows(run, "SELECT word, n FROM changed") == Counter([("ant", 2), ("bee", 1)])
        feed(tmp_path / "in", "2", words("bee"), at=1001)
        assert run.wait_idle(60)
        assert rows(run, "SELECT * FROM words") == Counter({("ant", None): 2, ("bee", 3): 2})
        assert rows(run, "SELECT word, n FROM counts") == Counter([("ant", 2), ("bee", 2)])
        # Update mode adds the rows that have changed to those that it had.
        assert rows(run, "SELECT word, n FROM changed") == Counter([("ant", 2), ("bee", 1), ("bee", 2)])
        assert rows(run, "SELECT n, size FROM counts JOIN lengths USING (word)") == Counter([(2, 3)])
        with pytest.raises(HeadwaterError) as caught:
            run.sql("SELECT * FROM cuonts")
        assert [problem.code for problem in caught.value.problems] == ["HW-RUN-SQL-INVALID"]
        assert caught.value.problems[0].params["tables"] == "words, changed, counts"
        ids = {name: query.id for name, query in run.queries.items()}
    run.raise_for_failure()
    # What was there when it stopped can still be looked at.
    assert rows(run, "SELECT max(n) FROM counts") == Counter([(2,)])

    feed(tmp_path / "in", "3", words("cat"), at=1002)
    events = list[Event]()
    with p.start(conf=CONF, on_event=events.append) as again:
        assert again.wait_idle(60)
        assert rows(again, "SELECT * FROM words") == Counter(
            {("ant", None): 2, ("bee", 3): 2, ("cat", None): 1}
        )
        assert rows(again, "SELECT word, n FROM counts") == Counter([("ant", 2), ("bee", 2), ("cat", 1)])
        assert {name: query.id for name, query in again.queries.items()} == ids
        assert sum(batch.rows_in for batch in batches(events, "words")) == 5
    again.raise_for_failure()
    said = [event.text.partition(":")[0] for event in events if isinstance(event, Notice)]
    assert said == ["words", "changed", "counts"]
    assert rows(run, "SELECT max(n) FROM counts") == Counter([(2,)])


YAML = """
name: words
sources:
  words: {connector: files, path: in, format: json, schema: {word: string}}
sinks:
  kept: {reads: words, connector: memory}
"""


@pytest.mark.feature("D6", part="in a run of the command")
def test_it_runs_from_the_command_line(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path / "in", "1", words("ant"))
    file = write(tmp_path, YAML)
    assert check(file).findings == ()
    result = run_until_idle(file)
    assert (result.exit_code, result.queries["kept"].rows_out) == (0, 1)
    with pytest.raises(PipelineError) as caught:
        run_batch(file, RunOptions(), into=tmp_path / "results", stdout=lambda line: None)
    assert [(each.code, each.params["name"]) for each in caught.value.problems] == [
        ("HW-BATCH-UNSUPPORTED", "kept")
    ]

    # Its checkpoint is nothing that a sink of another kind can go on from; and the other way round.
    files = write(tmp_path, YAML.replace("memory", "files, path: out, format: json"))
    (refused,) = check(files).errors
    assert (refused.problem.code, refused.problem.params["old"]) == ("HW-SINK-CONNECTOR-CHANGED", "`memory`")
    elsewhere = write(tmp_path, files.read_text() + "run_dir: other\n")
    assert run_until_idle(elsewhere).exit_code == 0
    back = write(tmp_path, YAML + "run_dir: other\n")
    (refused,) = check(back).errors
    assert (refused.problem.code, refused.problem.params["new"]) == ("HW-SINK-CONNECTOR-CHANGED", "memory")


@pytest.mark.feature("D6", part="a stream is no table to query")
def test_a_stream_cannot_be_queried(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    p = hw.Pipeline("words", run_dir=tmp_path / "run")
    p.source("words", hw.files(path=str(tmp_path / "in"), format="json", schema="word string"))
    p.sink("out", hw.memory(), reads="words")
    with p.start() as run:
        with pytest.raises(HeadwaterError) as caught:
            run.sql("SELECT * FROM words")
        assert [(each.code, each.params) for each in caught.value.problems] == [
            ("HW-RUN-SQL-STREAM-UNSUPPORTED", {"tables": "out"})
        ]
        assert run.sql("SELECT * FROM out").collect() == []
