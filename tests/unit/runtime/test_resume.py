"""What begins anew at each start, and a query that lacks rows which were replayed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.errors import CheckpointError
from headwater.plan import QueryFacts
from headwater.quarantine import Quarantine, replay_rows
from headwater.runtime.records import RunRecords
from headwater.runtime.resume import add_replay_source, reset_in_process
from headwater.spec import SinkSpec
from tests.checkpoints import facts_of, stopped
from tests.quarantines import commit, row
from tests.unit.specs import spec_of

PIPELINE = """
name: p
sources: {{clicks: {{connector: rate}}}}
sinks: {{out: {{reads: clicks, connector: {connector}}}}}
"""
FACTS = QueryFacts(
    sink="out",
    connector="memory",
    mode="append",
    root="/",
    timezone="UTC",
    sources=(),
    output_schema={},
    settings={},
    spark_version="4.1.4",
)


def sink_of(connector: str) -> SinkSpec:
    (sink,) = spec_of(PIPELINE.format(connector=connector)).sinks
    return sink


@pytest.fixture
def folder(tmp_path: Path) -> RunRecords:
    folder = RunRecords(tmp_path)
    for name in ("metadata", "offsets/0", "offsets/1", "commits/0", "commits/.0.crc", "state/0/0/1.delta"):
        file = folder.checkpoint("out") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return folder


def left(folder: RunRecords) -> list[str]:
    checkpoint = folder.checkpoint("out")
    return sorted(str(file.relative_to(checkpoint)) for file in checkpoint.rglob("*"))


def test_only_the_id_of_the_query_stays(folder: RunRecords) -> None:
    folder.store_facts(FACTS)
    said = reset_in_process(folder, sink_of("memory"))
    assert left(folder) == ["metadata"]
    assert said is not None
    assert said.message.startswith("out: memory tables do not survive a restart. Discarded 1 batch;")


def test_a_first_start_says_nothing(tmp_path: Path) -> None:
    assert reset_in_process(RunRecords(tmp_path), sink_of("memory")) is None


def test_other_sinks_keep_their_checkpoint(folder: RunRecords) -> None:
    folder.store_facts(replace(FACTS, connector="console"))
    before = left(folder)
    assert reset_in_process(folder, sink_of("console")) is None
    assert left(folder) == before


def test_a_checkpoint_of_unknown_origin_stays(folder: RunRecords) -> None:
    before = left(folder)
    with pytest.raises(CheckpointError) as caught:
        reset_in_process(folder, sink_of("memory"))
    (problem,) = caught.value.problems
    assert problem.code == "HW-SINK-CONNECTOR-CHANGED"
    assert "the `memory` connector cannot use a checkpoint of an unknown connector" in problem.message
    assert left(folder) == before


@pytest.mark.parametrize("there", [False, True])
def test_rows_that_are_gone_and_rows_that_are_left_are_told_apart(tmp_path: Path, there: bool) -> None:
    stopped(tmp_path, "out", {"orders": {"logOffset": 0}, "paid.again": {"logOffset": 0}})
    quarantine = Quarantine(RunRecords(tmp_path).quarantine("paid"))
    commit(quarantine, 0, [row(1)])
    if there:
        replay_rows(quarantine, lambda each: True)
    with pytest.raises(CheckpointError) as refused:
        add_replay_source(RunRecords(tmp_path), facts_of("out", "orders"))
    (problem,) = refused.value.problems
    named = {"sink": "out", "source": "paid"}
    if there:
        assert (problem.code, problem.params) == ("HW-REPLAYED-ROWS-DROPPED", named)
    else:
        assert problem.code == "HW-REPLAYED-ROWS-MISSING"
        assert problem.params == {**named, "directory": str(quarantine.directory.replay)}
