"""The facts of a plain query: the same plain data that a declared sink's query has."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession

from headwater.engine.analysis import refusal_of, trigger_refusal_of
from headwater.engine.build import SPARK_ERRORS, columns_in
from headwater.engine.facts import of_steps, steps_in
from headwater.engine.plain.sources import plain_sources
from headwater.engine.plain.written import Written
from headwater.engine.plan_record import Owners
from headwater.engine.settings import FROZEN, TIMEZONE, cores_of
from headwater.plan import QueryFacts
from headwater.plan.formats import SinkFormat, place_of, sink_format
from headwater.spec import Mode
from headwater.values.secret_names import masked


def plain_facts(frame: DataFrame, written: Written, name: str, sink: SinkFormat | None = None) -> QueryFacts:
    """What Spark would do for a stream that is written so; the session stays as it is."""
    spark = frame.sparkSession
    known = sink or sink_format(written.format)
    sources = plain_sources(frame)
    steps = steps_in(frame, sources.streams, Owners.of({}))
    mode = Mode(written.mode)
    refused = refusal_of(spark, frame, mode)
    return QueryFacts(
        sink=name,
        connector=known.connector,
        mode=written.mode,
        root=os.getcwd(),
        timezone=spark.conf.get(TIMEZONE) or "",
        sources=sources.facts,
        output_schema=columns_in(frame),
        places=_places(written),
        delivery=known.delivery,
        modes=known.modes,
        trigger=written.trigger,
        cores=_cores(spark),
        **of_steps(steps),
        sink_continuous=known.continuous,
        sink_real_time=known.real_time,
        refusal=refused,
        trigger_refusal=None if refused else trigger_refusal_of(spark, frame, mode, written.trigger),
        settings=_settings(spark),
        spark_version=spark.version,
    )


def _places(written: Written) -> tuple[str, ...]:
    places = (written.table,) if written.table else place_of(written.options)
    return tuple(masked("", place) for place in places)


def _cores(spark: SparkSession) -> int:
    context = spark.sparkContext
    return cores_of(
        str(context.master),
        dict(context.getConf().getAll()),
        machine_cores=os.cpu_count() or 1,
        running_cores=context.defaultParallelism,
    )


def _settings(spark: SparkSession) -> dict[str, str]:
    """What would freeze at the first start, as the program has it."""
    found = {key: _setting(spark, key) for key in FROZEN}
    return {key: value for key, value in found.items() if value is not None}


def _setting(spark: SparkSession, key: str) -> str | None:
    """A setting, or its default; Spark does not know those of RocksDB before they are set."""
    try:
        return spark.conf.get(key)
    except SPARK_ERRORS:
        return None
