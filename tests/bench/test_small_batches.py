"""The benchmark of small batches: a workload is the same as a pipeline and by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import pytest
from ruamel.yaml import YAML

from bench import small_batches
from bench.small_batches import WORKLOADS, Workload, pipeline
from headwater.engine.pipeline_file import load

each_workload = pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)


@each_workload
def test_a_workload_is_a_valid_pipeline(workload: Workload, tmp_path: Path) -> None:
    for name in workload.sources:
        (tmp_path / name).mkdir()
    file = tmp_path / "pipeline.yml"
    given = {"servers": "localhost:9", "topic": "events"} if workload.kafka else {"data": str(tmp_path)}
    file.write_text(pipeline(workload, given))
    spec = load(file)
    assert [source.name for source in spec.sources] == list(workload.sources)
    assert [(sink.name, sink.reads) for sink in spec.sinks] == [("out", "result")]


@pytest.mark.parametrize(
    "workload", [each for each in WORKLOADS if not each.kafka], ids=lambda workload: workload.name
)
def test_the_query_by_hand_reads_the_same_rows(workload: Workload) -> None:
    sources = YAML(typ="safe").load(pipeline(workload, {"data": "/in"}))["sources"].values()
    spark = MagicMock()
    by_hand = getattr(small_batches, workload.job.partition(":")[2])
    by_hand(spark, Path("/nowhere"), data="/in")
    schema = spark.readStream.schema
    option = schema.return_value.option
    files = option.return_value.json
    watermark = files.return_value.withWatermark
    assert arguments(files) == [(source["path"],) for source in sources]
    assert arguments(schema) == [(source["schema"],) for source in sources]
    limits = [("maxFilesPerTrigger", source["max_files_per_batch"]) for source in sources]
    assert arguments(option) == limits
    late = [source["watermark"] for source in sources if "watermark" in source]
    assert arguments(watermark) == [(each["column"], each["delay"]) for each in late]


def test_the_query_by_hand_reads_the_same_messages() -> None:
    (workload,) = (each for each in WORKLOADS if each.kafka)
    given = {"servers": "localhost:9", "topic": "events"}
    (source,) = YAML(typ="safe").load(pipeline(workload, given))["sources"].values()
    spark, functions = MagicMock(), MagicMock()
    reader = spark.readStream.format.return_value
    reader.option.return_value = reader
    with patch.multiple(small_batches, col=functions.col, from_json=functions.from_json):
        small_batches.kafka_noop(spark, Path("/nowhere"), **given)
    assert arguments(spark.readStream.format) == [("kafka",)]
    assert dict(arguments(reader.option)) == {
        "kafka.bootstrap.servers": source["bootstrap_servers"],
        "subscribe": source["topic"],
        "startingOffsets": source["start"],
        "maxOffsetsPerTrigger": source["max_rows_per_batch"],
    }
    assert [schema for _, schema in arguments(functions.from_json)] == [source["schema"]]


def arguments(function: MagicMock) -> list[tuple[Any, ...]]:
    """The positional arguments of each call."""
    return [call.args for call in function.call_args_list]
