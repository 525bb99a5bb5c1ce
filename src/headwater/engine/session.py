"""One Spark session object per pipeline, in one JVM per process."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from pyspark import cloudpickle
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from headwater.checkpoint import STATE_FORMAT
from headwater.connectors import all_connectors
from headwater.engine.launch import JARS, Launch, launch_spark
from headwater.engine.spark_metrics import METRICS_ENABLED, late_metrics
from headwater.errors import Problem, SetupError
from headwater.errors.catalogue.running import JARS_ADDED_TOO_LATE, SETTING_TOO_LATE
from headwater.events import Emit
from headwater.events.counts import BranchCounts
from headwater.spark.jvm import Jvm, start_context
from headwater.spark.local_files import install_file_filter
from headwater.spark.output_rows import OutputRows, output_rows
from headwater.spark.session import (
    FASTER_FILE_MANAGER,
    ROCKSDB,
    add_jar,
    is_static_setting,
    offset_metadata,
    register_installed,
)
from headwater.spec import PipelineSpec, WatermarkPolicy
from headwater.spec.paths import is_uri
from headwater.values import Continuous

# Jars that are added to a running JVM.


def add_to(spark: SparkSession, jars: tuple[str, ...]) -> tuple[str, ...]:
    """Add jars to a session whose JVM was started without them; returns these."""
    # Not `getConf`, which copies the settings one by one, each with a call into the JVM.
    started_with = {part for part in (spark.conf.get(JARS, "") or "").split(",") if part}
    late = tuple(jar for jar in jars if jar not in started_with)
    for jar in late:
        add_jar(spark, jar)
    return late


def late_problems(spec: PipelineSpec, late: tuple[str, ...]) -> dict[str, Problem]:
    """What cannot run with jars that were added after Spark's start, by sink.

    Tasks then load their classes a second time. Epochs consist of objects that a task sends to the driver
    unchanged, and the driver does not know their classes: rows would flow, but no epoch would be committed.
    """
    return {
        sink.name: JARS_ADDED_TOO_LATE.at(
            sink.at("trigger"), sink=sink.name, trigger=str(sink.trigger), jars=",".join(late)
        )
        for sink in spec.sinks
        if late and isinstance(sink.trigger, Continuous)
    }


# The half of a connector that talks to Spark, and how its code reaches the executors.

_OWN = __name__.partition(".")[0]


def send_by_value(connector: str) -> None:
    """Ensure that Spark sends what an external package passes to it as a whole, not by name.

    The executors may not have the package, and could not import it, because importing it imports Headwater.
    """
    for module in all_connectors()[connector].modules:
        package = package_of(sys.modules[module])
        if package.__name__ != _OWN:
            cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]


def package_of(module: ModuleType) -> ModuleType:
    """The outermost package of a module; a namespace package does not count."""
    parts = module.__name__.split(".")
    names = (".".join(parts[:length]) for length in range(1, len(parts)))
    return next((sys.modules[name] for name in names if sys.modules[name].__file__), module)


# Spark's settings for a pipeline: good defaults at the first start, fixed from then on.

PARTITIONS = "spark.sql.shuffle.partitions"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
TIMEZONE = "spark.sql.session.timeZone"

STATE = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    STATE_FORMAT: "2",
}
"""How state is stored. RocksDB with a changelog writes only changes; format 2 allows rewinding."""

FROZEN = (PARTITIONS, *STATE)
"""What a checkpoint keeps from its first start: Spark freezes some of it, the rest must not change either."""

COUNTED = {
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.json.filterPushdown.enabled": "false",
}
"""No filters in the parser: a row that it skips is not counted as read, and not detected as bad."""

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\d+)?\])?$")


@dataclass(frozen=True)
class Setting:
    """One setting of a query, and where its value comes from."""

    key: str
    value: str
    origin: str
    """`auto` (chosen by Headwater), `config` (set by the user), or `checkpoint` (from the first start)."""
    passed_over: str | None = None
    """The user's current value, if it differs from the one of the first start."""


