"""One Spark session object per pipeline, in one JVM per process."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pyspark
from pyspark import cloudpickle
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from headwater.checkpoint import STATE_FORMAT
from headwater.connectors import all_connectors, sink_side, source_side
from headwater.errors import PipelineError, Problem, SetupError
from headwater.errors.catalogue.environment import JAR_UNSUPPORTED
from headwater.errors.catalogue.notices import JAR_DOWNLOADED
from headwater.errors.catalogue.running import JARS_ADDED_TOO_LATE, SETTING_TOO_LATE
from headwater.events import Emit, Notice
from headwater.jars import Artifact, JarStore, Taken, artifacts
from headwater.jars.cache import REPOSITORY, ivy_fetch
from headwater.loaders.whole import setting_problem
from headwater.run_directory import RunDirectory
from headwater.spark.java import find_java
from headwater.spark.jvm import Jvm, start_context
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

# The jars of a pipeline: found before the JVM starts, or added to one that is running.

JARS = "spark.jars"


def jars_of(spec: PipelineSpec, emit: Emit, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Every jar that the pipeline needs besides Spark's own, its connectors' first; reports downloads."""
    needs = sorted(_needs(spec))
    own = [need for need in needs if need.endswith(".jar")]
    known = [artifact for need in needs if need not in own for artifact in artifacts_of(need)]
    store = jar_store(environ) if known else None
    taken: list[Taken] = [store.take(artifact) for artifact in known] if store else []
    for each in taken:
        if each.origin == "repository":
            emit(Notice.of(JAR_DOWNLOADED.at(None, jar=each.coordinates, directory=str(each.path.parent))))
    paths = [*(str(each.path) for each in taken), *own, *spec.jars]
    return tuple(dict.fromkeys(paths))


def _needs(spec: PipelineSpec) -> set[str]:
    """What the sources and sinks need that Spark does not have."""
    read = (source_side(source.connector).jars(source.options) for source in spec.sources)
    written = (sink_side(sink.connector).jars(sink.options) for sink in spec.sinks)
    return {need for needs in (*read, *written) for need in needs}


def artifacts_of(need: str) -> tuple[Artifact, ...]:
    """The jars of one need for the installed Spark."""
    spark = version("pyspark")
    found = artifacts(need, spark)
    if found is None:
        raise SetupError(JAR_UNSUPPORTED.at(need=need, spark=spark))
    return found


def jar_store(environ: Mapping[str, str] = os.environ) -> JarStore:
    """The jar store of this machine, which downloads with the Ivy that Spark ships."""

    def fetch(wanted: Sequence[tuple[str, str, str]], folder: Path) -> str:
        # Ivy is located only for a download: mostly the jar is in the cache.
        (ivy,) = Path(pyspark.__path__[0], "jars").glob("ivy-*.jar")
        return ivy_fetch(find_java(environ).executable, ivy, environ.get(REPOSITORY, ""))(wanted, folder)

    return JarStore.of(environ, fetch)


def add_to(spark: SparkSession, jars: tuple[str, ...]) -> tuple[str, ...]:
    """Add jars to a session whose JVM was started without them; returns these."""
    context: Any = spark.sparkContext
    started_with = {part for part in (context.getConf().get(JARS) or "").split(",") if part}
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
MASTER = "spark.master"
SPARK_UI = "spark.ui.enabled"

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


def given_settings(
    spec: PipelineSpec, conf: Mapping[str, str], *, master: str | None, spark_ui: bool
) -> dict[str, str]:
    """The user's settings: from the file, overridden by `--conf`, overridden by a dedicated option."""
    options = {MASTER: master} if master else {}
    if spark_ui:
        options[SPARK_UI] = "true"
    return {**spec.spark, **conf, **options}


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


DEFAULT_MASTER = "local[*]"
FAIR = "spark.scheduler.mode"
EXTENSIONS = "spark.sql.extensions"
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
    given = given_settings(spec, conf or {}, master=master, spark_ui=spark_ui)
    # Settings that Spark would ignore, or that have a dedicated key in the pipeline file.
    refused = [problem for problem in map(setting_problem, given) if problem]
    if refused:
        raise PipelineError.of(refused)
    given = with_connector_settings(spec, given)
    jars = jars_of(spec, emit)
    jvm = start_context(
        _context_settings(spec, given, jars),
        java=find_java(),
        log_folder=logs or RunDirectory(spec.run_dir).logs,
        stdout=stdout,
    )
    spark = SparkSession(jvm.context).newSession()
    late = add_to(spark, jars)
    register_installed(spark)
    if not jvm.owned:
        _refuse_late_settings(spark, given, spec)
    widened = _with_secret_options_hidden(spark, spec, given)
    cores = cores_of(
        str(jvm.context.master),
        given,
        machine_cores=os.cpu_count() or 1,
        running_cores=jvm.context.defaultParallelism,
    )
    return PipelineSession(spark, jvm, widened, cores, late)


def with_connector_settings(spec: PipelineSpec, given: Mapping[str, str]) -> dict[str, str]:
    """The user's settings and those that connectors need before Spark starts; the user's take precedence.

    Extensions are a list to which each adds its own, so that the user's and the connectors' are combined.
    """
    read = (source_side(each.connector).spark_settings(each.options) for each in spec.sources)
    written = (sink_side(each.connector).spark_settings(each.options) for each in spec.sinks)
    needed: dict[str, str] = {}
    extensions = given.get(EXTENSIONS, "").split(",")
    for settings in (*read, *written):
        extensions += settings.get(EXTENSIONS, "").split(",")
        needed.update(settings)
    united = ",".join(dict.fromkeys(each.strip() for each in extensions if each.strip()))
    return {**needed, **given, **({EXTENSIONS: united} if united else {})}


def _context_settings(spec: PipelineSpec, given: Mapping[str, str], jars: tuple[str, ...]) -> dict[str, str]:
    # By default, spark-submit has one.
    default = {} if "PYSPARK_GATEWAY_PORT" in os.environ else {MASTER: DEFAULT_MASTER}
    # A JVM's class path is complete when it starts; the user's values are kept.
    with_jars = {JARS: ",".join([*filter(None, [given.get(JARS)]), *jars])} if jars else {}
    return {"spark.app.name": f"headwater {spec.name}", **default, **given, FAIR: "FAIR", **with_jars}


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
