"""Static sources under a running query: joins of every kind, listings that refresh, files that change."""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.api.explain import explain
from headwater.cli.render import show_explained
from headwater.connectors.files import static as static_spark
from headwater.errors import QueryFailedError
from headwater.events import Event, Notice, QueryStarted
from headwater.runtime.handles import Run
from headwater.spark.callbacks import FileIndex
from tests.pipelines import capture, captured, feed, put, run_while, wait_for, write


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


class Batches:
    """Feeds a stream one file at a time and waits for the batch that reads it."""

    def __init__(self, run: Run, folder: Path, sink: str = "out") -> None:
        self.run, self.folder, self.sink = run, folder, sink
        self.fed = 0

    def next(self, *rows: Any) -> Counter[tuple[Any, ...]]:
        """The rows that come of one more file."""
        feed(self.folder / "in", str(self.fed), rows or [{"k": 1}], at=1_700_000_000 + self.fed)
        self.fed += 1
        files = self.folder / "captured" / self.sink
        wait_for(lambda: files.exists() and len(captured(self.folder, self.sink)) == self.fed, self.run)
        return captured(self.folder, self.sink)[-1]


REFRESH = """
name: refresh
spark: {spark.sql.shuffle.partitions: 1}
sources:
  x: {connector: files, path: in, format: json, schema: {k: int}}
  never: {connector: files, path: st, format: json, schema: {k: int, v: string}, static: true}
  kept: {connector: files, path: st, format: json, schema: {k: int, v: string}, static: true, cache: true}
  each: {connector: files, path: st, format: json, schema: {k: int, v: string}, static: true,
         refresh: every batch}
  hourly: {connector: files, path: st, format: json, schema: {k: int, v: string}, static: true,
           refresh: every 1 hour}
  cached: {connector: files, path: st, format: json, schema: {k: int, v: string}, static: true,
           refresh: every 1 hour, cache: true}
tables:
  out: |
    SELECT 'never' AS how, v FROM x JOIN never USING (k)
    UNION ALL SELECT 'kept', v FROM x JOIN kept USING (k)
    UNION ALL SELECT 'each', v FROM x JOIN each USING (k)
    UNION ALL SELECT 'hourly', v FROM x JOIN hourly USING (k)
    UNION ALL SELECT 'cached', v FROM x JOIN cached USING (k)
sinks:
  out: {reads: out, connector: foreach_batch, function: "capture.py:out"}
"""


class Clock:
    """A clock that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(static_spark, "CLOCK", lambda: self.now)


def seen(rows: Counter[tuple[Any, ...]]) -> dict[str, str]:
    """What each source had, in one text."""
    found: dict[str, list[str]] = {}
    for how, value in rows.elements():
        found.setdefault(how, []).append(value)
    return {how: " ".join(sorted(values)) for how, values in found.items()}


def pins(folder: Path, source: str) -> list[str]:
    return sorted(file.name for file in (folder / ".headwater/static" / source).rglob("*.json"))


@pytest.mark.feature("C7.3")
def test_a_static_source_is_refreshed_as_it_says_and_read_once_where_it_is_kept(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock, table = Clock(monkeypatch), tmp_path / "st"
    (tmp_path / "in").mkdir()
    put(table / "1.json", lines({"k": 1, "v": "one"}))
    capture(tmp_path, "out")
    file = write(tmp_path, REFRESH)

    def steer(run: Run) -> None:
        batches = Batches(run, tmp_path)
        at_start = dict.fromkeys(("never", "kept", "each", "hourly", "cached"), "one")
        assert seen(batches.next()) == at_start

        # A file is added and one is replaced by a longer one; both would kill a query that reads in place.
        put(table / "2.json", lines({"k": 1, "v": "two"}))
        put(table / "1.json", lines({"k": 1, "v": "one, replaced by a much longer one"}))
        # What is kept needs no file any more.
        for name in ("kept", "cached"):
            shutil.rmtree(tmp_path / ".headwater/static" / name)
        changed = "one, replaced by a much longer one two"
        assert seen(batches.next()) == {**at_start, "each": changed}

        clock.now += 3_600
        due = {**at_start, "each": changed, "hourly": changed, "cached": changed}
        assert seen(batches.next()) == due
        shutil.rmtree(tmp_path / ".headwater/static/cached")
        assert seen(batches.next()) == due

        # An hour later nothing has changed; then every file goes.
        clock.now += 3_600
        assert seen(batches.next()) == due
        (table / "1.json").unlink()
        (table / "2.json").unlink()
        clock.now += 3_600
        assert seen(batches.next()) == {"never": "one", "kept": "one"}
        assert pins(tmp_path, "never") == ["1.json"]
        assert [pins(tmp_path, name) for name in ("each", "hourly", "cached")] == [[], [], []]

    events: list[Event] = []
    run_while(file, steer, events)
    assert len([event for event in events if isinstance(event, QueryStarted)]) == 1
    assert list((tmp_path / ".headwater/static").rglob("*.json")) == []

    show_explained(explain(file), plans=False)
    shown = [line for line in capsys.readouterr().out.splitlines() if "source (files)" in line]
    assert [line.partition("source (files), ")[2] for line in shown] == [
        "streaming",
        "static, refresh never",
        "static, refresh never, cached",
        "static, refresh every batch",
        "static, refresh every 1 hour",
        "static, refresh every 1 hour, cached",
    ]


FIFTY = """
name: fifty
spark: {spark.sql.shuffle.partitions: 1}
sources:
  x: {connector: files, path: in, format: json, schema: {k: int}}
  s: {connector: files, path: st, format: json, schema: {f: int, v: string}, static: true,
      refresh: every batch}
