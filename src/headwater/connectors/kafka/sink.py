"""The Kafka sink on Spark."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr, monotonically_increasing_id
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.connectors.connector import BatchWriter
from headwater.connectors.contract import Context
from headwater.connectors.foreach.connector import computed_once
from headwater.connectors.kafka.errors import KAFKA_AVRO_FIELD_MISMATCH
from headwater.connectors.kafka.message import PARTS, Message, row_hash, with_marks
from headwater.connectors.kafka.sink_options import KafkaSink, producer_settings
from headwater.connectors.options import plain
from headwater.errors import PipelineError
from headwater.spark.query import thread_query
from headwater.spec.schema import backticked

_MISFIT = re.compile(r"(?:IncompatibleSchemaException|SchemaParseException): ([^\n]+)")
_HASH, _AT, _NUMBER = "__hw_hash", "__hw_at", "__hw_number"


def outgoing(rows: DataFrame, options: KafkaSink, context: Context) -> DataFrame:
    """The rows as messages, in the columns that Spark's Kafka writer expects, after a check of their types."""
    columns, message = _message(rows, options, context)
    if options.value == "avro":
        _try_avro(rows, columns, message, context)
    return rows.selectExpr(*message.selected)


def _message(rows: DataFrame, options: KafkaSink, context: Context) -> tuple[dict[str, str], Message]:
    """The columns of the rows, and the message that they become; PipelineError if they do not match."""
    columns = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    message = Message.of(context.name, options, columns)
    if message.wrong:
        raise PipelineError.of(replace(problem, place=context.at(key)) for key, problem in message.wrong)
    return columns, message


def _try_avro(rows: DataFrame, columns: dict[str, str], message: Message, context: Context) -> None:
    """Encode one row of nulls: Spark compares columns and schema only when it encodes."""
    nulls = [f"CAST(NULL AS {type_}) AS {backticked(name)}" for name, type_ in columns.items()]
    try:
        rows.sparkSession.range(1).selectExpr(*nulls).selectExpr(message.parts["value"]).collect()
    except (PySparkException, Py4JError) as error:
        told = _MISFIT.search(f"{error}\n{getattr(error, '_stackTrace', '')}")
        # That a field does not accept null says nothing about the actual rows.
        if told:
            key, advice = "value", "Exclude the column"
            if message.options.schema_file:
                key, advice = "schema_file", "Fix the schema file"
            hint = f"{advice}, or cast the column to a matching type."
            params = {"name": context.name, "says": told[1].rstrip(". "), "hint": hint}
            raise PipelineError(KAFKA_AVRO_FIELD_MISMATCH.at(context.at(key), **params)) from error


def write_stream(writer: DataStreamWriter, options: KafkaSink, context: Context) -> DataStreamWriter:
    """Stream the messages; with `dedup_headers`, write them batch by batch."""
    if not options.dedup_headers:
        return writer.format("kafka").options(**_settings(options))
    return writer.foreachBatch(computed_once(partial(_write_batch, options)))


def _write_batch(options: KafkaSink, messages: DataFrame, batch_id: int) -> None:
    """Write a batch of a query, with `dedup_headers` if they are configured."""
    if options.dedup_headers:
        query = thread_query(messages.sparkSession.sparkContext)
        assert query is not None, "Spark sets the ID of the query on its threads"
        messages = _marked(messages, query.query_id, batch_id)
    _write(messages, _settings(options))


def batch_writer(options: KafkaSink, context: Context) -> BatchWriter:
    """Writes the batches of a query whose sinks are a group."""

    def write(rows: DataFrame, batch_id: int) -> None:
        _, message = _message(rows, options, context)
        _write_batch(options, rows.selectExpr(*message.selected), batch_id)

    return write


def write_batch(rows: DataFrame, options: KafkaSink, context: Context) -> None:
    """Write all rows as messages; their headers contain a run ID, so a second run is not a duplicate."""
    messages, settings = outgoing(rows, options, context), _settings(options)
    if not options.dedup_headers:
        _write(messages, settings)
        return
    run = str(uuid.uuid4())
    computed_once(lambda batch, number: _write(_marked(batch, run, number), settings))(messages, 0)


def _write(messages: DataFrame, settings: dict[str, str]) -> None:
    messages.write.format("kafka").options(**settings).mode("append").save()


def _marked(messages: DataFrame, query: str, batch_id: int) -> DataFrame:
    """The messages with the headers that identify them, in their original order."""
    parts = [part for part in PARTS if part in messages.columns]
    headers = with_marks(
        query=query,
        batch=str(batch_id),
        row=f"concat({_HASH}, '-', {_NUMBER})",
        has_headers="headers" in parts,
    )
    numbered = (
        messages.withColumn(_HASH, expr(row_hash(parts)))
        .withColumn(_AT, monotonically_increasing_id())
        .withColumn(_NUMBER, expr(f"row_number() OVER (PARTITION BY {_HASH} ORDER BY {_AT}) - 1"))
    )
    # Counting equal rows shuffled them. Messages of one key stay in order only if the rows of one task are
    # again written by one task, in their order; the upper bits identify the task.
    ordered = numbered.repartition(expr(f"shiftright({_AT}, 33)")).sortWithinPartitions(_AT)
    kept = [f"`{part}`" for part in parts if part != "headers"]
    return ordered.selectExpr(*kept, f"{headers} AS `headers`")


def _settings(options: KafkaSink) -> dict[str, str]:
    return {**options.connection(), **producer_settings(options), **plain(options)}
