"""Expectations on tables: every row is judged and counted in each batch, and goes its declared way."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.api.batch import run_batch
from headwater.api.check import check
from headwater.api.quarantine import replay
from headwater.checks import Severity
from headwater.events import Event, Notice
from headwater.quarantine import CorrectedRow, Quarantine, quarantines, replay_rows
from headwater.runtime import RunOptions
from tests.pipelines import batches, feed, rows_of, run_until_idle, write

ORDERS = "{connector: files, path: in, format: json, schema: {id: int, cost: double, at: timestamp}"
PIPELINE = f"""
name: shop
sources:
  orders: {ORDERS}, max_files_per_batch: 1}}
tables:
  judged:
    sql: SELECT * FROM orders
    expect:
      positive: cost >= 0
      small: {{condition: cost < 100, on_violation: drop}}
      known: {{condition: cost IS NOT NULL, on_violation: quarantine}}
  twice: SELECT id FROM judged UNION ALL SELECT id FROM judged
  strict:
    sql: SELECT id, cost FROM orders
    expect:
      seen: {{condition: id > 0, on_violation: fail}}
      cheap: {{condition: id <> 6, on_violation: drop}}
  trusted:
    sql: SELECT id, cost FROM orders
    expect: {{priced: {{condition: cost IS NOT NULL, on_violation: quarantine}}}}
sinks:
  judged: {{reads: judged, connector: files, path: out, format: json}}
  twice: {{reads: twice, connector: files, path: twice, format: json}}
  strict: {{reads: strict, connector: files, path: strict, format: json}}
  trusted: {{reads: trusted, connector: files, path: trusted, format: json}}
"""
AT = "2026-01-31T12:00:00.123456Z"
FIRST = [(1, 5.0), (2, -5.0), (3, 500.0), (4, None)]
SECOND = [(5, 7.0), (6, None), (0, -1.0)]


def orders(folder: Path, name: str, rows: list[tuple[int, float | None]], at: int) -> None:
    feed(folder / "in", name, [{"id": id_, "cost": cost, "at": AT} for id_, cost in rows], at)


def counts(events: list[Event], query: str) -> list[dict[str, Any]]:
    """What each batch of a query counted."""
    found = [
        {name: each.to_json() for name, each in event.table_counts.items()}
        for event in batches(events, query)
    ]
    return [each for each in found if any(counted["rows"] for counted in each.values())]


def quarantine_of(folder: Path) -> Quarantine:
    """That of the table `judged`."""
    judged, trusted = quarantines(folder / ".headwater")
    assert (judged.name, trusted.name) == ("judged", "trusted")
    return judged


def quarantined_rows(folder: Path) -> list[tuple[str, str | None, Any]]:
    rows = list(quarantine_of(folder).rows())
    assert {row.source for row in rows} == {"judged"}
    assert {row.where for row in rows} <= {""}
    found = [(row.reason, row.detail, json.loads(row.value or b"")) for row in rows]
    return sorted(found, key=lambda each: each[2]["id"])


@pytest.mark.feature("K3")
def test_rows_are_counted_dropped_set_aside_or_fail_the_query(spark: SparkSession, tmp_path: Path) -> None:
    file, events = write(tmp_path, PIPELINE), list[Event]()
    orders(tmp_path, "1", FIRST, at=1)
    orders(tmp_path, "2", SECOND, at=2)
    result = run_until_idle(file, events)

    of_first = {"positive": 2, "small": 2, "known": 1}
    of_second = {"positive": 2, "small": 1, "known": 1}
    each = [{"judged": {"rows": 4, "failed": of_first}}, {"judged": {"rows": 3, "failed": of_second}}]
    # A table that is read twice in one query is not counted twice.
    assert (counts(events, "judged"), counts(events, "twice")) == (each, each)
    kept = [(1, 5.0), (2, -5.0), (5, 7.0), (0, -1.0)]
    assert rows_of(spark, tmp_path / "out", schema="id int, cost double") == Counter(kept)
    assert rows_of(spark, tmp_path / "twice", schema="id int") == Counter({(id_,): 2 for id_, _ in kept})
    quarantined = [
        ("expectation", "positive, small, known", {"id": id_, "cost": None, "at": AT}) for id_ in (4, 6)
    ]
    assert quarantined_rows(tmp_path) == quarantined
    total = {"positive": 4, "small": 3, "known": 2}
    assert result.queries["judged"].expectations == {"judged": {"rows": 7, "failed": total}}
    # Each is said once in a run, although two queries read the table.
    notices = [event for event in events if isinstance(event, Notice)]
    said = [event.fields for event in notices if event.code == "HW-EXPECTATION-VIOLATED"]
    assert sorted(fields["expectation"] for fields in said) == ["known", "positive", "priced", "small"]

    # The batch with the row that must not be failed the query; the one before it is there.
    assert counts(events, "strict") == [{"strict": {"rows": 4, "failed": {"seen": 0, "cheap": 0}}}]
    problem: Any = result.queries["strict"].problem
    assert (result.exit_code, problem.code, problem.place.line) == (1, "HW-EXPECTATION-FAILED", 16)
    assert problem.params == {
        "table": "strict",
        "expectation": "seen",
        "condition": "id > 0",
        "row": '{"id":0,"cost":-1.0}',
    }
    assert rows_of(spark, tmp_path / "strict", schema="id int, cost double") == Counter(FIRST)

    # A mended row and one that is still bad flow again.
    quarantine = quarantine_of(tmp_path)
    fourth = next(row for row in quarantine.rows() if json.loads(row.value or b"")["id"] == 4)
    mended = {fourth.id: [CorrectedRow(json.dumps({"id": 4, "cost": 4.0, "at": AT}).encode())]}
    assert replay_rows(quarantine, lambda row: row.id == fourth.id, mended).rows == 1
    assert replay_rows(quarantine, lambda row: True).rows == 1
    lines = PIPELINE.replace("id > 0", "id >= 0").splitlines()
    lines = [line for line in lines if not line.startswith(("  twice:", "    expect: {"))]
    write(tmp_path, "\n".join(lines))
    # Of another table nothing is expected any more, and its rows go on as they were quarantined.
    assert replay(file, "trusted").rows == 2
    again = run_until_idle(file)
    assert {name: str(query.problem) for name, query in again.queries.items() if query.problem} == {}
    now = rows_of(spark, tmp_path / "out", schema="id int, cost double, at string")
    assert now == Counter([(*row, "2026-01-31T12:00:00.123Z") for row in [*kept, (4, 4.0)]])
    assert quarantined_rows(tmp_path) == [*quarantined, quarantined[1]]
    assert rows_of(spark, tmp_path / "trusted", schema="id int, cost double") == Counter([*FIRST, *SECOND])
    assert again.queries["trusted"].expectations == {}


REFUSED = f"""
name: shop
sources:
  orders: {ORDERS}}}
  ticks: {{connector: rate, num_partitions: 1}}
