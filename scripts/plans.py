"""Record the plans of tests/plans.py: `make plans`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.engine.plan_record import Owners, record_of
from tests.plans import RECORDED, comparable, frames_of, queries_of


def main() -> None:
    """Write a file for each query."""
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        frames = frames_of(spark, Path(folder))
        streams = {name.removeprefix("raw_"): frame for name, frame in frames.items() if "raw_" in name}
        for name, query in queries_of(spark, frames).items():
            record = record_of(query, streams, Owners.of({**frames, name: query}))
            (RECORDED / f"{name}.json").write_text(comparable(record.to_json()), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
