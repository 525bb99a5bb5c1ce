"""What Prometheus reads of a run: names, labels and values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import version

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from headwater.events import Alert, EpochCommitted, EventsDropped, QueryStarted, RunFinished, RunStarted
from headwater.events.status import RunView
from headwater.history.metrics import FAMILIES, MAX_PARTITIONS, RunCollector
from tests.run_views import AT, AT_SECONDS, kafka_progress, offsets, run_view

NAME = re.compile(r"headwater_[a-z][a-z_]*[a-z]")
CLICKS = {"pipeline": "shop", "query": "clicks"}
FILES = {"pipeline": "shop", "query": "files"}
LOST = {"pipeline": "shop", "query": "lost"}

Series = tuple[str, frozenset[tuple[str, str]]]


def exposed(*views: RunView) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(RunCollector(lambda: views))
    return generate_latest(registry).decode()


def series(*views: RunView) -> dict[Series, float]:
    """Every sample by its name and labels; two samples with equal ones fail the test."""
    found: dict[Series, float] = {}
    for family in text_string_to_metric_families(exposed(*views)):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def value(found: Mapping[Series, float], name: str, labels: Mapping[str, str], **more: str) -> float:
    return found[f"headwater_{name}", frozenset({**labels, **more}.items())]


@pytest.mark.feature("G3.1", part="values")
def test_every_metric_of_a_run() -> None:
    found = series(run_view())
    versions = {"version": version("headwater"), "spark_version": "4.1.4"}
    assert value(found, "build_info", versions) == 1
    assert value(found, "run_start_time_seconds", {"pipeline": "shop"}) == AT_SECONDS
    assert value(found, "events_dropped_total", {"pipeline": "shop"}, consumer="history") == 3
    assert value(found, "query_restarts_total", CLICKS) == 0
    assert value(found, "query_restarts_total", FILES) == 1
    assert value(found, "query_last_failure_timestamp_seconds", LOST) == AT_SECONDS
    assert value(found, "alert_active", CLICKS, alert="falling_behind", severity="warning") == 1
    assert value(found, "query_batches_total", CLICKS) == 2
    assert value(found, "query_rows_in_total", CLICKS) == 200
    assert value(found, "query_rows_out_total", CLICKS) == 180
    assert value(found, "query_batch_duration_seconds_sum", CLICKS) == 0.5
    assert value(found, "query_batch_duration_seconds_count", CLICKS) == 2
    assert value(found, "query_last_batch_timestamp_seconds", CLICKS) == AT_SECONDS
    assert value(found, "query_last_batch_duration_seconds", CLICKS) == 0.25
    assert value(found, "query_last_batch_phase_seconds", CLICKS, phase="walCommit") == 0.02
    assert value(found, "query_trigger_interval_seconds", CLICKS) == 10
    assert value(found, "query_input_rows_per_second", CLICKS) == 50
    assert value(found, "query_processed_rows_per_second", CLICKS) == 400
    assert value(found, "query_watermark_timestamp_seconds", CLICKS) == AT_SECONDS
    assert value(found, "query_event_time_seconds", CLICKS, statistic="max") == AT_SECONDS
    assert value(found, "query_idle_inputs", CLICKS) == 1
    assert value(found, "source_lag_rows", CLICKS, source="clicks", partition="clicks-0") == 0
    assert value(found, "source_lag_rows", CLICKS, source="clicks", partition="clicks-1") == 40
    assert value(found, "source_waiting_files", FILES, path="/project/in") == 12
    assert value(found, "source_rows_total", CLICKS, source="clicks") == 200
    assert value(found, "source_bad_rows_total", CLICKS, source="clicks") == 20
    assert value(found, "state_rows", CLICKS, operator="aggregation") == 7
    assert value(found, "state_bytes", CLICKS, operator="join") == 900
    assert value(found, "late_rows_total", CLICKS, operator="aggregation") == 4
    assert value(found, "expectation_rows_total", CLICKS, table="priced") == 180
    assert value(found, "expectation_violations_total", CLICKS, table="priced", expectation="paid") == 10


def test_exactly_one_status_of_a_query_is_set() -> None:
    found = series(run_view())
    status = {
        (labels["query"], labels["status"]): sample
        for (name, pairs), sample in found.items()
        if name == "headwater_query_status" and (labels := dict(pairs))
    }
    assert len(status) == 3 * 7
    set_ones = {key for key, sample in status.items() if sample == 1}
    assert set_ones == {("clicks", "running"), ("files", "idle"), ("lost", "failed")}
    assert {sample for key, sample in status.items() if key not in set_ones} == {0}


def test_a_run_that_has_ended_has_an_exit_code() -> None:
    view = run_view()
    assert "headwater_run_exit_code" not in {name for name, _ in series(view)}
    view.apply(RunFinished(run_id="r1", exit_code=1, queries={}))
    found = series(view)
    assert value(found, "run_exit_code", {"pipeline": "shop"}) == 1
    assert value(found, "query_batches_total", CLICKS) == 2


def test_the_realistic_run_has_every_family() -> None:
    view = run_view()
    view.apply(RunFinished(run_id="r1", exit_code=0, queries={}))
    names = {name for name, _ in series(view)}
    assert names == {name for family in FAMILIES for name in family.series}


def test_names_follow_the_conventions() -> None:
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names))
    assert [name for name in names if not NAME.fullmatch(name)] == []
    assert {family.name.endswith("_total") for family in FAMILIES if family.kind == "counter"} == {True}
    assert {family.name.endswith("_total") for family in FAMILIES if family.kind != "counter"} == {False}
    assert [family.name for family in FAMILIES if not family.help.endswith((".", "1."))] == []


def test_counters_never_go_backwards() -> None:
    view = run_view()
    counters = {name for family in FAMILIES if family.kind != "gauge" for name in family.series}
    before = {key: each for key, each in series(view).items() if key[0] in counters}
    for event in (
        QueryStarted(query="clicks", id="clicks-id", run_id="2"),
        kafka_progress(2),
        EventsDropped(consumer="history", dropped=1),
    ):
        view.apply(event)
        after = series(view)
        assert before.keys() <= after.keys()
        assert [key for key, each in before.items() if after[key] < each] == []
        before = {key: each for key, each in after.items() if key[0] in counters}
    assert value(before, "query_batches_total", CLICKS) == 3
    assert value(before, "events_dropped_total", {"pipeline": "shop"}, consumer="history") == 4


def lag(view: RunView) -> dict[str, float]:
    return {
        dict(labels)["partition"]: rows
        for (name, labels), rows in series(view).items()
        if name == "headwater_source_lag_rows"
    }


def test_many_partitions_share_one_series() -> None:
    view = run_view()
    latest = [61 + number for number in range(MAX_PARTITIONS)]
    view.apply(kafka_progress(2, offsets(*latest)))
    full = lag(view)
    assert (full["clicks-0"], full["clicks-1"]) == (11, 2)
    assert full["clicks-99"] == 160
    assert (len(full), "other" in full) == (MAX_PARTITIONS, False)

    view.apply(kafka_progress(3, offsets(*latest, 5, 7)))
    limited = lag(view)
    assert len(limited) == MAX_PARTITIONS
    # The last three of 102 partitions: 160, 5 and 7 rows.
    assert limited["other"] == 172
    assert limited["clicks-98"] == 159
    assert sum(limited.values()) == sum(full.values()) + 12


def test_an_alert_that_has_ended_has_no_series() -> None:
    view = run_view()
    ended = Alert(
        query="clicks",
        alert="falling_behind",
        severity="warning",
        active=False,
        code="HW-X",
        message="Well.",
    )
    view.apply(ended)
    assert "headwater_alert_active{" not in exposed(view)


def test_a_continuous_query_has_no_false_zeros() -> None:
    view = run_view()
    view.apply(QueryStarted(query="steady", id="steady-id", run_id="1"))
    steady = {"pipeline": "shop", "query": "steady"}
    assert value(series(view), "query_rows_in_total", steady) == 0
    view.apply(EpochCommitted(query="steady", epoch=4))
    found = series(view)
    assert value(found, "query_status", steady, status="running") == 1
    assert ("headwater_query_rows_in_total", frozenset(steady.items())) not in found


def test_a_run_that_has_not_started_has_no_series() -> None:
    assert series(RunView()) == {}


def test_several_runs_and_equal_names_stay_valid() -> None:
    other = RunView()
    started = RunStarted(
        at=AT, run_id="2", pipeline="bank", queries=("clicks",), run_dir="/b", spark_version="4.1.4"
    )
    other.apply(started)
    both = series(run_view(), other, other)
    assert value(both, "query_batches_total", CLICKS) == 2
    assert value(both, "query_batches_total", {"pipeline": "bank", "query": "clicks"}) == 0


def test_labels_are_escaped() -> None:
    view = run_view()
    view.apply(
        RunStarted(at=AT, run_id="2", pipeline='a"\n\\', queries=("x",), run_dir="/b", spark_version="4.1.4")
    )
    assert value(series(view), "run_start_time_seconds", {"pipeline": 'a"\n\\'}) == AT_SECONDS
