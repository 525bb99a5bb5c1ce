"""How long a query keeps what: as `explain` tells it, and as the state of real runs shows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from headwater.api.check import check
from headwater.api.explain import explain
from headwater.testing.report import report
from headwater.testing.test_runner import TestRunner
from scripts.contract import ROOT
from tests.pipelines import write
from tests.scripted.plays import play_here

HOUR, MINUTE = 3_600_000, 60_000
NOON = datetime(2026, 1, 1, 12)


def sinks_of(file: Path, rates: Mapping[str, float] | None = None) -> dict[str, dict[str, Any]]:
    """What `explain --json` says, by sink."""
    told = json.loads(json.dumps(explain(file, rates=rates).to_json()))
    return {sink["name"]: sink for sink in told["sinks"]}


@pytest.fixture
def ads(tmp_path: Path) -> Path:
    """The example: impressions two hours late, clicks three, a click within an hour after its impression."""
    shutil.copytree(ROOT / "examples/ad_clicks", tmp_path / "ads")
    for stream in ("impressions", "clicks"):
        (tmp_path / "ads/data" / stream).mkdir(parents=True, exist_ok=True)
    return tmp_path / "ads/pipeline.yml"


@pytest.mark.feature("C9")
def test_impressions_are_kept_four_hours_and_clicks_two(context: SparkContext, ads: Path) -> None:
    sinks = sinks_of(ads, {"clicks": 1000.0, "impressions": 10.0})
    by_range = ("clicked", "outcomes", "origins", "ledger", "noticed", "clicked_in_python")
    for name in by_range:
        (bound,) = sinks[name]["bounds"]
        kept = {each["what"]: (each["for_ms"], each["words"], each["rows"]) for each in bound["retention"]}
        assert (name, bound["extent"], kept) == (
            name,
            "bounded",
            {"impressions": (4 * HOUR, "4 hours", 144_000), "clicks": (2 * HOUR, "2 hours", 7_200_000)},
        )
    (windows,) = sinks["same_hour"]["bounds"]
    assert {each["what"]: each["for_ms"] for each in windows["retention"]} == {
        "impressions": 4 * HOUR,
        "clicks": 3 * HOUR,
    }
    assert [each["kind"] for each in sinks["clicked"]["operators"]] == ["watermark", "watermark", "join"]
    assert sinks["clicked"]["guarantee"]["level"] == "exactly-once"


KEEPING = """
name: keeping
sources:
  impressions:
    connector: files
    path: in/
    format: json
    schema: {k: string, shown: timestamp}
    watermark: {column: shown, delay: 2 hours}
  clicks:
    connector: files
    path: in/
    format: json
    schema: {k: string, clicked: timestamp}
    watermark: {column: clicked, delay: 3 hours}
tables:
  clicked: |
    SELECT i.k, shown, clicked FROM impressions i JOIN clicks c
      ON i.k = c.k AND clicked BETWEEN shown AND shown + INTERVAL 1 HOUR
  per_hour: SELECT k, window(shown, '1 hour') AS hour, count(*) FROM impressions GROUP BY 1, 2
  sessions: SELECT k, session_window(shown, '5 minutes') AS visit, count(*) FROM impressions GROUP BY 1, 2
  by_time: {reads: impressions, deduplicate: [k, shown]}
  within: {reads: impressions, deduplicate: [k], within: watermark}
sinks:
  clicked: {reads: clicked, connector: noop}
  per_hour: {reads: per_hour, connector: noop}
  sessions: {reads: sessions, connector: noop}
  by_time: {reads: by_time, connector: noop}
  within: {reads: within, connector: noop}
"""
# Minutes after noon at which both streams bring a row of a new key: around each end that a bound tells.
MOMENTS = (0, 119, 121, 126, 179, 181, 239, 241)


def start(sink: str, minute: int) -> int:
    """When what a row adds to the state begins to live: a window at its start, others with the row."""
    return minute // 60 * 60 if sink == "per_hour" else minute


def test_the_state_of_real_runs_is_what_the_bounds_say(player: TestRunner, tmp_path: Path) -> None:
    steps = "".join(
        f"    - feed: {{impressions: [[k{at}, '{NOON + timedelta(minutes=at)}']], "
        f"clicks: [[k{at}, '{NOON + timedelta(minutes=at)}']]}}\n"
        for at in MOMENTS
    )
    (tmp_path / "in").mkdir()
    result = play_here(player, tmp_path, KEEPING, f"tests:\n  it is kept:\n{steps}")["it is kept"]
    assert result.passed, "\n".join(report(result))
    for name, sink in sinks_of(tmp_path / "pipeline.yml").items():
        (bound,) = sink["bounds"]
        lives = [(each["in_step_ms"] or each["for_ms"]) / MINUTE for each in bound["retention"]]
        expected = [
            sum(start(name, at) + life > now for at in MOMENTS if at <= now for life in lives)
            for now in MOMENTS
        ]
        assert (name, [step.batches[name][-1].state for step in result.steps]) == (name, expected)


GROWING = """
name: growing
sources:
  a:
    connector: files
    path: in/
    format: json
    schema: {k: string, x: timestamp}
    watermark: {column: x, delay: 1 hour}
  b: {connector: files, path: in/, format: json, schema: {k: string, y: timestamp}}
  c:
    connector: files
    path: in/
    format: json
    schema: {k: string, z: timestamp}
    watermark: {column: z, delay: 1 hour}
  homes: {connector: files, path: in/, format: json, schema: {k: string, city: string}, static: true}
