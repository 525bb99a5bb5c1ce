"""What a connector gets to know of the queries that read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.engine.builder import Builder
from headwater.errors import PipelineError
from tests.unit.specs import spec_of

PIPELINE = """
    name: clicks
    sources:
      clicks: {connector: kafka, bootstrap_servers: "kafka:9092", topic: clicks}
      others: {connector: rate}
    sinks:
      one: {reads: clicks, connector: console}
      two: {reads: Clicks, connector: CONNECTOR}
      apart: {reads: others, connector: console}
"""
SETTINGS = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def resumes(folder: Path, connector: str, *begun: str, **keys: Any) -> bool:
    spec = spec_of(PIPELINE.replace("CONNECTOR", connector)).model_copy(update={"run_dir": folder})
    for sink in begun:
        offsets = folder / "checkpoints" / sink / "offsets/0"
        offsets.parent.mkdir(parents=True)
        offsets.write_text(f"v1\n{SETTINGS}\n{{}}")
    spark: Any = None
    return Builder(spark, spec, None, **keys).context(spec.sources[0]).resumes


@pytest.mark.parametrize(
    ("begun", "told"), [((), False), (("one",), False), (("one", "two"), True), (("one", "apart"), False)]
)
def test_a_source_goes_on_when_all_its_queries_do(tmp_path: Path, begun: tuple[str, ...], told: bool) -> None:
    assert resumes(tmp_path, "console", *begun) == told


def test_a_table_in_memory_begins_anew(tmp_path: Path) -> None:
    assert not resumes(tmp_path, "memory", "one", "two")


def test_finished_data_goes_on_from_nothing(tmp_path: Path) -> None:
    assert not resumes(tmp_path, "console", "one", "two", batch=True)


@pytest.mark.parametrize(
    ("select", "named"),
    [
        ("_metadata.file_name", True),
        ("o.`_METADATA`.file_name", True),
        ("'_metadata', \"_metadata\" /* _metadata */ -- _metadata", False),
        ("orders_metadata", False),
    ],
)
def test_a_table_that_names_the_file_of_a_row(tmp_path: Path, select: str, named: bool) -> None:
    spec = spec_of(
        f"""
        name: files
        sources: {{orders: {{connector: files, path: ., format: text}}}}
        tables:
          files: |
            SELECT {select}
            FROM orders o
        sinks: {{out: {{reads: files, connector: console}}}}
        """,
        tmp_path,
    )
    spark: Any = None
    assert Builder(spark, spec, None).context(spec.sources[0]).metadata is named


def test_what_a_connector_keeps_lies_in_the_run_directory(tmp_path: Path) -> None:
    spec = spec_of(PIPELINE.replace("CONNECTOR", "console")).model_copy(update={"run_dir": tmp_path / "run"})
    spark: Any = None
    builder = Builder(spark, spec, None)
    context = builder.context(spec.sources[0])
    context.keep(context.directory.schema, "{}")
    assert builder.kept == {tmp_path / "run/schemas" / f"{context.name}.json": "{}"}
    with pytest.raises(PipelineError) as refused:
        context.keep(tmp_path / "elsewhere.json", "{}")
    (problem,) = refused.value.problems
    assert (problem.code, problem.place) == ("HW-CONNECTOR-FILE-OUTSIDE-RUN-DIR", spec.sources[0].position)
