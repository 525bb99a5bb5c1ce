"""One JVM for all Spark tests of a process: every api call below finds it and uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext

from headwater.spark.java import find_java
from headwater.spark.jvm import start_context
from tests.short_lives import java_options


@contextmanager
def shared_context(
    folder: Path, stdout: Callable[[str], None], jars: Iterable[str] = ()
) -> Iterator[SparkContext]:
    """The process's Spark context, on two cores; `stdout` gets what the JVM prints."""
    settings = {
        "spark.jars": ",".join(jars),
        "spark.master": "local[2]",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": java_options(),
    }
    jvm = start_context(settings, java=find_java(), log_folder=folder, stdout=stdout)
    try:
        yield jvm.context
    finally:
        jvm.stop()
