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
from headwater.values.renamed import renamed


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
            ("kafka source", each, "bootstrap_servers")
            for each in ("brokers", "bootstrapServers", "bootstrap.servers")
        ),
        *(("kafka sink", each, "bootstrap_servers") for each in ("brokers", "kafka.bootstrap.servers")),
        ("kafka source", "properties.bootstrap.servers", "bootstrap_servers"),
        ("kafka source", "topics", "topic"),
        ("kafka source", "subscribe", "topic"),
        ("kafka source", "subscribePattern", "topic_pattern"),
        ("kafka source", "assign", "partitions"),
        ("kafka source", "startingOffsets", "start"),
        ("kafka source", "starting_offsets", "start"),
        ("kafka source", "scan.startup.mode", "start"),
        ("kafka source", "endingOffsets", "end"),
        ("kafka source", "failOnDataLoss", "on_data_loss"),
        ("kafka source", "maxOffsetsPerTrigger", "max_rows_per_batch"),
        ("kafka source", "minPartitions", "min_partitions"),
        ("kafka source", "properties.group.id", "group_id"),
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
        ("console sink", "numRows", "num_rows"),
        ("rate source", "rowsPerSecond", "rows_per_second"),
        ("rate source", "numPartitions", "num_partitions"),
        ("rate_per_batch source", "advanceMillisPerBatch", "advance_per_batch"),
        ("socket source", "includeTimestamp", "include_timestamp"),
        ("foreach_batch sink", "foreachBatch", "function"),
        ("pipeline", "models", "tables"),
        ("pipeline", "outputs", "sinks"),
        ("pipeline", "checkpointLocation", "run_dir"),
        ("pipeline", "spark_conf", "spark"),
        ("table", "query", "sql"),
        ("table", "dropDuplicates", "deduplicate"),
        ("table", "expectations", "expect"),
        ("watermark", "delayThreshold", "delay"),
        ("expectation", "action", "on_violation"),
        ("function", "returnType", "returns"),
        # Typing errors, as before.
        ("kafka source", "bootstrap_sevrers", "bootstrap_servers"),
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
        ("files sink", "checkpointLocation", "Did you mean `run_dir`, at the top level of the file?"),
        ("files source", "pathGlobFilter", "Set Spark options under `options`. Accepted keys: "),
        ("kafka source", "kafka.session.timeout.ms", "Set Spark options under `options`. "),
        ("foreach_batch sink", "batchSize", "Use one of these keys: connector, "),
        ("table", "zzz", "Use one of these keys: deduplicate, "),
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
    told = [(problem.code, problem.params["key"], problem.hint) for problem in refused.value.problems]
    assert told == [
        ("HW-KEY-UNKNOWN", "brokers", "Did you mean `bootstrap_servers`?"),
        ("HW-KEY-UNKNOWN", "subscribe", "Did you mean `topic`?"),
        ("HW-KEY-UNKNOWN", "from", "Did you mean `reads`?"),
        ("HW-KEY-UNKNOWN", "numRows", "Did you mean `num_rows`?"),
    ]


@pytest.mark.parametrize(
    ("place", "written", "new"),
    [
        ("pipeline", "folder", "run_dir"),
        ("pipeline", "accept", "suppress"),
        ("kafka source", "servers", "bootstrap_servers"),
        ("kafka source", "on_new_topic", "on_topic_recreated"),
        ("files sink", "compact_after", "compaction.min_files"),
        ("rate source", "partitions", "num_partitions"),
        ("table", "distinct", "deduplicate"),
        ("expectation", "else", "on_violation"),
        ("function", "class", "java_class"),
    ],
)
def test_an_old_name_gives_its_new_one(place: str, written: str, new: str) -> None:
    keys = known(place)
    assert renamed(written, keys.keys) == new
    assert keys.meant(written) == new.partition(".")[0]


@pytest.mark.parametrize(("place", "key"), [("kafka source", "partitions"), ("kafka source", "start")])
def test_a_name_that_is_still_in_use_is_not_renamed(place: str, key: str) -> None:
    assert renamed(key, known(place).keys) is None