def cores_of(master: str, settings: Mapping[str, str], machine_cores: int, running_cores: int) -> int:
    """The cores that the configured cluster will have, not those that are available at the start."""
    local = _LOCAL.match(master)
    if local:
        return machine_cores if local[1] == "*" else int(local[1] or 1)
    if "spark.cores.max" in settings:
        return int(settings["spark.cores.max"])
    if "spark.executor.instances" in settings:
        return int(settings["spark.executor.instances"]) * int(settings.get("spark.executor.cores", "1"))
    return running_cores


def query_settings(
    spec: PipelineSpec, given: Mapping[str, str], cores: int, kept: Mapping[str, str]
) -> tuple[Setting, ...]:
    """The settings of one query: from its first start, set by the user, or chosen automatically."""
    chosen = {PARTITIONS: str(max(1, cores)), **STATE}
    settings = [_setting(key, chosen[key], given, kept) for key in FROZEN]
    settings.append(Setting(TIMEZONE, spec.timezone, "config" if spec.timezone != "UTC" else "auto"))
    policy = "max" if spec.watermark_policy is WatermarkPolicy.FASTEST else "min"
    settings.append(Setting("spark.sql.streaming.multipleWatermarkPolicy", policy, "auto"))
    # It checks and then renames. This is safe only if one process writes, which our lock ensures.
    settings.append(_setting(FILE_MANAGER, FASTER_FILE_MANAGER, given, {}))
    settings += [_setting(key, value, given, {}) for key, value in COUNTED.items()]
    named = {setting.key for setting in settings}
    settings += [Setting(key, value, "config") for key, value in sorted(given.items()) if key not in named]
    return tuple(settings)


def _setting(key: str, chosen: str, given: Mapping[str, str], kept: Mapping[str, str]) -> Setting:
    if key in kept:
        wanted = given.get(key)
        return Setting(key, kept[key], "checkpoint", wanted if wanted != kept[key] else None)
    if key in given:
        return Setting(key, given[key], "config")
    return Setting(key, chosen, "auto")


WAREHOUSE = "spark.sql.warehouse.dir"
REDACTED_OPTIONS = "spark.sql.redaction.options.regex"
JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")

# PySpark prints every rejected SQL text as JSON on stderr; the rejection itself reaches us as an exception.
# Its own logger class must be the first one under these names: it gets arguments that no other accepts.
for _name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    PySparkLogger.getLogger(_name).disabled = True


@dataclass(frozen=True)
class PipelineSession:
    """A separate session for one pipeline: views, settings and listeners do not mix with those of others."""

    spark: SparkSession
    jvm: Jvm
    given: Mapping[str, str]
    """The user's settings: of the file, overridden by the command line; redaction of secrets is added."""
    cores: int
    late_jars: tuple[str, ...] = ()
    """The jars of connectors that were added after the start of the JVM."""
    output_rows: OutputRows | None = None
    """The numbers of rows that the queries of this session write, where Spark's sinks do not report them."""
    branch_counts: BranchCounts = field(default_factory=BranchCounts)
    """What the queries of sink groups count outside of Spark's report."""

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
    emit: Emit = lambda event: None,
) -> PipelineSession:
    """The pipeline's session; the first one in the process starts the JVM."""
    launched = launch_spark(
        spec,
        master=master,
        conf=conf,
        spark_ui=spark_ui,
        logs=logs,
        stdout=stdout,
        emit=emit,
        metrics=False,
    )
    return connect(spec, launched, stdout)


def connect(spec: PipelineSpec, launched: Launch, stdout: Callable[[str], None]) -> PipelineSession:
    """The pipeline's session in a JVM that was launched for it, or in the one that was there before."""
    jvm = start_context(
        launched.settings,
        java=launched.java,
        log_folder=launched.logs,
        stdout=stdout,
        launched=launched.process,
    )
    try:
        return _session_in(jvm, spec, launched)
    except BaseException:
        jvm.stop()
        raise


