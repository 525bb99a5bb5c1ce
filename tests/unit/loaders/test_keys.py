"""Keys that people write by habit, from Spark, Kafka, Flink, dbt and others, suggest the key of here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from headwater.connectors import all_connectors
from headwater.errors import PipelineError
from headwater.loaders.keys import KnownKeys, PipelineKeys, TableKeys, known_keys
from headwater.loaders.yaml_form import YamlFile
from headwater.spec.pipeline import ExpectationKeys, FunctionKeys, SinkKeys, SourceKeys, Watermark


def known(place: str) -> KnownKeys:
    """What can be written at a place such as `kafka source`."""
    connector, _, side = place.rpartition(" ")
    if not connector:
        common: dict[str, type[BaseModel]] = {
            "pipeline": PipelineKeys,
            "source": SourceKeys,
            "table": TableKeys,
            "sink": SinkKeys,
            "function": FunctionKeys,
            "watermark": Watermark,
            "expectation": ExpectationKeys,
        }
        return known_keys(common[side])
    return known_keys(
        SourceKeys if side == "source" else SinkKeys,
        getattr(all_connectors()[connector], side).options,
    )


def every_place() -> Iterator[str]:
    yield from ("pipeline", "source", "table", "sink", "function", "watermark", "expectation")
    for name, connector in all_connectors().items():
        yield from (f"{name} {side}" for side in ("source", "sink") if getattr(connector, side))


@pytest.mark.parametrize("place", list(every_place()))
def test_what_is_suggested_can_be_written(place: str) -> None:
    keys = known(place)
    assert set(keys.names.values()) <= {*keys, *known_keys(PipelineKeys)}
    # A key is never taken for the other name of another one.
    assert [key for key in keys if keys._named(key) != key] == []


@pytest.mark.parametrize(
    ("place", "written", "meant"),
    [
        *(
            ("kafka source", each, "servers")
            for each in ("brokers", "bootstrap_servers", "bootstrap.servers")
        ),
        *(("kafka sink", each, "servers") for each in ("brokers", "kafka.bootstrap.servers", "server")),
        ("kafka source", "properties.bootstrap.servers", "servers"),
        ("kafka source", "topics", "topic"),
        ("kafka source", "subscribe", "topic"),
        ("kafka source", "subscribePattern", "pattern"),
        ("kafka source", "assign", "partitions"),
        ("kafka source", "startingOffsets", "start"),
        ("kafka source", "starting_offsets", "start"),
        ("kafka source", "scan.startup.mode", "start"),
        ("kafka source", "endingOffsets", "end"),
        ("kafka source", "failOnDataLoss", "on_data_loss"),
        ("kafka source", "maxOffsetsPerTrigger", "max_rows_per_batch"),
        ("kafka source", "minPartitions", "min_partitions"),
        ("kafka source", "properties.group.id", "group"),
        ("kafka source", "watermark_delay", "watermark"),
        ("kafka sink", "kafka.compression.type", "compression"),
        ("kafka sink", "format", "value"),
        ("files source", "maxFilesPerTrigger", "max_files_per_batch"),
        ("files source", "max_files_per_trigger", "max_files_per_batch"),
        ("files source", "cloudFiles.maxFilesPerTrigger", "max_files_per_batch"),
        ("files source", "cloudFiles.format", "format"),
        ("files source", "maxBytesPerTrigger", "max_bytes_per_batch"),
        ("files source", "latestFirst", "latest_first"),
        ("files source", "maxFileAge", "max_file_age"),
        ("files source", "cleanSource", "clean_up"),
        ("files source", "inferSchema", "infer_schema"),
        ("files source", "withWatermark", "watermark"),
        ("files sink", "partitionBy", "partition_by"),
        ("files sink", "outputMode", "mode"),
        ("files sink", "output_mode", "mode"),
        ("files sink", "processingTime", "trigger"),
        ("console sink", "numRows", "rows"),
        ("rate source", "rowsPerSecond", "rows_per_second"),
        ("rate source", "numPartitions", "partitions"),
        ("rate_per_batch source", "advanceMillisPerBatch", "step"),
        ("socket source", "includeTimestamp", "arrival_time"),
        ("foreach_batch sink", "foreachBatch", "function"),
        ("pipeline", "models", "tables"),
        ("pipeline", "outputs", "sinks"),
        ("pipeline", "checkpointLocation", "folder"),
        ("pipeline", "spark_conf", "spark"),
        ("table", "query", "sql"),
        ("table", "dropDuplicates", "distinct"),
        ("table", "expectations", "expect"),
        ("watermark", "delayThreshold", "delay"),
        ("expectation", "on_violation", "else"),
        ("function", "returnType", "returns"),
        # Typing errors, as before.
        ("kafka source", "sevrers", "servers"),
        ("files sink", "patition_by", "partition_by"),
    ],
)
def test_names_from_elsewhere(place: str, written: str, meant: str) -> None:
    keys = known(place)
    assert written not in keys
    assert keys.hint(written) == f"Did you mean `{meant}`?"


@pytest.mark.parametrize(
    ("place", "written", "hint"),
    [
        ("files sink", "checkpointLocation", "Did you mean `folder`, at the top of the file?"),
        ("files source", "pathGlobFilter", "Write an option of Spark under `options`. The keys are: "),
        ("kafka source", "kafka.session.timeout.ms", "Write an option of Spark under `options`. "),
        ("foreach_batch sink", "batchSize", "It takes: accept, "),
        ("table", "zzz", "It takes: accept, "),
    ],
)
def test_what_is_no_key_of_this_place(place: str, written: str, hint: str) -> None:
    assert known(place).hint(written).startswith(hint)
    assert known(place).meant(written) is None


def test_a_missing_key_under_another_name_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yml"
    file.write_text(
        """\
name: shop
sources:
  orders: {connector: kafka, brokers: "localhost:9092", subscribe: orders}
sinks:
  out: {from: orders, connector: console, numRows: 5}
""",
        encoding="utf-8",
    )
    with pytest.raises(PipelineError) as refused:
        YamlFile.read(file).spec()
    told = [(problem.code, problem.params["key"], problem.remedy) for problem in refused.value.problems]
    assert told == [
        ("HW-KEY-UNKNOWN", "brokers", "Did you mean `servers`?"),
        ("HW-KEY-UNKNOWN", "subscribe", "Did you mean `topic`?"),
        ("HW-KEY-UNKNOWN", "from", "Did you mean `reads`?"),
        ("HW-KEY-UNKNOWN", "numRows", "Did you mean `rows`?"),
    ]
