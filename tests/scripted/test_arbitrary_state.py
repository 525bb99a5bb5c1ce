"""Arbitrary state: the examples that use it, and what holds for all three of Spark's ways to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyspark
import pytest
from pyspark import SparkContext

from headwater.api.check import check
from headwater.spark.probes import reads_state_schemas
from headwater.testing.report import report
from headwater.testing.results import TestResult
from headwater.testing.test_runner import TestRunner
from tests.pipelines import write
from tests.scripted.plays import play_file, play_here

Played = Callable[[str], dict[str, TestResult]]

CALLS = """
import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

OUT = "word string, rows int"


def follow(key, frames, state):
    yield pd.DataFrame({"word": [key[0]], "rows": [sum(len(frame) for frame in frames)]})


class Rows(StatefulProcessor):
    def init(self, handle):
        pass

    def handleInputRows(self, key, rows, timerValues):
        yield Row(word=key[0], rows=sum(1 for _ in rows))


class Frames(Rows):
    def handleInputRows(self, key, rows, timerValues):
        yield pd.DataFrame({"word": [key[0]], "rows": [sum(len(frame) for frame in rows)]})


def groups(words, mode):
    return words.groupBy("word").applyInPandasWithState(follow, OUT, "rows int", mode, "NoTimeout")


def rows(words, mode):
    return words.groupBy("word").transformWithState(Rows(), OUT, mode, "none")


def frames(words, mode):
    return words.groupBy("word").transformWithStateInPandas(Frames(), OUT, mode, "none")


def groups_append(words):
    return groups(words, "append")


def rows_append(words):
    return rows(words, "append")


def frames_append(words):
    return frames(words, "append")


def groups_update(words):
    return groups(words, "update")


def rows_update(words):
    return rows(words, "update")


def frames_update(words):
    return frames(words, "update")


def behind(key, frames, state):
    by = sum(int(frame["n"].sum()) for frame in frames)
    state.setTimeoutTimestamp(max(1, state.getCurrentWatermarkMs() - by))
    state.update((0,))
    yield from ()


def timed(words):
    return words.groupBy("word").applyInPandasWithState(behind, OUT, "n int", "append", "EventTimeTimeout")
"""
APIS = ("groups", "rows", "frames")
DECLARED = """
name: calls
spark: {spark.sql.execution.arrow.maxRecordsPerBatch: "2"}
sources:
  words:
    connector: files
    path: in
    format: json
    schema: {word: string, n: long, at: timestamp}
    watermark: {column: at, delay: 0 seconds}
"""


def pipeline(tables: list[str], sinks: list[str]) -> str:
    return "\n".join([DECLARED, "tables:", *tables, "sinks:", *sinks])


def tables(mode: str) -> list[str]:
    """Each way in a mode, and an aggregation after it."""
    total = "SELECT word, count(*) AS calls, sum(rows) AS rows FROM"
    return [
        line
        for api in APIS
        for line in (
            f'  {api}_rows: {{python: "calls.py:{api}_{mode}"}}',
            f"  {api}_total: {total} {api}_rows GROUP BY word",
        )
    ]


@pytest.fixture(scope="module")
def played(player: TestRunner) -> Played:
    """The tests of an example, played once."""
    play = cache(lambda example: play_file(player, f"{example}/tests/test_{example}.yml"))

    def results(example: str) -> dict[str, TestResult]:
        if example == "user_sessions" and not reads_state_schemas():
            pytest.xfail(f"PySpark {pyspark.__version__} can't read the schema of a state that has an array")
        return play(example)

    return results


@pytest.fixture(scope="module")
def calls(player: TestRunner, tmp_path_factory: pytest.TempPathFactory) -> TestResult:
    """All three ways, with an aggregation of what each call gave; frames hold two rows at most."""
    folder = tmp_path_factory.mktemp("calls")
    write(folder, CALLS, "calls.py")
    first = "[[a, 1, 12:00], [b, 1, 12:00], [a, 2, 12:00], [a, 3, 12:00], [a, 4, 12:00], [a, 5, 12:00]]"
    expected = {"first": "[[a, 1, 5], [b, 1, 1]]", "second": "[[b, 2, 2]]"}
    every = {step: ", ".join(f"{api}: {rows}" for api in APIS) for step, rows in expected.items()}
    sinks = [f"  {api}: {{reads: {api}_total, connector: console, mode: update}}" for api in APIS]
    results = play_here(
        player,
        folder,
        pipeline(tables("append"), sinks),
        f"""