tables:
  pairs: SELECT a.f AS f, a.v AS v, b.f AS f2, b.v AS v2 FROM s a FULL JOIN s b ON a.f = b.f
  joined: SELECT pairs.* FROM x CROSS JOIN pairs
sinks:
  out: {reads: joined, connector: foreach_batch, function: "capture.py:out"}
"""
FILES = 3
REPLACED = 50


class Replacing:
    """Adds, replaces and removes files of a table in a thread, and writes down every state it was in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chance = random.Random(7)
        self.states: list[dict[int, str]] = [{}]
        for number in range(FILES):
            self.replace(number)
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        pace = threading.Event()
        for _ in range(REPLACED):
            number = self.chance.randrange(FILES)
            if self.chance.random() < 0.2 and number in self.states[-1]:
                self.remove(number)
            else:
                self.replace(number)
            pace.wait(0.08)

    def replace(self, number: int) -> None:
        version = f"{len(self.states)} " + "x" * self.chance.randrange(2_000)
        self.states.append({**self.states[-1], number: version})
        put(self.folder / f"{number}.json", lines({"f": number, "v": version}))

    def remove(self, number: int) -> None:
        self.states.append({f: version for f, version in self.states[-1].items() if f != number})
        (self.folder / f"{number}.json").unlink()

    def rows(self) -> list[Counter[tuple[Any, ...]]]:
        """What a batch would give in each state."""
        return [Counter((f, v, f, v) for f, v in state.items()) for state in self.states]