tables:
  judged:
    sql: SELECT id, cost FROM orders
    expect:
      unknown: costs > 0
      number: cost + 1
      summed: sum(cost) > 0
      windowed: row_number() OVER (ORDER BY id) > 1
      nested: cost > (SELECT max(cost) FROM orders)
      many: explode(array(true))
      random: rand() > 0.5
      spelt: cost > 0 extra words
      no_function: costly(cost)
  total:
    sql: SELECT id, sum(cost) AS cost FROM orders GROUP BY id
    expect:
      positive: {{condition: cost > 0, on_violation: quarantine}}
  clock:
    sql: SELECT id, cost FROM orders
    expect:
      past: {{condition: "id < unix_seconds(current_timestamp())", on_violation: quarantine}}
  quick:
    sql: SELECT value FROM ticks
    expect: {{even: {{condition: value % 2 = 0, on_violation: drop}}, small: value < 10}}
sinks:
  judged: {{reads: judged, connector: console}}
  total: {{reads: total, connector: console, mode: complete}}
  clock: {{reads: clock, connector: console}}
  quick: {{reads: quick, connector: console, trigger: continuous 1 second}}
"""


@pytest.mark.feature("K3", part="refused before the start")
def test_conditions_that_cannot_be_judged_are_refused_at_their_lines(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    found = [each for each in check(write(tmp_path, REFUSED)).findings if each.severity is Severity.ERROR]
    assert [(each.problem.code, each.problem.place.line if each.problem.place else 0) for each in found] == [
        ("HW-EXPECTATION-COLUMN-NOT-FOUND", 10),
        ("HW-EXPECTATION-NOT-BOOLEAN", 11),
        ("HW-EXPECTATION-NOT-PER-ROW", 12),
        ("HW-EXPECTATION-NOT-PER-ROW", 13),
        ("HW-EXPECTATION-NOT-PER-ROW", 14),
        ("HW-EXPECTATION-NOT-PER-ROW", 15),
        ("HW-EXPECTATION-NONDETERMINISTIC", 16),
        ("HW-EXPECTATION-SYNTAX", 17),
        ("HW-EXPECTATION-INVALID", 18),
        ("HW-EXPECTATION-QUARANTINE-STATEFUL", 22),
        ("HW-EXPECTATION-QUARANTINE-NONDETERMINISTIC", 26),
    ]
    what = [each.problem.params["what"] for each in found if "what" in each.problem.params]
    assert what == ["an aggregate function", "a window function", "a subquery", "a generator function"]


@pytest.mark.feature("K3", part="batch form")
def test_a_batch_run_judges_and_counts(spark: SparkSession, tmp_path: Path) -> None:
    strict = PIPELINE.index("  strict:\n    sql")
    file = write(
        tmp_path, PIPELINE[:strict] + PIPELINE[PIPELINE.index("sinks:") : PIPELINE.index("  strict: {")]
    )
    orders(tmp_path, "1", [*FIRST, *SECOND], at=1)
    events: list[Event] = []
    result = run_batch(
        file, RunOptions(), into=tmp_path / "all", stdout=lambda line: None, emit=events.append
    )
    total = {"positive": 4, "small": 3, "known": 2}
    assert {name: each.to_json() for name, each in result.expectations.items()} == {
        "judged": {"rows": 7, "failed": total}
    }
    assert result.rows == {"judged": 4, "twice": 8}
    assert [event.text for event in events if isinstance(event, Notice)] == [
        "judged: rows that failed `positive`: 4 of 7.",
        "judged: rows that failed `small`: 3 of 7.",
        "judged: rows that failed `known`: 2 of 7 (dropped; batch runs do not quarantine rows).",
    ]