no_data_batches: false
tests:
  calls:
    - feed: {{words: {first}}}
      expect: {{{every["first"]}}}
    - feed: {{words: [[b, 2, 12:00]]}}
      expect: {{{every["second"]}}}
""",
    )
    return results["calls"]


@pytest.mark.feature("C13.6")
@pytest.mark.parametrize("example", ["user_status", "user_alerts", "user_sessions"])
def test_an_example(played: Played, example: str) -> None:
    assert all(result.passed for result in played(example).values())


@pytest.mark.feature("C13.1")
def test_one_call_for_each_key_and_batch(calls: TestResult, played: Played) -> None:
    """With all rows of the key, however many frames they come in; sorted by the examples, and kept there."""
    assert calls.passed, "\n".join(report(calls))
    assert played("user_alerts")["three failures within ten minutes, in any order of arrival"].passed
    assert played("user_sessions")["out-of-order views still form two sessions"].passed


@pytest.mark.feature("C13.2")
def test_timeouts_by_processing_time(played: Played) -> None:
    """All three ways in each of these tests; `feed u1; advance 2 hours` for each by itself."""
    results = played("user_status")
    assert [name for name, result in results.items() if result.passed] == [
        "idle after two hours",
        "idle after two hours, in pandas",
        "idle after two hours, with a timeout",
        "a new action restarts the hour",
        "after a downtime all users are idle",
        "the table has one row per user",
    ]


@pytest.mark.feature("C13.3")
def test_timeouts_by_event_time(player: TestRunner, played: Played, tmp_path: Path) -> None:
    assert played("user_alerts")["no timer fires during a downtime"].passed
    write(tmp_path, CALLS, "calls.py")
    results = play_here(
        player,
        tmp_path,
        pipeline(['  timed: {python: "calls.py:timed"}'], ["  timed: {reads: timed, connector: console}"]),
        """
tests:
  behind:
    - feed: {words: [[a, 0, 12:00]]}
      expect: {timed: []}
    - feed: {words: [[a, 0, 12:05]]}
      expect: {timed: []}
    - feed: {words: [[a, 1, 12:06]]}
      fails: INVALID_TIMEOUT_TIMESTAMP
""",
    )
    assert results["behind"].passed, "\n".join(report(results["behind"]))
    sessions = played("user_sessions")
    assert sessions["a session closes when the watermark is half an hour past its last page"].passed
    assert sessions["no session closes during a downtime"].passed


@pytest.mark.feature("C13.4")
def test_state_variables_and_timers(played: Played) -> None:
    carts = played("cart_reminders")
    assert [name for name, result in carts.items() if result.passed] == [
        "one row per product, or none",
        "viewed products expire after one hour",
        "a reminder every day until the cart is paid",
        "saved carts are available from the first batch on",
    ]


@pytest.mark.feature("C13.5")
def test_modes_of_operators(calls: TestResult, played: Played, context: SparkContext, tmp_path: Path) -> None:
    """Rows in append mode can be aggregated; changes can be neither that nor appended."""
    assert calls.passed, "\n".join(report(calls))
    assert played("user_alerts")["alerts are counted per hour"].passed
    assert played("user_status")["a new action restarts the hour"].passed
    write(tmp_path, CALLS, "calls.py")
    (tmp_path / "in").mkdir()
    sinks = [
        *(f"  {api}_counted: {{reads: {api}_total, connector: console, mode: update}}" for api in APIS),
        *(f"  {api}_added: {{reads: {api}_rows, connector: console}}" for api in APIS),
    ]
    findings = check(write(tmp_path, pipeline(tables("update"), sinks))).findings
    found = sorted((each for each in findings if each.is_error), key=lambda each: each.sink)
    names = {"groups": "applyInPandasWithState", "rows": "transformWithState"}
    names |= {"frames": "transformWithStateInPandas"}
    codes = {"counted": "HW-AGGREGATION-AFTER-UPDATE", "added": "HW-STATE-MODE"}
    assert [(each.sink, each.problem.code, each.problem.params["call"]) for each in found] == [
        (f"{api}_{sink}", codes[sink], names[api]) for api in sorted(APIS) for sink in ("added", "counted")
    ]
