"""The program of a child process that runs one hand-written query with plain PySpark, and writes its progress."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main() -> None:
    """Start the query of the named function, wait for its end, and write what Spark reported about its batches."""
    description = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    builder = SparkSession.builder.appName("by hand")
    for key, value in description["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    module, _, function = description["job"].partition(":")
    start = getattr(importlib.import_module(module), function)
    query = start(spark, Path.cwd(), **description["parameters"])
    query.awaitTermination()
    reports = [json.loads(progress.json) for progress in query.recentProgress]
    Path(description["progress"]).write_text(json.dumps(reports), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
