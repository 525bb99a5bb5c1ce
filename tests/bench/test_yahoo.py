"""The events of the Yahoo streaming benchmark, and the counts that every variant must return."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bench.children import Batch, JobFailed, JobRun, Usage
from bench.yahoo import Size, compare, make_ads, make_events, pipeline, sample
from headwater.engine.pipeline_file import load

SIZE = Size(20_000, 5_000, 1)


def test_the_counts_are_the_views_per_campaign_and_window(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    ads = make_ads(random)
    ads.write(tmp_path / "ads.csv")
    campaigns = dict(line.split(",") for line in (tmp_path / "ads.csv").read_text().splitlines())
    lines, counts = make_events(SIZE, ads, random)
    events = [json.loads(line) for line in lines]
    assert len(events) == SIZE.events
    assert [event["event_time"] for event in events] == sorted(event["event_time"] for event in events)
    views = [event for event in events if event["event_type"] == "view"]
    assert len(views) == pytest.approx(SIZE.events / 3, rel=0.05)
    found = Counter((campaigns[e["ad_id"]], int(e["event_time"]) // 10_000 * 10_000) for e in views)
    assert found == counts


def test_equal_seeds_give_equal_events() -> None:
    first, second = (
        make_events(SIZE, make_ads(random), random) for random in map(np.random.default_rng, (1, 1))
    )
    assert first == second


def test_the_job_is_a_valid_pipeline(tmp_path: Path) -> None:
    (tmp_path / "ads.csv").touch()
    file = tmp_path / "pipeline.yml"
    file.write_text(pipeline("localhost:9092", str(tmp_path / "ads.csv"), "counts", 100))
    assert [sink.mode for sink in load(file).sinks] == ["update"]


def test_wrong_counts_end_the_benchmark() -> None:
    counts = Counter({("a", 0): 3, ("b", 0): 1})
    compare(Counter(counts), counts)
    with pytest.raises(JobFailed, match="1 counts are wrong"):
        compare(Counter({("a", 0): 3}), counts)


def test_a_run_that_lost_events_fails() -> None:
    batches = [Batch(number, 5_000, 500.0) for number in range(4)]
    commits = {number: Usage(1.0 * number, 2.0 * number, 0, 0, 0) for number in range(4)}
    run = JobRun(10.0, 20.0, "", batches, commits)
    assert sample(run, SIZE).value == pytest.approx(10_000)
    assert sample(run, SIZE).cpu == pytest.approx(6.0)
    with pytest.raises(JobFailed, match="20000 events were read, expected 25000"):
        sample(run, Size(25_000, 5_000, 1))
