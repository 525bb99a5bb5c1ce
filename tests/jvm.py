"""One JVM for all Spark tests of a process: every api call below finds it and uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext

from headwater.engine.launch import OWN_QUERY_FAILS
from headwater.spark.java import find_java
from headwater.spark.jvm import start_context
from headwater.spark.jvm_log import LOG
from tests.short_lives import PATIENT, ROOM, java_options

STEP_BY_STEP = {"spark.sql.codegen.wholeStage": "false"}
"""For many queries over a few rows: a tenth of the time would go into compiling code for whole stages."""
SHOWN = 60
"""Lines of Spark's log and of Java's error file that say why a JVM is gone."""
LAST_ERROR = "SparkUncaughtExceptionHandler"
"""The logger of the error that ended the JVM; what follows in the log are its consequences."""


@contextmanager
def shared_context(
    folder: Path, stdout: Callable[[str], None], jars: Iterable[str] = (), **more: str
) -> Iterator[SparkContext]:
    """The process's Spark context, on two cores; `stdout` gets what the JVM prints, `more` are settings."""
    error_file = folder / "hs_err.log"
    settings = {
        "spark.jars": ",".join(jars),
        "spark.master": "local[2]",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **PATIENT,
        # As in a run: a fatal error of a task, such as a stack overflow, fails its query and not the JVM.
        **OWN_QUERY_FAILS,
        **more,
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f'{java_options()} {ROOM} "-XX:ErrorFile={error_file}"',
    }
    jvm = start_context(settings, java=find_java(), log_folder=folder, stdout=stdout)
    try:
        yield jvm.context
    finally:
        code = SparkContext._gateway.proc.poll() if SparkContext._gateway else None
        jvm.stop()
        if code is not None:
            # Raised, not printed: pytest shows it whole, however it captures what is printed.
            log, native = _lines(folder / LOG), _lines(error_file)[:SHOWN]
            first = next((number for number, line in enumerate(log) if LAST_ERROR in line), -SHOWN)
            log = log[first:][:SHOWN]
            raise RuntimeError("\n".join([f"the JVM ended by itself (exit code {code}):", *log, *native]))


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
