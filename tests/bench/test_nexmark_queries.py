"""The Nexmark queries as pipelines, and the results that plain Python expects."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.children import Batch, JobFailed, JobRun, Usage
from bench.nexmark.benchmark import Size, sample
from bench.nexmark.expected import Auctions, expected
from bench.nexmark.jobs import pipeline
from bench.nexmark.queries import QUERIES
from headwater.engine.pipeline_file import load

START = "2015-07-15T00:00:"


def bid(auction: int, bidder: int, price: int, second: float) -> dict[str, Any]:
    time = f"{START}{second:06.3f}"
    fields = {
        "auction": auction,
        "bidder": bidder,
        "price": price,
        "channel": "Apple",
        "url": "https://x/a/b/c/d",
    }
    return {"event_type": 2, "bid": {**fields, "dateTime": time, "extra": "accord"}}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_is_a_valid_pipeline(name: str, tmp_path: Path) -> None:
    query = QUERIES[name]
    (tmp_path / "events").mkdir()
    (tmp_path / "side_input.csv").touch()
    file = tmp_path / "pipeline.yml"
    file.write_text(pipeline(query, tmp_path / "events", tmp_path / "side_input.csv"))
    spec = load(file)
    assert [table.name for table in spec.tables] == [table.name for table in query.tables]
    assert [(sink.name, sink.reads, sink.mode) for sink in spec.sinks] == [("out", query.result, query.mode)]


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_reads_only_what_it_declares(name: str) -> None:
    query = QUERIES[name]
    assert ("side_input" in json.dumps([table.sql for table in query.tables])) == query.side_input
    assert (query.mode == "update") == bool(query.key)


def test_windows_that_the_watermark_has_not_passed_are_missing() -> None:
    events = Auctions([bid(1, 1, 100, 1), bid(2, 1, 300, 9), bid(2, 2, 200, 12), bid(1, 2, 100, 24)])
    assert [row[:3] for row in expected(QUERIES["q7"], events)] == [(2, 300, 1), (2, 200, 2)]
    # At watermark 20 the sliding windows that end at 2, 4, … 20 are complete.
    hot = expected(QUERIES["q5"], events)
    assert hot == Counter({(1, 1): 5, (2, 1): 3, (2, 2): 3})


def test_a_session_ends_ten_seconds_after_its_last_bid() -> None:
    times = (0, 8, 18, 29, 44)
    events = Auctions([bid(1, 1, 100, second) for second in times])
    found = [(count, end.second) for _, count, _, end in expected(QUERIES["q11"], events)]
    assert found == [(3, 28), (1, 39)]


def test_of_equal_times_the_highest_bid_is_the_last() -> None:
    events = Auctions([bid(1, 1, 100, 1), bid(1, 1, 300, 2), bid(1, 1, 200, 2), bid(1, 2, 50, 0)])
    assert Counter(row[:3] for row in expected(QUERIES["q18"], events)) == Counter([(1, 1, 300), (1, 2, 50)])


def run(batches: int, rows: int) -> JobRun:
    made = [Batch(number, rows, 500.0) for number in range(batches)] + [Batch(batches, 0, 250.0)]
    commits = {number: Usage(1.0 * number, 2.0 * number, 0, 0, 0) for number in range(batches + 1)}
    return JobRun(10.0, 20.0, "", made, commits)


def test_a_sample_counts_events_after_the_warm_up_and_all_time() -> None:
    measured = sample(run(4, 1000), QUERIES["q0"], Size(4, 1000, 1))
    assert measured.value == pytest.approx(3000 / 1.75)
    assert measured.cpu == pytest.approx(8.0)


def test_a_query_that_reads_twice_counts_each_event_once() -> None:
    measured = sample(run(4, 2000), QUERIES["q3"], Size(4, 1000, 1))
    assert measured.value == pytest.approx(3000 / 1.75)


def test_rows_that_the_parser_skips_are_not_counted() -> None:
    assert sample(run(4, 920), QUERIES["q0"], Size(4, 1000, 1)).value == pytest.approx(3000 / 1.75)


def test_a_run_that_lost_rows_fails() -> None:
    with pytest.raises(JobFailed, match="4000 rows were read, expected 8000 or 320"):
        sample(run(4, 1000), QUERIES["q3"], Size(4, 1000, 1))