@pytest.mark.feature("C7.3", part="files replaced fifty times")
def test_files_replaced_under_a_running_join_give_each_batch_the_rows_of_one_listing(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    replacing = Replacing(tmp_path / "st")
    capture(tmp_path, "out")

    def steer(run: Run) -> None:
        batches = Batches(run, tmp_path)
        batches.next()
        replacing.thread.start()
        while replacing.thread.is_alive():
            batches.next()
        batches.next()

    events: list[Event] = []
    run_while(write(tmp_path, FIFTY), steer, events)
    found, states = captured(tmp_path, "out"), replacing.rows()
    assert len(states) == 1 + FILES + REPLACED
    reached = 0
    for rows in found:
        reached = next(number for number in range(reached, len(states)) if states[number] == rows)
    assert (states[reached], found[0]) == (states[-1], states[FILES])
    assert len([event for event in events if isinstance(event, QueryStarted)]) == 1


ELSEWHERE = """
name: elsewhere
spark: {{spark.sql.shuffle.partitions: 1}}
sources:
  x: {{connector: files, path: in, format: json, schema: {{k: int}}}}
  never: {{connector: files, path: "{place}/st", format: json, schema: {{k: int, v: string}}, static: true}}
  kept: {{connector: files, path: "{place}/kept", format: json, schema: {{k: int, v: string}}, static: true,
          refresh: every 1 hour, cache: true}}
tables:
  out: |
    SELECT 'never' AS how, v FROM x JOIN never USING (k)
    UNION ALL SELECT 'kept', v FROM x JOIN kept USING (k)
sinks:
  out: {{reads: out, connector: foreach_batch, function: "capture.py:out"}}
"""


@pytest.mark.feature("C7.3", part="files that are read in place")
def test_a_file_that_is_gone_from_another_file_system_makes_its_batch_run_again(
    context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, table, kept = Clock(monkeypatch), tmp_path / "st", tmp_path / "kept"
    hadoop: Any = context._jsc.hadoopConfiguration()
    hadoop.set(f"fs.viewfs.mounttable.{tmp_path.name}.link./data", tmp_path.as_uri())
    (tmp_path / "in").mkdir()
    for folder in (table, kept):
        put(folder / "1.json", lines({"k": 1, "v": "one"}))
    capture(tmp_path, "out")

    def steer(run: Run) -> None:
        batches = Batches(run, tmp_path)
        assert seen(batches.next()) == {"never": "one", "kept": "one"}
        for folder in (table, kept):
            put(folder / "2.json", lines({"k": 1, "v": "two"}))
            (folder / "1.json").unlink()
        assert seen(batches.next()) == {"never": "two", "kept": "one"}
        clock.now += 3_600
        assert seen(batches.next()) == {"never": "two", "kept": "two"}

    events: list[Event] = []
    place = f"viewfs://{tmp_path.name}/data"
    run_while(write(tmp_path, ELSEWHERE.format(place=place)), steer, events)
    started = [event.id for event in events if isinstance(event, QueryStarted)]
    assert len(started) == 2
    assert len(set(started)) == 1
    said = [event.text for event in events if isinstance(event, Notice)]
    assert [text for text in said if ": a file of a static source was deleted" in text] == said
    assert not (tmp_path / ".headwater/static").exists()


KINDS = """
name: kinds
spark: {spark.sql.shuffle.partitions: 1}
sources:
  x: {connector: files, path: in, format: json, schema: {k: int}}
  days: {connector: files, path: days, format: parquet, infer_schema: true, static: true,
         refresh: every batch}
  listed: {connector: files, path: [one.csv, more], format: csv, header: true, schema: {v: string},
           static: true, refresh: every batch}
  globbed: {connector: files, path: "glob/*/[ab]*.json", format: json, schema: {v: string}, static: true,
            refresh: every batch}
  texts: {connector: files, path: texts, format: text, static: true, refresh: every batch,
          options: {recursiveFileLookup: true}}
  based: {connector: files, path: "based/day=2", format: orc, schema: {v: string, day: string}, static: true,
          refresh: every batch, options: {basePath: BASE}}
  tags: {connector: files, path: tags, format: xml, row_tag: r, schema: {v: string}, static: true,
         refresh: every batch}
tables:
  all: |
    SELECT 'days' AS how, concat(v, ' ', day, ' ', typeof(day)) AS v FROM days
    UNION ALL SELECT 'listed', v FROM listed
    UNION ALL SELECT 'globbed', v FROM globbed
    UNION ALL SELECT 'texts', value FROM texts
    UNION ALL SELECT 'based', concat(v, ' ', day) FROM based
    UNION ALL SELECT 'tags', v FROM tags
  out: SELECT all.* FROM x CROSS JOIN all
sinks:
  out: {reads: out, connector: foreach_batch, function: "capture.py:out"}
"""


def columns(spark: SparkSession, format: str, folder: Path, value: str) -> None:
    """A file with one row."""
    spark.createDataFrame([(value,)], "v string").coalesce(1).write.format(format).save(str(folder))


@pytest.mark.feature("C7.3", part="every format, partition folders, several paths and globs")
def test_every_kind_of_files_is_refreshed(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    columns(spark, "parquet", tmp_path / "days/day=1", "a")
    put(tmp_path / "one.csv", "v\na\n")
    put(tmp_path / "more/1.csv", "v\nb\n")
    put(tmp_path / "glob/x y/a%20.json", lines({"v": "a"}))
    put(tmp_path / "glob/x y/c.json", lines({"v": "not this"}))
    put(tmp_path / "texts/deep/er/1.txt", "a\n")
    columns(spark, "orc", tmp_path / "based/day=2", "a")
    put(tmp_path / "tags/1.xml", "<all><r><v>a</v></r></all>")
    capture(tmp_path, "out")
    file = write(tmp_path, KINDS.replace("BASE", str(tmp_path / "based")))

    def steer(run: Run) -> None:
        batches = Batches(run, tmp_path)
        assert seen(batches.next()) == {
            "days": "a 1 int",
            "listed": "a b",
            "globbed": "a",
            "texts": "a",
            "based": "a 2",
            "tags": "a",
        }
        columns(spark, "parquet", tmp_path / "days/day=2", "b")
        # Folders of another kind are no part of the table.
        put(tmp_path / "days/hour=3/odd.parquet", "no parquet at all")
        put(tmp_path / "one.csv", "v\nchanged\n")
        put(tmp_path / "more/2.csv", "v\nc\n")
        put(tmp_path / "more/below/3.csv", "v\nnot this\n")
        put(tmp_path / "glob/z/b.json", lines({"v": "b"}))
        put(tmp_path / "texts/deep/2.txt", "b\n")
        shutil.rmtree(tmp_path / "based/day=2")
        columns(spark, "orc", tmp_path / "based/day=2", "b")
        put(tmp_path / "tags/1.xml", "<all><r><v>b</v></r></all>")
        assert seen(batches.next()) == {
            "days": "a 1 int b 2 int",
            "listed": "b c changed",
            "globbed": "a b",
            "texts": "a b",
            "based": "b 2",
            "tags": "b",
        }
        columns(spark, "parquet", tmp_path / "days/day=today", "c")
        feed(tmp_path / "in", "last", [{"k": 1}])
        assert run.wait(60)
        problem = run.queries["out"].problem
        assert problem is not None
        assert (problem.code, problem.params["name"]) == ("HW-STATIC-UNREADABLE", "days")

    with pytest.raises(QueryFailedError):
        run_while(file, steer, [])


WRITTEN_OVER = """
name: written_over
spark: {spark.sql.shuffle.partitions: 1}
sources:
  x: {connector: files, path: in, format: json, schema: {k: int}}
  lines: {connector: files, path: lines, format: text, static: true}
  kept: {connector: files, path: kept, format: text, static: true, cache: true}
  rows: {connector: files, path: rows, format: parquet, schema: {v: string}, static: true}
tables:
  out: |
    SELECT 'lines' AS how, value AS v FROM x CROSS JOIN lines
    UNION ALL SELECT 'kept', value FROM x CROSS JOIN kept
    UNION ALL SELECT 'rows', v FROM x CROSS JOIN rows
sinks:
  out: {reads: out, connector: foreach_batch, function: "capture.py:out"}
"""


def parquet(spark: SparkSession, folder: Path, value: str) -> bytes:
    """The bytes of a file with one row."""
    columns(spark, "parquet", folder, value)
    (file,) = folder.glob("*.parquet")
    return file.read_bytes()


@pytest.mark.feature("C7.3", part="files that are written over in place")
def test_a_file_that_is_written_over_is_never_read_by_its_old_listing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    for name in ("lines", "kept"):
        put(tmp_path / name / "1.txt", "one\n")
    before = " ".join(map(str, range(300)))
    long, short = parquet(spark, tmp_path / "long", before), parquet(spark, tmp_path / "short", "two")
    rows = tmp_path / "rows" / "1.parquet"
    rows.parent.mkdir()
    rows.write_bytes(long)
    capture(tmp_path, "out")
    during_a_batch: list[bytes] = []
    answered = FileIndex.listFiles

    def list_files(index: Any, *filters: Any) -> Any:
        listed = answered(index, *filters)
        if during_a_batch and index.rootPaths().mkString("").endswith("/rows"):
            rows.write_bytes(during_a_batch.pop(0))
        return listed

    monkeypatch.setattr(FileIndex, "listFiles", list_files)

    def steer(run: Run) -> None:
        batches = Batches(run, tmp_path)
        assert seen(batches.next()) == {"lines": "one", "kept": "one", "rows": before}
        # The links share these bytes: by the old listing a batch would read them up to the old length.
        for name in ("lines", "kept"):
            (tmp_path / name / "1.txt").write_text("one\ntwo\nthree\n")
        assert seen(batches.next()) == {"lines": "one three two", "kept": "one three two", "rows": before}
        # A batch meets the file half written, and the writer is done when it runs again.
        during_a_batch.extend((short[:100], short))
        assert seen(batches.next())["rows"] == "two"

    events: list[Event] = []
    run_while(write(tmp_path, WRITTEN_OVER), steer, events)
    assert during_a_batch == []
    assert len([event for event in events if isinstance(event, QueryStarted)]) == 2
    said = [event.text for event in events if isinstance(event, Notice)]
    told = [text for text in said if text.startswith("HW-STATIC-FILE-OVERWRITTEN")]
    assert len(told) == 2
    assert all(str(tmp_path / name / "1.txt") in " ".join(told) for name in ("lines", "kept"))
    assert len([text for text in said if ": a file of a static source was" in text]) == 1


def test_java_says_in_several_ways_that_a_file_is_missing(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    missing = jvm.java.io.FileNotFoundException("gone")

    def is_missing(cause: Any) -> bool:
        with pytest.raises(Py4JJavaError) as failed:
            jvm.java.util.concurrent.CompletableFuture.failedFuture(cause).get()
        return static_spark.is_about_a_missing_file(failed.value)

    assert is_missing(missing)
    assert is_missing(jvm.java.lang.RuntimeException("listing failed", missing))
    assert not is_missing(jvm.java.io.IOException("no route to host"))
