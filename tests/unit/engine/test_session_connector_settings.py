"""Settings that connectors need before Spark starts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headwater.connectors import sink_side, source_side
from headwater.engine.launch import EXTENSIONS, with_connector_settings
from tests.unit.specs import spec_of

PIPELINE = """
name: shop
sources: {clicks: {connector: rate}}
sinks: {out: {reads: clicks, connector: noop}}
"""


def test_they_stand_below_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_source(options: object) -> Mapping[str, str]:
        return {EXTENSIONS: "a.Read", "spark.sql.catalog.lake": "a.Catalog", "spark.lake.size": "1"}

    def of_sink(options: object) -> Mapping[str, str]:
        return {EXTENSIONS: "a.Read,b.Write"}

    monkeypatch.setattr(source_side("rate"), "spark_settings", of_source)
    monkeypatch.setattr(sink_side("noop"), "spark_settings", of_sink)
    given = {EXTENSIONS: "own.Extension", "spark.lake.size": "2"}
    assert with_connector_settings(spec_of(PIPELINE), given) == {
        EXTENSIONS: "own.Extension,a.Read,b.Write",
        "spark.sql.catalog.lake": "a.Catalog",
        "spark.lake.size": "2",
    }


def test_without_any_the_users_are_unchanged() -> None:
    assert with_connector_settings(spec_of(PIPELINE), {"spark.a": "1"}) == {"spark.a": "1"}
