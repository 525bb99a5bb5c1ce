"""Putting right what a crash between a sink's commit and Spark's own leaves behind."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from headwater.checkpoint import STATE_FORMAT, Checkpoint, LocalStore
from headwater.connectors import sink_side
from headwater.engine.connector_code import spark_module
from headwater.engine.settings import Setting
from headwater.spec import SinkSpec


def let_it_run_again(
    spark: SparkSession, sink: SinkSpec, checkpoint: Path, settings: tuple[Setting, ...]
) -> None:
    """See to it that a stateful query computes its unfinished batch again.

    A crash may come after the sink has noted batch N and before `commits/N`. Spark plans N again then, and a
    sink like Spark's file sink passes it over without computing it. In state format 2 the commit has to name
    the state that the batch made; no batch, no names, and Spark fails at this start and at every later one.
    So the sink has to forget the batch, which then runs again over the same offsets, with the same rows.
    """
    by_format = {setting.key: setting.value for setting in settings}.get(STATE_FORMAT)
    if by_format != "2" or not sink_side(sink.connector).passes_over or not (checkpoint / "state").exists():
        return
    batch = Checkpoint(LocalStore(checkpoint)).unfinished
    if batch is not None:
        spark_module(sink.connector).forget_batch(spark, sink.options, batch)