tables:
  per_hour: SELECT window(y, '1 hour') AS hour, count(*) AS n FROM b GROUP BY 1
  timed: SELECT window(x, '1 hour') AS hour, count(*) AS n FROM a GROUP BY 1
  words: SELECT k, count(*) AS n FROM b GROUP BY k
  lists: SELECT k, collect_list(y) AS ys FROM b GROUP BY k
  once: {reads: b, deduplicate: [k]}
  inner_join: SELECT a.k FROM a JOIN b ON a.k = b.k
  half: SELECT a.k FROM a LEFT JOIN c ON a.k = c.k AND z <= x + INTERVAL 1 HOUR
  no_watermark: SELECT a.k FROM a LEFT JOIN b ON a.k = b.k AND y BETWEEN x AND x + INTERVAL 1 HOUR
  silent: SELECT b.k FROM b LEFT JOIN a ON a.k = b.k AND x BETWEEN y AND y + INTERVAL 1 HOUR
  no_range: SELECT a.k FROM a RIGHT JOIN c ON a.k = c.k
  half_full: SELECT a.k FROM a FULL JOIN c ON a.k = c.k AND z <= x + INTERVAL 1 HOUR
  semi: SELECT a.k FROM a LEFT SEMI JOIN b ON a.k = b.k
  anti: SELECT a.k FROM a LEFT ANTI JOIN c ON a.k = c.k AND z BETWEEN x AND x + INTERVAL 1 HOUR
  static_left: SELECT h.k FROM homes h LEFT JOIN a ON a.k = h.k
  static_right: SELECT h.k FROM a RIGHT JOIN homes h ON a.k = h.k
  static_full: SELECT h.k FROM a FULL JOIN homes h ON a.k = h.k
  static_semi: SELECT h.k FROM homes h LEFT SEMI JOIN a ON a.k = h.k
  static_anti: SELECT h.k FROM homes h LEFT ANTI JOIN a ON a.k = h.k
  stream_kept: SELECT a.k FROM a LEFT JOIN homes h ON a.k = h.k
  stream_anti: SELECT a.k FROM a LEFT ANTI JOIN homes h ON a.k = h.k
sinks:
  per_hour: {reads: per_hour, connector: noop, mode: update}
  whole: {reads: timed, connector: noop, mode: complete}
  timed: {reads: timed, connector: noop, mode: update}
  words: {reads: words, connector: noop, mode: update}
  lists: {reads: lists, connector: noop, mode: update}
"""
TABLES = (
    "once", "inner_join", "half", "no_watermark", "silent", "no_range", "half_full", "semi", "anti",
    "static_left", "static_right", "static_full", "static_semi", "static_anti", "stream_kept", "stream_anti",
)  # fmt: skip
WARNED = {
    "per_hour": "HW-UNBOUNDED-WINDOWS",
    "whole": "HW-UNBOUNDED-COMPLETE",
    "lists": "HW-UNBOUNDED-COLLECT",
    "once": "HW-UNBOUNDED-DEDUP",
    "inner_join": "HW-UNBOUNDED-JOIN",
    "half": "HW-UNBOUNDED-JOIN",
}
RANGE = "a time range in the join condition, such as `x <= z + INTERVAL 1 HOUR`"
STATIC = ("left", "right", "full", "semi", "anti")
REFUSED: dict[str, tuple[str, str | None]] = {
    "no_watermark": ("HW-UNBOUNDED-OUTER-JOIN", "a watermark on `b`"),
    "silent": ("HW-UNBOUNDED-OUTER-JOIN", "a watermark on `b`"),
    "no_range": ("HW-UNBOUNDED-OUTER-JOIN", RANGE),
    "half_full": ("HW-UNBOUNDED-OUTER-JOIN", RANGE),
    "semi": ("HW-UNBOUNDED-OUTER-JOIN", "a watermark on `b`, and a time range in the join condition"),
    "anti": ("HW-ANTI-JOIN-UNSUPPORTED", None),
    **{f"static_{type_}": ("HW-STATIC-OUTER-JOIN-UNSUPPORTED", None) for type_ in STATIC},
}
OURS = {*WARNED.values(), *(code for code, _ in REFUSED.values())}


@pytest.mark.feature("C7.2")
@pytest.mark.feature("C8.3")
def test_state_without_an_end_is_warned_of_and_joins_that_need_one_are_refused(
    context: SparkContext, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    sinks = "".join(f"  {name}: {{reads: {name}, connector: noop}}\n" for name in TABLES)
    result = check(write(tmp_path, GROWING + sinks))
    ours = [each for each in result.findings if each.problem.code in OURS]
    warned = {each.sink: each.problem.code for each in ours if not each.is_error}
    assert warned == WARNED
    refused = {
        each.sink: (each.problem.code, each.problem.params.get("missing")) for each in ours if each.is_error
    }
    assert refused == REFUSED
    # Each is told once, at the line of the join, and nothing else is wrong with these sinks.
    assert [each.sink for each in result.errors] == [each.sink for each in ours if each.is_error]
    text = (GROWING + sinks).splitlines()
    for each in result.errors:
        place = each.problem.place
        assert place is not None
        assert f"  {each.sink}: SELECT" in text[place.line - 1]
