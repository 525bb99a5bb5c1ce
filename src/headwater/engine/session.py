"""One Spark session object per pipeline, in one JVM per process."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from headwater.engine.java import find_java
from headwater.engine.jvm import Jvm, start_context
from headwater.engine.settings import MASTER, Setting, cores_of, master_of
from headwater.errors import EnvironmentProblem, PipelineError
from headwater.errors.catalogue.pipelines import SPARK_SETTING_FIXED
from headwater.errors.catalogue.running import SETTING_NEEDS_NEW_PROCESS
from headwater.loaders.whole import FIXED_SETTINGS
from headwater.spec import PipelineSpec
from headwater.values import Secret

DEFAULT_MASTER = "local[*]"
FAIR = "spark.scheduler.mode"
REDACTED_OPTIONS = "spark.sql.redaction.options.regex"

# PySpark prints every refused SQL text as JSON on stderr; the refusal itself reaches us as an exception.
# Its own kind of logger has to be the first one under these names: it gets arguments that no other takes.
for _name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    PySparkLogger.getLogger(_name).disabled = True


@dataclass(frozen=True)
class PipelineSession:
    """A session of its own for one pipeline: views, settings and listeners don't mix with another's."""

    spark: SparkSession
    jvm: Jvm
    given: Mapping[str, str]
    """The user's settings: of the file and, above them, of the command line."""
    cores: int

    def apply(self, settings: tuple[Setting, ...]) -> None:
        """Set what a query needs; Spark copies it when the query starts."""
        for setting in settings:
            if _takes(self.spark, setting.key):
                self.spark.conf.set(setting.key, setting.value)


def open_session(
    spec: PipelineSpec,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    spark_ui: bool = False,
    logs: Path | None = None,
    stdout: Callable[[str], None],
) -> PipelineSession:
    """The pipeline's session; the JVM is started by the first one in the process."""
    given = {**spec.spark, **(conf or {})}
    _refuse_fixed_settings(given)
    wanted = master_of(master, spec)
    jvm = start_context(
        _context_settings(spec, given, wanted, spark_ui),
        java=find_java(),
        log_folder=logs or log_folder(spec),
        stdout=stdout,
    )
    spark = SparkSession(jvm.context).newSession()
    _refuse_late_settings(spark, given, spec)
    _hide_secret_options(spark, spec)
    cores = cores_of(
        str(jvm.context.master),
        given,
        machine_cores=os.cpu_count() or 1,
        running_cores=jvm.context.defaultParallelism,
    )
    return PipelineSession(spark, jvm, given, cores)


def log_folder(spec: PipelineSpec) -> Path:
    """Where the full text of what Spark says goes."""
    return spec.folder / "logs"


def _context_settings(
    spec: PipelineSpec, given: Mapping[str, str], master: str | None, spark_ui: bool
) -> dict[str, str]:
    settings = {"spark.app.name": f"headwater {spec.name}", **given, FAIR: "FAIR"}
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if master or not submitted:
        settings[MASTER] = master or DEFAULT_MASTER
    if spark_ui:
        settings["spark.ui.enabled"] = "true"
    return settings


def _hide_secret_options(spark: SparkSession, spec: PipelineSpec) -> None:
    """Widen Spark's redaction to every option that holds a secret: its plans then show `***`."""
    secret = {
        key
        for thing in spec.connected
        for key, value in thing.options.options.items()
        if isinstance(value, Secret)
    }
    if secret:
        before = spark.conf.get(REDACTED_OPTIONS) or ""
        spark.conf.set(REDACTED_OPTIONS, "|".join((before, *map(re.escape, sorted(secret)))).lstrip("|"))


def _refuse_fixed_settings(given: Mapping[str, str]) -> None:
    """Settings that have a key of their own in the pipeline file, given with `--conf`."""
    fixed = [key for key in given if key in FIXED_SETTINGS]
    if fixed:
        raise PipelineError.of(
            SPARK_SETTING_FIXED.at(None, key=key, hint=FIXED_SETTINGS[key]) for key in fixed
        )


def _refuse_late_settings(spark: SparkSession, given: Mapping[str, str], spec: PipelineSpec) -> None:
    """Settings that only a new JVM takes, in a process whose JVM has others already."""
    running = dict(spark.sparkContext.getConf().getAll())
    for key, value in given.items():
        if running.get(key) != value and not _takes(spark, key):
            raise EnvironmentProblem(
                SETTING_NEEDS_NEW_PROCESS.at(
                    spec.position, key=key, value=value, now=running.get(key, "unset")
                )
            )


def _takes(spark: SparkSession, key: str) -> bool:
    """Whether a session can have this setting of its own.

    Spark says so only of keys that it has registered; those of RocksDB and of catalogs are not among them.
    """
    if spark.conf.isModifiable(key):
        return True
    jvm: Any = spark._jvm
    known = jvm.org.apache.spark.sql.internal.SQLConf
    return key.startswith("spark.sql.") and not known.isStaticConfigKey(key)
