"""The settings of a session: whose word counts, what a running Spark has already, what is hidden."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.engine.session import (
    JARS,
    REDACTED_OPTIONS,
    WAREHOUSE,
    _holds,
    _with_secret_options_hidden,
    given_settings,
)
from tests.unit.specs import spec_of

PIPELINE = """
name: p
spark: {spark.master: "local[1]", spark.ui.enabled: "false", spark.a: file, spark.b: file}
sources: {clicks: {connector: rate, options: {token: "${secret:TOKEN}", a.b: "${secret:TOKEN}"}}}
sinks: {out: {reads: clicks, connector: noop}}
"""


@pytest.mark.parametrize(
    ("now", "value", "same"),
    [
        ("file:/data/warehouse", "/data/warehouse", True),
        (f"file:{os.getcwd()}/warehouse", "warehouse", True),
        ("file:/data/warehouse", "/data/other", False),
        ("hdfs://host/warehouse", "hdfs://host/warehouse", True),
        (None, "/data/warehouse", False),
    ],
)
def test_the_folder_of_tables(now: str | None, value: str, same: bool) -> None:
    assert _holds(now, WAREHOUSE, value) is same


def test_an_option_wins_over_conf_and_conf_over_the_file() -> None:
    spec = spec_of(PIPELINE)
    conf = {"spark.master": "local[2]", "spark.b": "conf"}
    above = {"spark.a": "file", "spark.b": "conf"}
    assert given_settings(spec, conf, master=None, spark_ui=False) == {
        **above,
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
    }
    assert given_settings(spec, conf, master="local[3]", spark_ui=True) == {
        **above,
        "spark.master": "local[3]",
        "spark.ui.enabled": "true",
    }


@pytest.mark.parametrize(
    ("now", "value", "same"),
    [
        ("/a.jar", "/a.jar", True),
        ("/a.jar,/cache/avro.jar", "/a.jar", True),
        ("/cache/avro.jar", "/a.jar", False),
        (None, "/a.jar", False),
    ],
)
def test_the_jars_of_connectors_stand_beside_those_of_the_user(
    now: str | None, value: str, same: bool
) -> None:
    assert _holds(now, JARS, value) is same


@pytest.mark.parametrize(
    ("given", "widened", "kept"),
    [
        ({}, "(?i)url|a\\.b|token", {}),
        ({REDACTED_OPTIONS: "pin"}, "pin|a\\.b|token", {REDACTED_OPTIONS: "pin|a\\.b|token"}),
        ({REDACTED_OPTIONS: ""}, "a\\.b|token", {REDACTED_OPTIONS: "a\\.b|token"}),
    ],
)
def test_what_hides_secret_options_outlives_the_user_s_own_pattern(
    given: dict[str, str], widened: str, kept: dict[str, str]
) -> None:
    conf = {REDACTED_OPTIONS: "(?i)url"}
    spark: Any = SimpleNamespace(conf=SimpleNamespace(get=conf.get, set=conf.__setitem__))
    assert _with_secret_options_hidden(spark, spec_of(PIPELINE), given) == kept
    assert conf == {REDACTED_OPTIONS: widened}
