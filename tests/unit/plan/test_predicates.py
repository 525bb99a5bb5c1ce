"""What is known of Spark's own formats."""

from __future__ import annotations

import pytest

from headwater.plan.predicates import connector_format, name_for, place_of, sink_format, source_format

ALL = ("append", "update", "complete")


@pytest.mark.parametrize(
    ("format", "connector", "replayable", "known"),
    [
        ("parquet", "files", True, True),
        ("CSV", "files", True, True),
        ("rate", "rate", True, True),
        ("rate-micro-batch", "rate_per_batch", True, True),
        ("socket", "socket", False, True),
        ("kafka", "kafka", True, True),
        ("delta", "delta", True, True),
        ("acme", "acme", True, False),
        ("console", "console", True, False),
    ],
)
def test_sources(format: str, connector: str, replayable: bool, known: bool) -> None:
    found = source_format(format)
    assert (found.connector, found.replayable, found.known) == (connector, replayable, known)


@pytest.mark.parametrize(
    ("format", "connector", "modes", "delivery", "known"),
    [
        ("json", "files", ("append",), "IDEMPOTENT", True),
        ("console", "console", ALL, "DUPLICATES", True),
        ("foreachBatch", "foreach_batch", ALL, "USER", True),
        ("kafka", "kafka", ALL, "DUPLICATES", True),
        ("delta", "delta", ("append", "complete"), "IDEMPOTENT", True),
        ("acme", "acme", (), "", False),
        ("rate", "rate", (), "", False),
    ],
)
def test_sinks(format: str, connector: str, modes: tuple[str, ...], delivery: str, known: bool) -> None:
    found = sink_format(format)
    assert (found.connector, found.modes, found.delivery) == (connector, modes, delivery)
    assert found.known is known


def test_connectors() -> None:
    assert connector_format("files") == sink_format("parquet")
    assert not connector_format("rate").known
    assert not connector_format("acme").known


@pytest.mark.parametrize(
    ("options", "places", "name"),
    [
        ({"path": "/data/clicks/"}, ("/data/clicks/",), "clicks"),
        ({"path": "s3://b/clicks/*/*.json"}, ("s3://b/clicks/*/*.json",), "clicks"),
        ({"subscribe": "orders,returns"}, ("orders", "returns"), "orders"),
        ({"subscribePattern": "orders.*"}, ("orders.*",), "fmt"),
        ({"Host": "localhost", "port": "99"}, ("localhost:99",), "localhost:99"),
        ({"dbtable": "t"}, ("t",), "t"),
        ({"rowsPerSecond": "5"}, (), "fmt"),
    ],
)
def test_places_and_names(options: dict[str, str], places: tuple[str, ...], name: str) -> None:
    assert place_of(options) == places
    assert name_for("fmt", places) == name
