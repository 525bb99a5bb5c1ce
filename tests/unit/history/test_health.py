"""Alerts start at their thresholds, do not flap, and end; a healthy query has none."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors.catalogue.alerts import ROWS_LATE
from headwater.errors.catalogue.running import WORKER_TOO_SLOW
from headwater.events import (
    Alert,
    BacklogChanged,
    Event,
    InputsIdle,
    QueryDetails,
    QueryIdle,
    QueryProgress,
    QueryRestarting,
    QueryStarted,
    QueryStatus,
    QueryTerminated,
    RunFinished,
    RunStarted,
    WatermarkHeldBack,
)
from headwater.history.health import ENDS_AFTER_SECONDS, ENDS_BELOW, Alarm, HealthMonitor, Severity
from headwater.history.health_rule import Reading, lasting
from headwater.history.health_rules import RULES, local_path
from headwater.spec.alerts import Alerts

pytestmark = pytest.mark.feature("G4")

START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
PAGE = Path(__file__).parents[3] / "docs" / "operate" / "health.md"


@dataclass(frozen=True)
class Disk:
    """A disk of 1,000 MB."""

    free: int
    total: int = 1_000 << 20


class World:
    """A monitor of the query `q`, with a clock and a disk that the test sets."""

    def __init__(self, alerts: Mapping[str, Any] | None = None, **details: Any) -> None:
        self.now = START
        self.free = 900 << 20
        self.found: list[Alert] = []
        self.number = 0
        self.lag = 0
        self.offset = 0
        given = {"sources": ("clicks",), "trigger": "default", "checkpoint": "/", **details}
        self.monitor = HealthMonitor(
            Alerts.model_validate(alerts or {}),
            self.take,
            clock=lambda: self.now,
            disk=lambda _: Disk(self.free),
        )
        self.monitor(
            RunStarted(
                run_id="r",
                pipeline="p",
                queries=("q",),
                run_dir="/runs",
                spark_version="4.1.4",
                details={"q": QueryDetails(**given)},
            )
        )
        self.monitor(QueryStarted(query="q", id="i", run_id="r"))

    def take(self, event: Event) -> None:
        assert isinstance(event, Alert)
        self.found.append(event)

    @property
    def changes(self) -> list[tuple[str, str]]:
        """The severity of each alert, or `ended`, with its name."""
        return [(each.alert, each.severity if each.active else "ended") for each in self.found]

    def wait(self, seconds: float, step: float = 10.0) -> None:
        """Let time pass, with ticks."""
        for _ in range(math.ceil(seconds / step)):
            self.now += step
            self.monitor.tick()

    def batch(
        self,
        seconds: float = 20.0,
        *,
        rows: int = 1_000,
        ms: int = 1_000,
        late: int = 0,
        bad: int = 0,
        state: int = 0,
        newest: float | None = None,
        watermark: float | None = None,
    ) -> None:
        """A batch that starts after this time."""
        self.now += seconds
        self.number += 1
        start, self.offset = self.offset, self.offset + rows
        times = {"watermark": stamp(0.0 if watermark is None else watermark)}
        times |= {"max": stamp(newest)} if newest is not None else {}
        progress = {
            "batchId": self.number,
            "timestamp": stamp(self.now),
            "numInputRows": rows,
            "batchDuration": ms,
            "eventTime": times if newest is not None else {},
            "stateOperators": [
                {"operatorName": "dedupe", "numRowsTotal": state, "numRowsDroppedByWatermark": late}
            ],
            "observedMetrics": {"headwater.rows.clicks": {"read": rows, "bad": bad}},
            "sources": [
                {
                    "numInputRows": rows,
                    "startOffset": {"clicks": {"0": start, "1": 0}},
                    "endOffset": {"clicks": {"0": self.offset, "1": 0}},
                    "latestOffset": {"clicks": {"0": self.offset + self.lag, "1": 0}},
                }
            ],
        }
        self.monitor(QueryProgress(query="q", rows_out=None, progress=progress))


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# Each rule: how to hold its value for so long that it counts. `scale` multiplies the warning threshold.


def late_rows(world: World, value: float) -> None:
    for _ in range(45):
        world.batch(late=round(10 * value))


def bad_rows(world: World, value: float) -> None:
    for _ in range(45):
        world.batch(bad=round(10 * value))


def slow_batches(world: World, value: float) -> None:
    for _ in range(42):
        world.batch(10.0, ms=round(100 * value))


def future_timestamp(world: World, value: float) -> None:
    for _ in range(20):
        ahead = world.now + 20.0 + value * HOUR
        world.batch(newest=ahead, watermark=ahead - 60)


def falling_behind(world: World, value: float) -> None:
    for _ in range(46):
        world.lag += round(10 * value)
        world.batch()


def disk_almost_full(world: World, value: float) -> None:
    world.free = round(1_000 / value) << 20
    world.wait(310.0)


@dataclass(frozen=True)
class Case:
    """A rule with values below, at and above its thresholds; `calm` is above the end, `over` is below it."""

    hold: Callable[[World, float], None]
    below: float
    warning: float
    critical: float
    calm: float
    over: float

    @property
    def name(self) -> str:
        return self.hold.__name__


CASES = [
    Case(late_rows, 0.9, 1.0, 10.0, 0.8, 0.7),
    Case(bad_rows, 0.9, 1.0, 10.0, 0.8, 0.7),
    Case(slow_batches, 79.9, 80.0, 100.0, 64.0, 63.9),
    Case(future_timestamp, 0.99, 1.0, 24.0, 0.8, 0.79),
    Case(falling_behind, 9.9, 10.0, 50.0, 8.0, 7.9),
    # One part of the disk is free: a tenth, a thirty-third, an eighth.
    Case(disk_almost_full, 1_000 / 101, 10.0, 1_000 / 30, 1_000 / 125, 1_000 / 126),
]
IDS = [case.name for case in CASES]


def world_of(name: str, alerts: Mapping[str, Any] | None = None) -> World:
    every = {"trigger": "every 10 seconds", "interval_ms": 10_000} if name == "slow_batches" else {}
    world = World(alerts, **every)
    world.batch()
    return world


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_an_alert_starts_at_its_threshold_and_not_below(case: Case) -> None:
    world = world_of(case.name)
    case.hold(world, case.below)
    assert world.changes == []
    case.hold(world, case.warning)
    assert world.changes == [(case.name, "warning")]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_an_alert_becomes_critical_and_ends_late(case: Case) -> None:
    world = world_of(case.name)
    case.hold(world, case.critical)
    steps = [(case.name, "warning"), (case.name, "critical")]
    # Values that rise slowly pass the lower threshold first.
    assert world.changes in (steps, steps[1:])
    world.found.clear()
    case.hold(world, case.calm)
    assert world.changes == [(case.name, "warning")]
    case.hold(world, case.calm)
    assert len(world.found) == 1
    case.hold(world, case.over)
    assert world.changes == [(case.name, "warning"), (case.name, "ended")]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_value_around_the_threshold_does_not_flap(case: Case) -> None:
    world = world_of(case.name)
    for _ in range(5):
        case.hold(world, case.warning)
        case.hold(world, case.below)
        case.hold(world, case.calm)
    assert world.changes == [(case.name, "warning")]


@pytest.mark.parametrize("off", ["off", False])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_an_alert_that_is_off_never_starts(case: Case, off: object) -> None:
    world = world_of(case.name, {case.name: off})
    case.hold(world, case.critical)
    assert world.changes == []


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_terminated_query_has_no_alerts(case: Case) -> None:
    world = world_of(case.name)
    case.hold(world, case.warning)
    world.monitor(QueryTerminated(query="q", status=QueryStatus.FAILED))
    assert world.changes == [(case.name, "warning"), (case.name, "ended")]
    case.hold(world, case.critical)
    assert len(world.found) == 2


def test_an_alert_names_its_figures_and_its_remedy() -> None:
    world = world_of("late_rows")
    world.batch(late=25)
    world.batch(late=15)
    (alert,) = world.found
    assert alert.message == "Query `q`: deduplication dropped 25 of 2,000 rows (1.2 %) behind the watermark."
    assert alert.hint.startswith("Set a longer `delay`")
    assert (alert.code, alert.query, alert.subject) == ("HW-ROWS-LATE", "q", "deduplication")
    assert alert.fields["percent"] == 1.25
    assert alert.at == stamp(START + 40)
    world.monitor(RunFinished(run_id="r", exit_code=0, queries={}))
    assert world.found[-1].message == alert.message
    assert (world.found[-1].severity, world.found[-1].active) == ("warning", False)


def test_few_rows_cause_no_alert() -> None:
    world = World()
    world.batch(rows=99, late=99, bad=99)
    assert world.changes == []
    world.batch(rows=1)
    assert world.changes == [("late_rows", "critical"), ("bad_rows", "critical")]


def test_thresholds_can_be_changed() -> None:
    world = World({"bad_rows": {"warning": "20 %", "critical": "30 %", "for": "1 minute", "min_rows": 10}})
    for bad in (1, 2, 3):
        world.batch(60.0, rows=10, bad=bad)
    assert world.changes == [("bad_rows", "warning"), ("bad_rows", "critical")]


# Falling behind.


def test_batches_that_take_longer_and_longer_fall_behind() -> None:
    world, ms = World(), 10_000
    while not world.found and ms < 600_000:
        world.batch(ms / 1_000, ms=(ms := round(ms * 1.2)))
    assert world.changes == [("falling_behind", "warning")]
    assert world.found[0].code == "HW-FALLING-BEHIND"
    assert world.now - START >= 10 * MINUTE


def test_slow_batches_of_equal_length_do_not_fall_behind() -> None:
    world, noise = World(), random.Random(1)
    seconds = 60.0
    for _ in range(500):
        world.batch(seconds, ms=round(1_000 * (seconds := noise.uniform(40, 80))))
    assert world.changes == []


def test_a_lag_names_the_partition() -> None:
    world = World()
    falling_behind(world, 20.0)
    assert [(each.subject, each.severity) for each in world.found] == [("clicks", "warning")]
    fields = world.found[0].fields
    assert (fields["partition"], fields["source"], fields["percent"]) == ("clicks-0", "clicks", 20.0)
    assert fields["lag"] == fields["partition_lag"] == 6_200


def test_a_backlog_that_shrinks_is_no_alert() -> None:
    world = World()
    world.lag = 10_000_000
    for _ in range(500):
        world.lag -= 10_000
        world.batch()
    assert world.changes == []


def test_a_burst_that_is_read_slowly_is_no_alert() -> None:
    world = World()
    for number in range(600):
        world.lag = 500_000 if number % 100 == 0 else max(0, world.lag - 5_000)
        world.batch()
    assert world.changes == []


def test_an_idle_query_has_caught_up() -> None:
    world = World()
    falling_behind(world, 10.0)
    world.monitor(QueryIdle(query="q"))
    world.wait(310.0)
    assert world.changes == [("falling_behind", "warning"), ("falling_behind", "ended")]


@pytest.mark.parametrize("trigger", ["available now", "once"])
def test_a_query_that_catches_up_on_purpose_does_not_fall_behind(trigger: str) -> None:
    world = World(trigger=trigger)
    falling_behind(world, 100.0)
    assert world.changes == []


def test_a_backlog_of_files_that_grows_is_an_alert() -> None:
    world = World()
    for files in range(1_000, 1_150, 4):
        world.monitor(BacklogChanged(query="q", files={"/in": files}))
        world.batch()
    assert world.changes == [("falling_behind", "warning")]
    (alert,) = world.found
    assert (alert.code, alert.subject) == ("HW-FILE-BACKLOG-GROWING", "/in")
    assert alert.message == (
        "Query `q` is falling behind: the backlog of /in grew from 1,000 to 1,120 files in 10 minutes."
    )
    world.monitor(BacklogChanged(query="q", files={}))
    for _ in range(16):
        world.batch()
    assert world.changes[-1] == ("falling_behind", "ended")


# The watermark.


def stuck(world: World, minutes: float) -> None:
    """Newer rows arrive, but the watermark stays."""
    for _ in range(round(minutes)):
        world.batch(60.0, newest=world.now, watermark=START)


def test_a_watermark_that_stays_while_rows_arrive_is_stuck() -> None:
    world = World()
    stuck(world, 11)
    assert world.changes == []
    stuck(world, 1)
    assert world.changes == [("stuck_watermark", "warning")]
    assert "(no input is idle; blocked by `clicks`)" in world.found[0].message
    assert world.found[0].fields["sources"] == "clicks"
    stuck(world, 50)
    assert world.changes[1:] == [("stuck_watermark", "critical")]
    world.batch(60.0, newest=world.now, watermark=world.now - 60)
    assert world.changes[2:] == [("stuck_watermark", "ended")]


def test_a_stuck_watermark_names_the_idle_inputs() -> None:
    world = World()
    world.monitor(InputsIdle(query="q", idle_inputs=({"sources": ["views"], "since_batch": None},)))
    stuck(world, 12)
    assert "(idle: `views`)" in world.found[0].message
    assert world.found[0].fields["sources"] == "views"


def test_rows_that_are_all_old_name_the_newest() -> None:
    world = World()
    world.batch(60.0, newest=START + HOUR, watermark=START)
    for _ in range(12):
        world.batch(60.0, newest=START, watermark=START + HOUR)
    assert world.changes == [("stuck_watermark", "warning")]
    assert f"(all rows are older than {stamp(START + HOUR)}; blocked by `clicks`)" in world.found[0].message


def test_a_stuck_watermark_names_the_slow_inputs_of_several() -> None:
    world = World(sources=("views", "clicks"))
    # The sources of a watermark are unknown until the run has found them.
    stuck(world, 12)
    assert "(no input is idle)" in world.found[0].message
    assert world.found[0].fields["sources"] == ""
    world = World(sources=("views", "clicks"))
    world.monitor(WatermarkHeldBack(query="q", sources=("clicks",)))
    stuck(world, 12)
    assert "(no input is idle; blocked by `clicks`)" in world.found[0].message
    assert world.found[0].fields["sources"] == "clicks"
    # An idle one is not named twice.
    world = World(sources=("views", "clicks"))
    idle = ({"sources": ["views"], "since_batch": None},)
    world.monitor(InputsIdle(query="q", idle_inputs=idle))
    world.monitor(WatermarkHeldBack(query="q", sources=("views", "clicks")))
    stuck(world, 12)
    assert "(idle: `views`; blocked by `clicks`)" in world.found[0].message
    assert world.found[0].fields["sources"] == "views, clicks"


def test_event_times_rounded_to_hours_are_not_stuck() -> None:
    world = World()
    for minute in range(600):
        hour, before = (START + HOUR * (each // 60) for each in (minute, minute - 1))
        world.batch(60.0, newest=hour, watermark=before - HOUR)
    assert world.changes == []


def test_a_pause_between_batches_counts_as_a_fifth_of_the_threshold() -> None:
    world = World()
    stuck(world, 2)
    for _ in range(4):
        world.batch(5 * MINUTE, newest=world.now, watermark=START)
    assert world.changes == []
    world.batch(5 * MINUTE, newest=world.now, watermark=START)
    assert world.changes == [("stuck_watermark", "warning")]
    assert world.found[0].fields["lasting"] == "25 minutes"


def test_a_query_without_rows_or_without_a_watermark_is_not_stuck() -> None:
    world = World()
    world.batch(60.0, newest=START, watermark=START)
    for _ in range(100):
        world.batch(60.0, rows=0, newest=START + 1, watermark=START)
        world.batch(60.0)
    assert world.changes == []


def test_a_timestamp_from_the_future_lasts_as_long_as_the_watermark_is_ahead() -> None:
    world = World()
    world.batch(newest=START + 3 * HOUR, watermark=START)
    assert world.changes == [("future_timestamp", "warning")]
    assert world.found[0].fields["inputs"] == "`clicks`"
    for _ in range(6):
        world.batch(20 * MINUTE, newest=world.now, watermark=START + 3 * HOUR - 60)
    late = [change for change in world.changes if change[0] == "future_timestamp"]
    assert late == [("future_timestamp", "warning")]
    world.wait(20 * MINUTE)
    assert world.changes[-1] == ("future_timestamp", "ended")


# State.


def grow(world: World, percent: float, rows: int = 1_000_000) -> None:
    for step in range(31):
        world.batch(2_880.0, state=rows + round(rows * percent / 100 * step / 30))


@pytest.mark.parametrize(("percent", "found"), [(19.9, []), (20, ["warning"]), (200, ["critical"])])
def test_a_state_that_grows_for_a_day_is_an_alert(percent: float, found: list[str]) -> None:
    world = World({"idle_source": "off"})
    grow(world, percent)
    assert world.changes == [("growing_state", severity) for severity in found]
    assert [each.subject for each in world.found] == ["deduplication"] * len(found)


def test_a_state_that_shrinks_again_ends_the_alert() -> None:
    world = World({"idle_source": "off"})
    grow(world, 30)
    for _ in range(3):
        world.batch(2_880.0, state=1_000)
    assert world.changes == [("growing_state", "warning"), ("growing_state", "ended")]


def test_a_small_state_or_one_that_is_off_is_no_alert() -> None:
    for world, rows in ((World(), 90_000), (World({"growing_state": "off"}), 1_000_000)):
        grow(world, 11, rows)
        grow(world, 200, rows // 10)
        assert world.changes == []


def test_a_state_is_not_judged_before_its_first_rows_have_reached_their_age() -> None:
    world = World()
    for step in range(60):
        rows = 1_000_000 + 50_000 * min(step, 30)
        world.batch(2_880.0, state=rows, newest=world.now, watermark=world.now - DAY)
    assert world.changes == []


# Batches in relation to the trigger interval.


def test_the_first_batches_after_a_start_may_be_slow() -> None:
    world = World(trigger="every 10 seconds", interval_ms=10_000)
    for _ in range(100):
        world.batch(30.0, ms=30_000)
    assert world.changes == []
    for _ in range(30):
        world.batch(30.0, ms=30_000)
    assert world.changes == [("slow_batches", "critical")]


@pytest.mark.parametrize(
    "trigger", ["default", "real time 10 seconds", "available now", "continuous 10 seconds"]
)
def test_only_an_interval_can_be_exceeded(trigger: str) -> None:
    world = World(trigger=trigger, interval_ms=10_000)
    slow_batches(world, 100.0)
    assert world.changes == []


def test_a_slow_batch_now_and_then_is_no_alert() -> None:
    world = World(trigger="every 10 seconds", interval_ms=10_000)
    for number in range(1_000):
        world.batch(10.0, ms=30_000 if number % 10 == 5 else 2_000)
    assert world.changes == []


# Restarts.


def restart(world: World, seconds: float) -> None:
    world.now += seconds
    problem = WORKER_TOO_SLOW.at(None, sink="q")
    world.monitor(QueryRestarting(query="q", attempt=1, attempts=10, delay_ms=0, problem=problem))
    world.monitor(QueryStarted(query="q", id="i", run_id=str(world.now)))


def test_repeated_restarts() -> None:
    world = World()
    restart(world, 10.0)
    restart(world, 1_790.0)
    restart(world, 1_811.0)
    assert world.changes == []
    restart(world, 1_700.0)
    assert world.changes == [("repeated_restarts", "warning")]
    assert world.found[0].fields["code"] == "HW-WORKER-TOO-SLOW"
    restart(world, 10.0)
    restart(world, 10.0)
    assert world.changes[1:] == [("repeated_restarts", "critical")]
    world.wait(HOUR)
    assert world.changes[2:] == [("repeated_restarts", "warning")]
    world.wait(320.0)
    assert world.changes[3:] == [("repeated_restarts", "ended")]


def test_restarts_that_are_off() -> None:
    world = World({"repeated_restarts": False})
    for _ in range(20):
        restart(world, 1.0)
    assert world.changes == []


def test_a_restart_ends_what_was_measured_about_the_pace_and_keeps_what_was_about_rows() -> None:
    world = World()
    for _ in range(46):
        world.lag += 100
        world.batch(bad=20)
    restart(world, 1.0)
    assert world.changes == [
        ("bad_rows", "warning"),
        ("falling_behind", "warning"),
        ("falling_behind", "ended"),
    ]


# Idle sources.


def poll(world: World, seconds: float) -> None:
    for _ in range(round(seconds / 10)):
        world.now += 10.0
        world.monitor(QueryIdle(query="q"))


def test_a_source_that_is_idle_for_longer_than_usual() -> None:
    world = World()
    for _ in range(200):
        world.batch(25.0)
    poll(world, HOUR - 10)
    assert world.changes == []
    poll(world, 10)
    assert world.changes == [("idle_source", "warning")]
    assert world.found[0].message == (
        "Query `q`: source `clicks` has delivered no rows for 1 hour. Its longest usual pause is 25 seconds."
    )
    world.batch()
    assert world.changes[1:] == [("idle_source", "ended")]
    # From now on, an hour is usual.
    poll(world, 3 * HOUR)
    assert len(world.found) == 2
    poll(world, 60)
    assert world.changes[2:] == [("idle_source", "warning")]


def test_a_source_without_a_history_is_not_idle() -> None:
    world = World()
    for _ in range(5):
        world.batch()
    poll(world, DAY)
    assert world.changes == []


def test_a_long_batch_or_a_restart_is_no_pause_of_the_source() -> None:
    world = World()
    for _ in range(200):
        world.batch(25.0)
    world.wait(5 * HOUR, MINUTE)
    restart(world, 5 * HOUR)
    poll(world, HOUR - 10)
    assert world.changes == []


@pytest.mark.parametrize("details", [{"trigger": "available now"}, {"alerts": {"idle_source": "off"}}])
def test_no_source_of_these_is_idle(details: dict[str, Any]) -> None:
    world = World(**details)
    for _ in range(200):
        world.batch(25.0)
    poll(world, DAY)
    assert world.changes == []


# The disk.


@pytest.mark.parametrize(
    ("checkpoint", "path"),
    [
        ("/a/b", Path("/a/b")),
        ("file:///a/b%20c", Path("/a/b c")),
        ("s3a://bucket/a", None),
        ("hdfs://n/a", None),
        ("", None),
    ],
)
def test_only_a_local_checkpoint_has_a_disk(checkpoint: str, path: Path | None) -> None:
    assert local_path(checkpoint) == path
    world = World(checkpoint=checkpoint)
    disk_almost_full(world, 1_000.0)
    assert world.changes == ([("disk_almost_full", "critical")] if path else [])


def test_free_space_can_be_a_size() -> None:
    world = World({"disk_almost_full": {"warning": "100 MB", "critical": "10 MB"}})
    world.free = 101 << 20
    world.wait(10.0)
    assert world.changes == []
    world.free = 100 << 20
    world.wait(10.0)
    assert world.changes == [("disk_almost_full", "warning")]
    world.free = 0
    world.wait(10.0)
    assert world.changes[1:] == [("disk_almost_full", "critical")]


def test_a_disk_that_cannot_be_read_is_no_alert() -> None:
    def unreadable(path: str) -> Disk:
        raise OSError(path)

    found: list[Event] = []
    monitor = HealthMonitor(Alerts(), found.append, clock=lambda: START, disk=unreadable)
    details = {"q": QueryDetails(checkpoint="/x")}
    monitor(
        RunStarted(run_id="r", pipeline="p", queries=("q",), run_dir="", spark_version="", details=details)
    )
    monitor.tick()
    assert found == []


# All rules together.


def test_a_query_that_started_before_the_monitor_is_watched() -> None:
    found: list[Event] = []
    monitor = HealthMonitor(Alerts(), found.append, clock=lambda: START)
    progress = {
        "batchId": 7,
        "numInputRows": 100,
        "sources": [],
        "observedMetrics": {"headwater.rows.clicks": {"read": 100, "bad": 50}},
    }
    monitor(QueryProgress(query="q", rows_out=None, progress=progress))
    assert [(each.alert, each.severity) for each in found if isinstance(each, Alert)] == [
        ("bad_rows", "critical")
    ]


def test_its_own_alerts_do_not_change_anything() -> None:
    world = world_of("late_rows")
    late_rows(world, 1.0)
    world.monitor(world.found[0])
    assert len(world.found) == 1


@pytest.mark.parametrize("trigger", ["default", "every 10 seconds"])
def test_a_healthy_query_has_no_alert_for_a_day(trigger: str) -> None:
    world = World(trigger=trigger, interval_ms=10_000 if trigger.startswith("every") else None)
    noise, state, watermark, seconds = random.Random(7), 2_000_000, START - HOUR, 10.0
    world.lag = 5_000_000
    while world.now < START + DAY:
        day = (world.now - START) / DAY
        load = 1.5 + math.sin(2 * math.pi * day)
        if noise.random() < 0.002:
            poll(world, noise.uniform(10, 1_500))
        if noise.random() < 0.0003:
            restart(world, noise.uniform(5, 60))
            world.lag += 50_000
        # A backlog is read with a limit, then batches read what has arrived.
        arrived = round(1_000 * load * seconds * noise.uniform(0.5, 1.5))
        rows = 30_000 if world.lag else arrived
        world.lag = max(0, world.lag + arrived - rows)
        ms = round(1_500 + rows * noise.uniform(0.05, 0.1) + 8_000 * (noise.random() < 0.01))
        state = round(2_000_000 * load + 300_000 * noise.random() + 400_000 * (world.number % 60) / 60)
        newest = world.now - noise.uniform(0, 20)
        world.batch(
            seconds,
            rows=rows,
            ms=ms,
            late=round(rows * 0.004 * noise.random()),
            bad=round(rows * 0.002 * noise.random()),
            state=state,
            newest=newest,
            watermark=watermark,
        )
        watermark = max(watermark, newest - 600)
        seconds = max(10.0, ms / 1_000) if trigger.startswith("every") else ms / 1_000
        world.monitor.tick()
    assert world.number > 7_000
    assert world.changes == []


VALUES = st.lists(st.floats(0, 3), min_size=1, max_size=300)


def transitions(values: list[float], step: float) -> int:
    alarm = Alarm()
    changed = [
        alarm.see(Reading(ROWS_LATE, {}, value, value / 2), number * step)
        for number, value in enumerate(values)
    ]
    return sum(changed)


@given(VALUES, st.floats(1, 100))
def test_any_noise_causes_few_changes(values: list[float], step: float) -> None:
    # Up in at most two steps; each step down takes the whole delay.
    delays = len(values) * step // ENDS_AFTER_SECONDS
    assert transitions(values, step) <= 2 + 3 * delays


@given(st.lists(st.floats(ENDS_BELOW, 1.5), min_size=1, max_size=300), st.floats(1, 1_000))
def test_noise_above_the_end_starts_one_alert(values: list[float], step: float) -> None:
    assert transitions(values, step) == (max(values) >= 1)


@given(VALUES)
def test_a_severity_never_drops_early(values: list[float]) -> None:
    alarm, reached = Alarm(), Severity.OK
    for number, value in enumerate(values):
        alarm.see(Reading(ROWS_LATE, {}, value, value / 2), number * ENDS_AFTER_SECONDS / 300)
        reached = max(reached, Severity.of(Reading(ROWS_LATE, {}, value, value / 2)))
        assert alarm.severity is reached


@given(st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 300)), max_size=200))
def test_the_monitor_changes_its_mind_rarely_under_any_noise(noise: list[tuple[int, int]]) -> None:
    world = World()
    for free, bad in noise:
        world.free = free << 20
        world.batch(10.0, bad=bad)
    delays = len(noise) * 10 // ENDS_AFTER_SECONDS
    for name in ("disk_almost_full", "bad_rows"):
        assert len([change for change in world.changes if change[0] == name]) <= 2 + 3 * delays


# The page in the docs.


def test_the_page_lists_every_alert_with_its_defaults() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", PAGE.read_text(encoding="utf-8"), re.M))
    shown = {name: dict(re.findall(r"`(\w+): ([^`]+)`", cell)) for name, cell in rows.items()}
    defaults = Alerts().model_dump(mode="json", by_alias=True)
    assert shown == {
        name: {key: str(value) for key, value in fields.items()} for name, fields in defaults.items()
    }
    assert [rule.name for rule in RULES] == list(defaults) == list(rows)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 seconds"),
        (90, "1 minute 30 seconds"),
        (150, "2 minutes"),
        (7_199, "1 hour 59 minutes"),
        (90_000, "1 day 1 hour"),
    ],
)
def test_a_period_is_shown_in_one_or_two_units(seconds: float, text: str) -> None:
    assert lasting(seconds) == text
