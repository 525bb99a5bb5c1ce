"""Launches the JVM of a pipeline: its settings, its jars, its process.

Nothing here imports PySpark: while the JVM starts, Python loads PySpark and the rest of the engine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from headwater.connectors import sink_side, source_side
from headwater.engine.spark_metrics import create_csv_directory, metrics_settings
from headwater.errors import PipelineError, SetupError
from headwater.errors.catalogue.environment import JAR_UNSUPPORTED
from headwater.errors.catalogue.notices import JAR_DOWNLOADED
from headwater.events import Emit, Notice
from headwater.jars import Artifact, JarStore, Taken, artifacts
from headwater.jars.cache import REPOSITORY, ivy_fetch
from headwater.loaders.whole import setting_problem
from headwater.run_directory import RunDirectory
from headwater.spark.java import Java, find_java
from headwater.spark.launch import JvmProcess, has_jvm, launch, spark_home
from headwater.spec import PipelineSpec

MASTER = "spark.master"
SPARK_UI = "spark.ui.enabled"
JARS = "spark.jars"
DEFAULT_MASTER = "local[*]"
FAIR = "spark.scheduler.mode"
EXTENSIONS = "spark.sql.extensions"
OWN_QUERY_FAILS = {"spark.executor.killOnFatalError.depth": "0"}
"""A task that runs out of memory fails its query. By default, Spark ends the process, and all queries with it."""


@dataclass(frozen=True)
class Launch:
    """How the JVM of a pipeline starts, and its process unless this Python already has a JVM."""

    given: Mapping[str, str]
    """The user's settings and those that connectors need."""
    jars: tuple[str, ...]
    settings: Mapping[str, str]
    java: Java
    logs: Path
    process: JvmProcess | None

    def abandon(self) -> None:
        """End a JVM that no session uses."""
        if self.process is not None:
            self.process.abandon()


def launch_spark(
    spec: PipelineSpec,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    spark_ui: bool = False,
    logs: Path | None = None,
    stdout: Callable[[str], None],
    emit: Emit = lambda event: None,
    besides: Sequence[PipelineSpec] = (),
    metrics: bool = True,
) -> Launch:
    """Start the process of the JVM for a pipeline; `open_session` connects to it.

    `besides` are other pipelines that will run in it: it also starts with their jars and settings. Without
    `metrics`, the pipeline's `spark_metrics` has no effect.
    """
    given = given_settings(spec, conf or {}, master=master, spark_ui=spark_ui)
    # Settings that Spark would ignore, or that have a dedicated key in the pipeline file.
    refused = [problem for problem in map(setting_problem, given) if problem]
    if refused:
        raise PipelineError.of(refused)
    given = with_connector_settings(spec, given)
    jars = jars_of(spec, emit)
    folder, java = logs or RunDirectory(spec.run_dir).logs, find_java()
    measured = (*besides, spec) if metrics else ()
    shared = {key: value for each in measured for key, value in metrics_settings(each).items()}
    if has_jvm():
        return Launch(given, jars, context_settings(spec, {**shared, **given}, jars), java, folder, None)
    for each in measured:
        create_csv_directory(each)
    shared |= {key: value for each in besides for key, value in _process_settings(each).items()}
    every = dict.fromkeys((*jars, *(jar for each in besides for jar in jars_of(each, emit))))
    settings = context_settings(spec, _with_extensions({**shared, **given}, shared, given), tuple(every))
    process = launch(settings, java=java, log_folder=folder, stdout=stdout)
    return Launch(given, jars, settings, java, folder, process)


def _process_settings(spec: PipelineSpec) -> dict[str, str]:
    """The settings of a pipeline that its session cannot have for itself."""
    given = with_connector_settings(spec, spec.spark)
    of_sessions = ("spark.sql.", JARS)
    of_processes = (EXTENSIONS, "spark.sql.catalog.", "spark.sql.warehouse.")
    return {
        key: value
        for key, value in given.items()
        if not key.startswith(of_sessions) or key.startswith(of_processes)
    }


def _with_extensions(settings: Mapping[str, str], *each: Mapping[str, str]) -> dict[str, str]:
    """The settings with the extensions of all; each pipeline adds its own."""
    named = [name.strip() for one in each for name in one.get(EXTENSIONS, "").split(",") if name.strip()]
    return {**settings, **({EXTENSIONS: ",".join(dict.fromkeys(named))} if named else {})}


def given_settings(
    spec: PipelineSpec, conf: Mapping[str, str], *, master: str | None, spark_ui: bool
) -> dict[str, str]:
    """The user's settings: from the file, overridden by `--conf`, overridden by a dedicated option."""
    options = {MASTER: master} if master else {}
    if spark_ui:
        options[SPARK_UI] = "true"
    return {**spec.spark, **conf, **options}


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


def context_settings(spec: PipelineSpec, given: Mapping[str, str], jars: tuple[str, ...]) -> dict[str, str]:
    # By default, spark-submit has one.
    default = {} if "PYSPARK_GATEWAY_PORT" in os.environ else {MASTER: DEFAULT_MASTER}
    # A JVM's class path is complete when it starts; the user's values are kept.
    with_jars = {JARS: ",".join([*filter(None, [given.get(JARS)]), *jars])} if jars else {}
    return {
        "spark.app.name": f"headwater {spec.name}",
        **OWN_QUERY_FAILS,
        **default,
        **given,
        FAIR: "FAIR",
        **with_jars,
    }


# The jars of a pipeline: found before the JVM starts, since its class path is complete then.


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
        # The one of the package: a SPARK_HOME may lack it.
        (ivy,) = (spark_home({}) / "jars").glob("ivy-*.jar")
        return ivy_fetch(find_java(environ).executable, ivy, environ.get(REPOSITORY, ""))(wanted, folder)

    return JarStore.of(environ, fetch)
