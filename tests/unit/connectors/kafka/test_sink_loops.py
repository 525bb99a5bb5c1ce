"""Topics that several sinks write, and pipelines that would feed themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.engine.pipeline_file import load
from headwater.errors import PipelineError

PIPELINE = """
name: mirror
sources:
  events: {{connector: kafka, bootstrap_servers: "{read}", {topics}, format: raw}}
sinks:
  one: {{reads: events, connector: kafka, bootstrap_servers: "a:9092,b:9092", topic: events, value: value}}
  two: {{reads: events, connector: kafka, bootstrap_servers: "a:9092,b:9092", topic: events, value: value}}
"""


def codes(folder: Path, read: str, topics: str) -> list[str]:
    file = folder / "pipeline.yml"
    file.write_text(PIPELINE.format(read=read, topics=topics), encoding="utf-8")
    try:
        load(file)
    except PipelineError as error:
        return [problem.code for problem in error.problems]
    return []


@pytest.mark.parametrize(
    "topics", ["topic: [clicks, events]", "topic_pattern: ev.*", "partitions: {events: [0]}"]
)
def test_a_topic_that_is_read_is_not_written(tmp_path: Path, topics: str) -> None:
    assert codes(tmp_path, "b:9092", topics) == ["HW-SINK-WRITES-SOURCE"] * 2


@pytest.mark.parametrize(
    ("read", "topics"),
    [("c:9092", "topic: events"), ("a:9092", "topic: clicks"), ("a:9092", "topic_pattern: e")],
)
def test_another_cluster_or_topic_is_no_loop_and_sinks_may_share_one(
    tmp_path: Path, read: str, topics: str
) -> None:
    assert codes(tmp_path, read, topics) == []
