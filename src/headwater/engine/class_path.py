"""The jars of a pipeline: found before the JVM starts, added to one that runs already."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pyspark
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from headwater.connectors import all_connectors, sink_side, source_side
from headwater.errors import EnvironmentProblem, Problem
from headwater.errors.catalogue.environment import JAR_NOT_KNOWN
from headwater.errors.catalogue.running import JARS_TOO_LATE
from headwater.jars import Artifact, JarStore, Taken, artifacts
from headwater.jars.cache import REPOSITORY, ivy_fetch, ivy_fetch_many
from headwater.spark.java import find_java
from headwater.spark.session import add_jar
from headwater.spec import PipelineSpec
from headwater.values import Continuous

JARS = "spark.jars"


def jars_of(
    spec: PipelineSpec, say: Callable[[str], None], environ: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Every jar that the pipeline needs beyond Spark's own, its connectors' first; a fetch is said."""
    needs = sorted(_needs(spec))
    own = [need for need in needs if need.endswith(".jar")]
    known = [artifact for need in needs if need not in own for artifact in artifacts_of(need)]
    store = jar_store(environ) if known else None
    taken: list[Taken] = [store.take(artifact) for artifact in known] if store else []
    for each in taken:
        if each.origin == "repository":
            say(f"Fetched {each.coordinates} into {each.path.parent}.")
    paths = [*(str(each.path) for each in taken), *own, *spec.jars]
    return tuple(dict.fromkeys(paths))


def _needs(spec: PipelineSpec) -> set[str]:
    """What the sources and sinks need that Spark lacks."""
    read = (source_side(source.connector).jars(source.options) for source in spec.sources)
    written = (sink_side(sink.connector).jars(sink.options) for sink in spec.sinks)
    return {need for needs in (*read, *written) for need in needs}


def artifacts_of(need: str) -> tuple[Artifact, ...]:
    """The jars of one need for the Spark that is installed."""
    spark = version("pyspark")
    found = artifacts(need, spark)
    if found is None:
        raise EnvironmentProblem(JAR_NOT_KNOWN.at(need=need, spark=spark))
    return found


def jar_store(environ: Mapping[str, str] = os.environ) -> JarStore:
    """The store of this machine, which fetches with the Ivy that Spark brings."""

    def ivy() -> tuple[Path, Path, str]:
        # Looked for only when something is fetched: mostly the jar is in the cache.
        (jar,) = Path(pyspark.__path__[0], "jars").glob("ivy-*.jar")
        return find_java(environ).executable, jar, environ.get(REPOSITORY, "")

    def fetch(group: str, name: str, version: str, folder: Path) -> str:
        return ivy_fetch(*ivy())(group, name, version, folder)

    def fetch_many(wanted: Sequence[tuple[str, str, str]], folder: Path) -> str:
        return ivy_fetch_many(*ivy())(wanted, folder)

    return JarStore.of(environ, fetch, fetch_many)


def add_to(spark: SparkSession, jars: tuple[str, ...]) -> tuple[str, ...]:
    """Make a session see jars that its JVM was not started with; these."""
    context: Any = spark.sparkContext
    started_with = {part for part in (context.getConf().get(JARS) or "").split(",") if part}
    late = tuple(jar for jar in jars if jar not in started_with)
    for jar in late:
        add_jar(spark, jar)
    return late


def late_problems(spec: PipelineSpec, late: tuple[str, ...]) -> dict[str, Problem]:
    """What can't run with jars that came after Spark's start, by the sink.

    Tasks load their classes a second time then. Epochs are made of objects that a task hands to the driver
    as they are, and the driver does not know them: rows would flow, and no epoch ever be committed.
    """
    return {
        sink.name: JARS_TOO_LATE.at(
            sink.at("trigger"), sink=sink.name, trigger=str(sink.trigger), jars=",".join(late)
        )
        for sink in spec.sinks
        if late and isinstance(sink.trigger, Continuous)
    }


# The half of a connector that talks to Spark, and the way of its code to the executors.

_OWN = __name__.partition(".")[0]


def send_by_value(connector: str) -> None:
    """See to it that what a package from outside hands to Spark is sent whole, not by name.

    The executors need not have the package, and could not import it, since importing it imports Headwater.
    """
    for module in all_connectors()[connector].modules:
        package = package_of(sys.modules[module])
        if package.__name__ != _OWN:
            cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]


def package_of(module: ModuleType) -> ModuleType:
    """The outermost package that a module is in; a folder that several packages share is none."""
    parts = module.__name__.split(".")
    names = (".".join(parts[:length]) for length in range(1, len(parts)))
    return next((sys.modules[name] for name in names if sys.modules[name].__file__), module)
