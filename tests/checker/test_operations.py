"""What a stream can't do: each told once, at the user's line, with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from headwater.api.check import check
from headwater.checks import Finding
from tests.pipelines import write

PIPELINE = """
name: refused
sources:
  events: {connector: files, path: in, format: json, schema: {at: timestamp, word: string, n: int}}
  words: {connector: files, path: words, format: json, schema: {word: string}, static: true}
tables:
  sorted: |
    SELECT *
    FROM events
    ORDER BY n
  passed: SELECT * FROM events OFFSET 2
  few: SELECT * FROM events LIMIT 2
  users: |
    SELECT
      count(DISTINCT word) AS words
    FROM events
  ranked: SELECT word, row_number() OVER (PARTITION BY word ORDER BY at) AS r FROM events
  both: SELECT word FROM events INTERSECT SELECT word FROM words
  known: |
    SELECT word FROM events
    WHERE word IN (SELECT word FROM events)
  more: SELECT word FROM events UNION ALL SELECT word FROM words
  kept: SELECT * FROM words LEFT JOIN events USING (word)
  counts: SELECT word, count(*) AS c FROM events GROUP BY word
  counted: SELECT c, count(*) AS words FROM counts GROUP BY c
sinks:
  sorted: {reads: sorted, connector: noop}
  passed: {reads: passed, connector: noop}
  few: {reads: few, connector: noop, mode: update}
  users: {reads: users, connector: noop, mode: complete}
  ranked: {reads: ranked, connector: noop}
  both: {reads: both, connector: noop}
  known: {reads: known, connector: noop}
  more: {reads: more, connector: noop}
  kept: {reads: kept, connector: noop}
  counts: {reads: counts, connector: noop}
  counted: {reads: counted, connector: noop, mode: update}
  events: {reads: events, connector: noop, mode: complete}
""".lstrip()
TOLD = {
    "sorted": ("HW-SORT-UNSUPPORTED", "sorted", 3),
    "passed": ("HW-OFFSET-UNSUPPORTED", "passed", 1),
    "few": ("HW-LIMIT-MODE-UNSUPPORTED", "few", 1),
    "users": ("HW-DISTINCT-AGGREGATE-UNSUPPORTED", "users", 1),
    "ranked": ("HW-WINDOW-FUNCTION-UNSUPPORTED", "ranked", 1),
    "both": ("HW-INTERSECT-UNSUPPORTED", "both", 1),
    "known": ("HW-SUBQUERY-UNSUPPORTED", "known", 1),
    "more": ("HW-UNION-STATIC-UNSUPPORTED", "more", 1),
    "kept": ("HW-STATIC-OUTER-JOIN-UNSUPPORTED", "kept", 1),
    "counts": ("HW-APPEND-NEEDS-WATERMARK", "counts", 1),
    "counted": ("HW-CHAINED-AGGREGATION", "counted", 1),
    "events": ("HW-COMPLETE-NEEDS-AGGREGATION", "", 0),
}


@pytest.fixture
def folder(context: SparkContext, tmp_path: Path) -> Path:
    for name in ("in", "words"):
        (tmp_path / name).mkdir()
    return tmp_path


def line_of(table: str, offset: int) -> int:
    """The line of a table's declaration and so many lines on; without one that of the sink `events`."""
    key = f"  {table}: " if table else "  events: {reads"
    lines = PIPELINE.split("\n")
    first = next(number for number, line in enumerate(lines, 1) if line.startswith(key))
    # A text in one line with its key stands in the line of that.
    return first + (offset if lines[first - 1].endswith("|") else 0)


def errors(file: Path) -> list[Finding]:
    return [finding for finding in check(file).findings if finding.is_error]


@pytest.mark.feature("C14.1")
def test_each_is_told_once_at_its_line_with_what_to_write_instead(folder: Path) -> None:
    found = errors(write(folder, PIPELINE))

    lines = {sink: line_of(table, offset) for sink, (_, table, offset) in TOLD.items()}
    told = {each.sink: (each.problem.code, each.problem.place and each.problem.place.line) for each in found}
    assert told == {sink: (code, lines[sink]) for sink, (code, _, _) in TOLD.items()}
    assert len(found) == len(TOLD)
    # One sentence, and one or more that say what to write.
    assert all(each.problem.message.count(". ") == 0 and each.problem.hint for each in found)


