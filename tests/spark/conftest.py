"""One JVM for all Spark tests of a process: every api call below finds it and uses it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.engine.java import find_java
from headwater.engine.jvm import start_context


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkContext]:
    """The process's Spark context, on two cores."""
    folder = tmp_path_factory.mktemp("jvm")
    settings = {
        "spark.master": "local[2]",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.memory": "2g",
    }
    jvm = start_context(settings, java=find_java(), log_folder=folder, stdout=lambda line: None)
    yield jvm.context
    jvm.stop()


@pytest.fixture
def spark(context: SparkContext) -> SparkSession:
    """A session of its own for one test."""
    return SparkSession(context).newSession()
