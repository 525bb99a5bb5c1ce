"""A query as a picture in text, and the rows that it keeps at a rate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.checks.bounds import bounds_of
from headwater.checks.outline import WIDTH, RetainedRows, parse_rate, picture_of, rate_problems, rows_kept
from headwater.plan import QueryFacts
from tests.unit.checks.facts import HOUR, MINUTE, aggregation, facts, join, key, side, watermark, window_key


def ads() -> QueryFacts:
    left = side("impressions", "shown", 2 * HOUR, bounded=True, reach_ms=HOUR)
    right = side("clicks", "clicked", 3 * HOUR, bounded=True)
    marks = (watermark("impressions", "shown", 2 * HOUR), watermark("clicks", "clicked", 3 * HOUR))
    return facts(*marks, join(left, right, inputs=(0, 1)))


def drawn(query: QueryFacts, **rates: float) -> list[str]:
    bounds = bounds_of(query)
    return picture_of(query, bounds, rows_kept(query, bounds, rates))


def test_a_join_shows_both_sides() -> None:
    assert drawn(ads()) == [
        "└─ INNER JOIN ON l.k = r.k",
        "   │  bounded",
        "   │  retains impressions for 4 hours",
        "   │  retains clicks for 2 hours (3 hours while the inputs are in sync)",
        "   │  uses the slowest watermark: a lagging or idle input delays state cleanup",
        "   ├─ watermark on shown, delay 2 hours",
        "   │  └─ impressions (files)",
        "   └─ watermark on clicked, delay 3 hours",
        "      └─ clicks (files)",
    ]


def test_what_is_missing_is_shown_and_no_line_is_too_wide() -> None:
    query = facts(
        aggregation(window_key(), *(key(f"a_column_with_a_long_name_{n}") for n in range(5))), mode="update"
    )
    lines = drawn(query)
    assert "   │  missing: a watermark on `at`" in lines
    assert max(map(len, lines)) <= WIDTH


def test_a_query_without_operators_is_its_sources() -> None:
    assert drawn(facts()) == ["└─ rows (files)"]


@pytest.mark.parametrize(
    ("text", "name", "rate"),
    [
        ("clicks=1000/s", "clicks", 1000),
        ("clicks = 600/m", "clicks", 10),
        ("a=7,200/h", "a", 2),
        ("a=86400/d", "a", 1),
        # A bare number is per second.
        ("a=2.5", "a", 2.5),
    ],
)
def test_rates_are_read(text: str, name: str, rate: float) -> None:
    assert parse_rate(text) == (name, rate)


@pytest.mark.parametrize(
    "text", ["clicks", "=5", "clicks=many", "clicks=5/fortnight", "clicks=-5", "clicks="]
)
def test_what_is_no_rate_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_rate(text)


def test_unknown_names_get_the_nearest() -> None:
    problems = rate_problems(["click", "zzz", "clicks"], ["clicks"])
    assert [(each.params["name"], each.params["hint"]) for each in problems] == [
        ("click", "Did you mean `clicks`? "),
        ("zzz", ""),
    ]


def test_rows_are_the_rate_times_the_time_that_they_are_kept() -> None:
    query = ads()
    assert rows_kept(query, bounds_of(query), {"clicks": 1000.0, "impressions": 10.0}) == (
        RetainedRows(2, "impressions", 144_000),
        RetainedRows(2, "clicks", 7_200_000, 10_800_000),
    )
    assert [each.what for each in rows_kept(query, bounds_of(query), {"clicks": 1.0})] == ["clicks"]
    shown = " ".join("".join(drawn(query, clicks=1.0)).replace("│", " ").split())
    assert "clicks for 2 hours, at most 7,200 rows (3 hours, 10,800 rows, while" in shown


def test_a_row_counts_in_each_window_that_it_is_in() -> None:
    windows = window_key(HOUR, 30 * MINUTE, watermarked=True, delay_ms=0)
    query = facts(watermark(delay_ms=0), aggregation(windows, inputs=(0,)))
    assert [each.rows for each in rows_kept(query, bounds_of(query), {"rows": 1.0})] == [7_200]


def test_behind_another_stateful_operator_no_rate_is_known() -> None:
    query = ads()
    over = aggregation(
        window_key(watermarked=True, delay_ms=HOUR), inputs=(2,), streams=("impressions", "clicks")
    )
    chained = replace(query, operators=(*query.operators, over))
    rows = rows_kept(chained, bounds_of(chained), {"clicks": 1.0, "impressions": 1.0})
    assert {each.operator for each in rows} == {2}