WAYS_AROUND = """
name: distinct
sources:
  events: {connector: files, path: in, format: json, schema: {at: timestamp, word: string, n: int}}
tables:
  exact: SELECT count(DISTINCT word) AS words FROM events
  estimate: SELECT approx_count_distinct(word) AS words FROM events
  as_set: SELECT size(collect_set(word)) AS words FROM events
  once: {reads: events, deduplicate: [word]}
  after: SELECT count(word) AS words FROM once
sinks:
  exact: {reads: exact, connector: noop, mode: complete}
  estimate: {reads: estimate, connector: noop, mode: complete}
  as_set: {reads: as_set, connector: noop, mode: complete}
  after: {reads: after, connector: noop, mode: complete}
"""


@pytest.mark.feature("C2.2")
def test_exact_distinct_counts_are_refused_with_ways_around_that_are_taken(folder: Path) -> None:
    """That each way gives the right number is shown by the cases of the matrix."""
    (finding,) = errors(write(folder, WAYS_AROUND))
    assert (finding.sink, finding.problem.code) == ("exact", "HW-DISTINCT-AGGREGATE-UNSUPPORTED")
    ways = ("approx_count_distinct(word)", "size(collect_set(word))", "deduplicate: [word]", "dropDuplicates")
    assert [way for way in ways if way not in finding.problem.hint] == []


FUNCTIONS = """
import pandas as pd
import pyarrow as pa
from pyspark.sql.functions import arrow_udf, pandas_udf


@pandas_udf("double")
def middle(n: pd.Series) -> float:
    return n.median()


@arrow_udf("double")
def largest(n: pa.Array) -> float:
    return max(n.to_pylist())


def medians(events):
    return events.groupBy("word").agg(middle("n"))


def maxima(events):
    return events.groupBy("word").agg(largest("n"))


def summed(events):
    return events.groupBy("word").applyInPandas(lambda frame: frame[["word"]].head(1), "word string")
"""
GROUPED = """
name: grouped
sources:
  events: {connector: files, path: in, format: json, schema: {at: timestamp, word: string, n: int}}
tables:
  medians: {python: "tables.py:medians"}
  maxima: {python: "tables.py:maxima"}
  summed: {python: "tables.py:summed"}
sinks:
  medians: {reads: medians, connector: noop, mode: update}
  maxima: {reads: maxima, connector: noop, mode: complete}
  summed: {reads: summed, connector: noop}
"""


@pytest.mark.feature("C2.3")
def test_aggregates_of_python_are_refused_before_the_start(folder: Path) -> None:
    write(folder, FUNCTIONS, "tables.py")
    found = [each for each in errors(write(folder, GROUPED)) if each.sink != "summed"]
    told = {each.sink: (each.problem.code, each.problem.params["form"]) for each in found}
    assert told == {
        "medians": ("HW-PYTHON-AGGREGATE-UNSUPPORTED", "pandas"),
        "maxima": ("HW-PYTHON-AGGREGATE-UNSUPPORTED", "arrow"),
    }
    assert all("transformWithState" in each.problem.hint for each in found)


@pytest.mark.feature("C2.4")
def test_groups_of_one_batch_need_an_accept(folder: Path) -> None:
    write(folder, FUNCTIONS, "tables.py")
    (finding,) = [each for each in errors(write(folder, GROUPED)) if each.sink == "summed"]
    assert (finding.problem.code, finding.problem.params["call"]) == (
        "HW-GROUPS-SPLIT-BY-BATCH",
        "applyInPandas",
    )
    suppressing = GROUPED.replace(
        '"tables.py:summed"}',
        '"tables.py:summed", suppress: {HW-GROUPS-SPLIT-BY-BATCH: only new words matter}}',
    )
    found = check(write(folder, suppressing)).findings
    (finding,) = [each for each in found if each.sink == "summed"]
    assert (finding.is_error, finding.suppressed) == (False, "only new words matter")