def _session_in(jvm: Jvm, spec: PipelineSpec, launched: Launch) -> PipelineSession:
    given, jars = launched.given, launched.jars
    spark = SparkSession(jvm.context).newSession()
    late = add_to(spark, jars)
    register_installed(spark)
    install_file_filter(spark)
    if not jvm.owned:
        _refuse_late_settings(spark, given, spec)
        if METRICS_ENABLED in launched.settings:
            _switch_metrics_on(spark, launched, spec)
    widened = _with_secret_options_hidden(spark, spec, given)
    cores = cores_of(
        str(jvm.context.master),
        given,
        machine_cores=os.cpu_count() or 1,
        running_cores=jvm.context.defaultParallelism,
    )
    return PipelineSession(spark, jvm, widened, cores, late, output_rows(spark))


def _with_secret_options_hidden(
    spark: SparkSession, spec: PipelineSpec, given: Mapping[str, str]
) -> Mapping[str, str]:
    """Extend Spark's redaction to every option that contains a secret: its plans then show `***`.

    A user's own pattern is also extended in the settings, because each query sets those again.
    """
    secret = frozenset[str]().union(*(thing.options.hidden_options() for thing in spec.connected))
    if not secret:
        return given
    before = given.get(REDACTED_OPTIONS, spark.conf.get(REDACTED_OPTIONS) or "")
    widened = "|".join((before, *map(re.escape, sorted(secret)))).lstrip("|")
    spark.conf.set(REDACTED_OPTIONS, widened)
    return {**given, REDACTED_OPTIONS: widened} if REDACTED_OPTIONS in given else given


def _refuse_late_settings(spark: SparkSession, given: Mapping[str, str], spec: PipelineSpec) -> None:
    """Settings that need a new JVM, in a process whose JVM was started elsewhere with different ones."""
    running = dict(spark.sparkContext.getConf().getAll())
    for key, value in given.items():
        if not _holds(running.get(key), key, value) and not _takes(spark, key):
            raise SetupError(
                SETTING_TOO_LATE.at(
                    spec.setting_place(key, value), key=key, value=value, now=running.get(key, "unset")
                )
            )


def _switch_metrics_on(spark: SparkSession, launched: Launch, spec: PipelineSpec) -> None:
    """Queries report to the metrics of a Spark that was started elsewhere, if it has the sinks for them."""
    late = late_metrics(spec, dict(spark.sparkContext.getConf().getAll()))
    if late:
        raise SetupError(*late)
    spark.conf.set(METRICS_ENABLED, launched.settings[METRICS_ENABLED])


def _holds(now: str | None, key: str, value: str) -> bool:
    if key == WAREHOUSE and now is not None and not is_uri(value):
        # Once Spark is running, the directory of its tables is a URL.
        return now.removeprefix("file:") == os.path.abspath(value)
    if key == JARS:
        # Those of connectors and of `jars:` are added to the user's.
        return set(value.split(",")) <= set((now or "").split(","))
    # Spark puts its own options before those of the user.
    return now == value or (key in JAVA_OPTIONS and (now or "").endswith(f" {value}"))


def _takes(spark: SparkSession, key: str) -> bool:
    """Whether a session can have its own value of this setting.

    Spark only reports this for registered keys; those of RocksDB and of catalogs are not among them.
    """
    if spark.conf.isModifiable(key):
        return True
    return key.startswith("spark.sql.") and not is_static_setting(spark, key)


# The settings that Spark freezes in a checkpoint, in the form in which it writes them.


def settings_line(session: PipelineSession, settings: tuple[Setting, ...]) -> str:
    """The line of a batch in `offsets/N` before any watermark was reached, as Spark itself writes it."""
    session.apply(settings)
    line = json.loads(offset_metadata(session.spark, int(time.time() * 1000)))
    # What Spark sets only inside a query has no value yet; it comes from the session under the same name.
    frozen = line["conf"].items()
    line["conf"] = {key: value or session.spark.conf.get(key) for key, value in frozen}
    return json.dumps(line, separators=(",", ":"))
