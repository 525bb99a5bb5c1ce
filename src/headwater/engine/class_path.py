"""The jars of a pipeline: found before the JVM starts, added to one that runs already."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from headwater.connectors import sink_side, source_side
from headwater.engine.java import find_java
from headwater.errors import EnvironmentProblem
from headwater.errors.catalogue.environment import JAR_NOT_KNOWN
from headwater.jars import Artifact, JarStore, Taken, artifacts
from headwater.jars.cache import REPOSITORY
from headwater.jars.ivy import ivy_fetch
from headwater.spec import PipelineSpec

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

    def fetch(group: str, name: str, version: str, folder: Path) -> str:
        # Looked for only when something is fetched: mostly the jar is in the cache.
        (ivy,) = Path(pyspark.__path__[0], "jars").glob("ivy-*.jar")
        by_ivy = ivy_fetch(find_java(environ).executable, ivy, environ.get(REPOSITORY, ""))
        return by_ivy(group, name, version, folder)

    return JarStore.of(environ, fetch)


def add_to(spark: SparkSession, jars: tuple[str, ...]) -> None:
    """Make a session see jars that its JVM was not started with."""
    context: Any = spark.sparkContext
    started_with = {part for part in (context.getConf().get(JARS) or "").split(",") if part}
    loader: Any = spark._jsparkSession.sessionState().resourceLoader()
    for jar in jars:
        if jar not in started_with:
            loader.addJar(jar)
