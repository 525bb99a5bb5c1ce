"""The sinks that nobody declares: one for each source or table that quarantines rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.engine.pipeline_file import load
from headwater.plan.quarantine import quarantine_of, with_quarantine
from headwater.values import Unpaced, parse_trigger

PIPELINE = """
name: orders
sources:
  orders:
    connector: kafka
    bootstrap_servers: localhost:9092
    topic: orders
    format: json
    schema: {id: int}
    bad_rows: BAD
tables:
  large: SELECT id FROM orders WHERE id > 10
sinks:
  first: {reads: large, connector: console, trigger: TRIGGER}
  second: {reads: orders, connector: console, trigger: every 5 seconds}
"""


def test_a_quarantine_is_a_files_sink_in_the_run_folder(tmp_path: Path) -> None:
    file = tmp_path / "p.yml"
    file.write_text(PIPELINE.replace("BAD", "quarantine").replace("TRIGGER", "available now"))
    spec = load(file)
    added = with_quarantine(spec).sinks[len(spec.sinks) :]
    (sink,) = added
    assert (sink.name, sink.reads, sink.connector, sink.is_quarantine) == (
        "quarantine.orders",
        "orders",
        "files",
        True,
    )
    assert sink.options.model_dump()["path"] == str(tmp_path / ".headwater/quarantine/orders/rows")
    # The second query goes on for ever, so the quarantine does.
    assert sink.trigger == parse_trigger("every 5 seconds")
    assert sink.position is not None
    assert sink.position.line == 10


@pytest.mark.parametrize(
    ("first", "second", "trigger"),
    [
        ("once", "available now", "available now"),
        ("once", "once", "once"),
        ("once", "every 5 seconds", "every 5 seconds"),
        ("continuous 1 second", "once", None),
        ("every 1 minute", "every 5 seconds", "every 1 minute"),
    ],
)
def test_a_quarantine_lasts_as_long_as_any_query_that_it_serves(
    first: str, second: str, trigger: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "p.yml"
    text = PIPELINE.replace("BAD", "quarantine").replace("every 5 seconds", second).replace("TRIGGER", first)
    file.write_text(text)
    (sink,) = with_quarantine(load(file)).sinks[2:]
    assert sink.trigger == (parse_trigger(trigger) if trigger else Unpaced())


def test_tasks_that_never_end_leave_the_quarantine_to_others(tmp_path: Path) -> None:
    file = tmp_path / "p.yml"
    file.write_text(PIPELINE.replace("BAD", "quarantine").replace("TRIGGER", "continuous 1 second"))
    (sink,) = with_quarantine(load(file)).sinks[2:]
    assert sink.trigger == parse_trigger("every 5 seconds")


def test_other_ways_with_bad_rows_need_none(tmp_path: Path) -> None:
    for word in ("fail", "drop", "keep"):
        file = tmp_path / "p.yml"
        file.write_text(PIPELINE.replace("BAD", word).replace("TRIGGER", "once"))
        spec = load(file)
        assert with_quarantine(spec) is spec
    assert quarantine_of("orders") == "quarantine.orders"


def test_a_source_has_a_quarantine_where_offline_nobody_knows_who_reads_it(tmp_path: Path) -> None:
    """Rows that are bad to the query must not be lost because only Spark can read its SQL."""
    file = tmp_path / "p.yml"
    text = PIPELINE.replace("BAD", "quarantine").replace("TRIGGER", "every 5 seconds")
    text = text.replace("id FROM orders", "k:a.b FROM orders").replace("reads: orders", "reads: large")
    file.write_text(text)
    spec = load(file)
    assert [sink.name for sink in with_quarantine(spec).sinks] == ["first", "second", "quarantine.orders"]
