"""The lines that a test's result is told in, and its JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

from headwater.testing.report import report
from headwater.testing.results import Failure, result_json, value_json
from headwater.values import Position
from tests.unit.testing.played_results import FILE, ROWS_FAIL, at, batch, failed, refused, result, step


def test_a_passed_test_is_one_line() -> None:
    assert report(result(step(1), seconds=1.24)) == ["ok    late rows  (1.2 s)"]


def test_a_failed_step_with_its_batches_watermark_place_and_rows() -> None:
    assert report(failed()) == [
        "FAIL  late rows  (1.2 s)",
        "  step 2, feed 3 to words · batches 1 to 2 · watermark 11:57 → 12:04",
        "  tests/test_words.yml:7",
        "    the rows of counts do not match the expected rows",
        "      2 rows as expected, 1 missing, 1 changed",
        "      - missing     {start: 12:00, n: 1}",
        "      ~ changed     {start: 12:05, n: 2}   n: expected 2, got 3",
    ]


def test_a_check_is_told_with_the_batches_that_it_looks_at() -> None:
    fails = Failure("late", "counts dropped 2 late rows, expected 1")
    first = step(1, batches={"counts": (batch(3, at(12, 4)),)}, watermarks={"counts": at(12, 4)})
    check = step(
        2,
        "check",
        failures=(fails,),
        place=Position(str(FILE), 9),
        watermarks={"counts": at(12, 4)},
        acted=False,
    )
    assert report(result(first, check))[1:] == [
        "  step 2, check · batch 3 · watermark 12:04",
        "  tests/test_words.yml:9",
        "    counts dropped 2 late rows, expected 1",
    ]


def test_only_the_sinks_that_failed_are_told() -> None:
    batches = {"counts": (batch(0),), "totals": (batch(1),), "others": (batch(2),)}
    marks = {"counts": at(12, 4), "totals": None, "others": None}
    both = (ROWS_FAIL, replace(ROWS_FAIL, sink="totals", diff=None))
    one = result(step(1, batches=batches, watermarks=marks, failures=(ROWS_FAIL,)))
    assert report(one)[1] == "  step 1, feed 2 to words · batch 0 · watermark none → 12:04"
    two = result(step(1, batches=batches, watermarks=marks, failures=both))
    assert report(two)[1:4] == [
        "  step 1, feed 2 to words",
        "    counts: batch 0 · watermark none → 12:04",
        "    totals: batch 1",
    ]


def test_a_step_without_a_batch_and_on_another_day() -> None:
    fails = Failure("rows", "nothing came")
    marks = {"counts": at(12, 4, day=2)}
    assert report(result(step(1, "advance 1 hour", failures=(fails,), watermarks=marks)))[1:] == [
        "  step 1, advance 1 hour · no batch ran",
        "    nothing came",
    ]
    traced = step(1, batches={"counts": (batch(0, at(12, 3, day=2)),)}, watermarks=marks, failures=(fails,))
    assert report(result(traced))[1] == (
        "  step 1, feed 2 to words · batch 0 · watermark 2026-01-02 12:03 → 2026-01-02 12:04"
    )


def test_times_are_shown_in_the_zone_of_the_pipeline() -> None:
    assert report(failed(zone="Europe/Berlin"))[1].endswith("watermark 12:57 → 13:04")


def test_a_refused_test_tells_its_problems() -> None:
    assert report(refused()) == [
        "ERROR late rows  (1.2 s)",
        "  tests/test_words.yml:3:5: error HW-BROKEN",
        "    It is broken: so.",
        "    Mend it.",
    ]
    [problem] = refused().problems
    told = report(replace(refused(), problems=(replace(problem, detail="at a.b.C\nat d"),)), verbose=True)
    assert told[-2:] == ["  at a.b.C", "  at d"]


def test_an_idle_source_is_named_also_when_the_test_passes() -> None:
    early = step(1, batches={"joined": (batch(0),)}, idle={"joined": ("ads",)})
    last = step(
        2, batches={"joined": (batch(1),)}, idle={"joined": ("clicks",)}, watermarks={"joined": at(11, 57)}
    )
    line = "  idle: clicks (blocks the watermark of joined: 11:57)"
    assert report(result(early, last)) == ["ok    late rows  (1.2 s)", line]
    assert report(result(early, last, step(3, "stop"))) == ["ok    late rows  (1.2 s)", line]
    several = replace(last, idle={"joined": ("ads", "clicks")}, watermarks={"joined": None})
    assert report(result(several))[1] == ("  idle: ads, clicks (block the watermark of joined: none)")


def test_verbose_tells_every_batch() -> None:
    batches = (
        batch(0, rows_in={"words": 2}, rows=({"n": 1},), late=1, state=3),
        batch(0, rows_in={"words": 2}, retried=True),
        batch(1, at(11, 57)),
    )
    traced = step(
        1, batches={"counts": batches}, watermarks={"counts": at(11, 57)}, idle={"counts": ("ads",)}
    )
    assert report(result(traced, step(2, "restart")), verbose=True)[1:] == [
        "  step 1, feed 2 to words",
        "    counts: batch 0 · watermark none · 2 in from words, 1 out, 1 late, 3 in state",
        "    counts: batch 0 (retry) · watermark none · 2 in from words, 0 out, 0 late, 0 in state",
        "    counts: batch 1 · watermark 11:57 · no data, 0 out, 0 late, 0 in state",
        "    counts: then watermark 11:57, idle: ads",
        "  step 2, restart",
        "  idle: ads (blocks the watermark of counts: 11:57)",
    ]


def test_the_whole_result_is_json() -> None:
    told = json.loads(json.dumps(result_json(failed(event_times={"words": ("at", 600_000)}))))
    assert (told["name"], told["outcome"], told["file"]) == ("late rows", "failed", "tests/test_words.yml")
    assert told["event_times"] == {"words": {"column": "at", "delay_ms": 600_000}}
    [first, second] = told["steps"]
    assert first["watermarks"] == {"counts": "2026-01-01T11:57:00+00:00"}
    assert [each["id"] for each in second["batches"]["counts"]] == [1, 2]
    [failure] = second["failures"]
    assert (failure["kind"], failure["sink"], failure["line"]) == ("rows", "counts", 7)
    assert failure["diff"] == {
        "columns": ["start", "n"],
        "missing": [{"start": "2026-01-01T12:00:00+00:00", "n": 1}],
        "unexpected": [],
        "changed": [
            {
                "expected": {"start": "2026-01-01T12:05:00+00:00", "n": 2},
                "got": {"start": "2026-01-01T12:05:00+00:00", "n": 3},
            }
        ],
        "same": 2,
    }
    [problem] = result_json(refused())["problems"]
    assert (problem["code"], problem["line"]) == ("HW-BROKEN", 3)


def test_values_that_json_lacks() -> None:
    written = {
        "nan": float("nan"), "inf": float("-inf"), "day": date(2026, 1, 1), "price": Decimal("1.10"),
        "bytes": b"\x00\xff", "long": timedelta(minutes=1), "list": ({1: True},), "none": None, "n": 1.5,
    }  # fmt: skip
    assert value_json(written) == {
        "nan": "nan", "inf": "-inf", "day": "2026-01-01", "price": "1.10", "bytes": "00ff", "long": 60.0,
        "list": [{"1": True}], "none": None, "n": 1.5,
    }  # fmt: skip
