"""The recorded plans on which the facts are tested are those that Spark makes today."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.engine.plan_record import Owners, record_of
from tests.plans import PYTHON, RECORDED, SQL, comparable, frames_of, queries_of


@pytest.fixture
def spark(context: object) -> SparkSession:
    return SparkSession.builder.getOrCreate().newSession()


def test_spark_makes_the_recorded_plans(spark: SparkSession, tmp_path: Path) -> None:
    frames = frames_of(spark, tmp_path)
    streams = {name.removeprefix("raw_"): frame for name, frame in frames.items() if name.startswith("raw_")}
    queries = queries_of(spark, frames)
    assert {file.stem for file in RECORDED.glob("*.json")} == set(SQL) | set(PYTHON)
    for name, query in queries.items():
        record = record_of(query, streams, Owners.of({**frames, name: query}))
        recorded = RECORDED / f"{name}.json"
        fresh = comparable(record.to_json())
        assert recorded.read_text(encoding="utf-8") == fresh, (
            f"{name}: run `make plans` and look at the change"
        )
