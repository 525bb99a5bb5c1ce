"""What the installed Spark lacks of what Headwater needs and Spark does not promise."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.checks import Finding, Severity
from headwater.engine.doctor import Check, range_of
from headwater.errors import HeadwaterError, Problem
from headwater.errors.catalogue.environment import SPARK_PART_MISSING
from headwater.spark.java import find_java
from headwater.spark.jvm import start_context
from headwater.spark.probes import GRACEFUL_STOP, PROBES, Probe, lacking, missing

_SETTINGS = {"spark.master": "local[1]", "spark.app.name": "headwater doctor", "spark.ui.enabled": "false"}


def examine_spark() -> list[Check]:
    """Start Spark, look for every part, and stop it; no query runs."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            jvm = start_context(
                _SETTINGS, java=find_java(), log_folder=Path(folder), stdout=lambda text: None
            )
        except HeadwaterError as error:
            return [Check("spark parts", "error", p.sentence, p.remedy, p.code) for p in error.problems]
        try:
            spark = SparkSession(jvm.context)
            return list(_checks(spark.version, lacking(spark)))
        finally:
            jvm.stop()


def _checks(version: str, lacks: dict[str, tuple[str, ...]]) -> Iterator[Check]:
    for probe in PROBES:
        if probe.name in lacks:
            problem = _problem(version, probe, lacks[probe.name])
            name = f"spark part: {probe.name}"
            yield Check(name, "warning", problem.sentence, problem.remedy, problem.code)
    there = len(PROBES) - len(lacks)
    says = f"Spark {version} has {there} of {len(PROBES)} groups of parts that Headwater needs"
    yield Check("spark parts", "ok", says)


def stop_findings(spark: SparkSession) -> list[Finding]:
    """A warning where a stop would interrupt the running batch, instead of letting it commit."""
    parts = missing(spark, GRACEFUL_STOP)
    return [Finding(_problem(spark.version, GRACEFUL_STOP, parts), Severity.WARNING)] if parts else []


def _problem(version: str, probe: Probe, parts: tuple[str, ...]) -> Problem:
    return SPARK_PART_MISSING.at(
        None,
        version=version,
        purpose=probe.purpose,
        lost=probe.lost,
        parts=", ".join(parts),
        supported=range_of("pyspark"),
    )
