"""Which sinks and sources can be proven, and what the scratch pipeline is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.connectors.databases.options import DatabaseSink
from headwater.engine.pipeline_file import load
from headwater.errors import HeadwaterError, PipelineError, UsageError
from headwater.proof.scratch import ScratchPlan, prepare_plan, scratch_spec
from headwater.spec import PipelineSpec
from headwater.values import Unpaced
from tests.pipelines import feed, write

CODE = """
def write(batch, batch_id): ...
def rows(spark): ...
"""
PIPELINE = """
name: shop
webhook: "http://localhost:1/hook"
event_log: events.jsonl
sources:
  orders: {connector: files, path: "in/*.json", format: json, schema: {id: int}, clean_up: delete}
sinks:
  copied: {reads: orders, connector: files, path: out, format: json, trigger: every 1 hour}
  lite: {reads: orders, connector: sqlite, path: shop.db, into: orders, other_writers: allow}
  server: {reads: orders, connector: postgres, url: "postgresql://localhost/x", into: '"my.shop".orders'}
  code: {reads: orders, connector: foreach_batch, function: "code.py:write", read_back: "code.py:rows", scratch: true}
  bare: {reads: orders, connector: foreach_batch, function: "code.py:write"}
  real: {reads: orders, connector: foreach_batch, function: "code.py:write", read_back: "code.py:rows"}
  shown: {reads: orders, connector: console}
  remote: {reads: orders, connector: files, path: "s3a://x/out", format: json}
"""


def project(folder: Path, text: str = PIPELINE) -> PipelineSpec:
    for number in range(20):
        feed(folder / "in", str(number), [{"id": number}], at=1_700_000_000 + number)
    write(folder, CODE, "code.py")
    return load(write(folder, text))


def plan_of(folder: Path, **inputs: tuple[str, ...]) -> ScratchPlan:
    directory = folder / ".headwater" / "prove" / "ab12"
    return ScratchPlan(str(folder / "pipeline.yml"), str(directory), "ab12", "/scratch", 8, inputs=inputs)


def refused(spec: PipelineSpec, plan: ScratchPlan) -> tuple[HeadwaterError, list[tuple[str, Any]]]:
    with pytest.raises(HeadwaterError) as error:
        prepare_plan(spec, plan)
    return error.value, [(each.code, dict(each.params)) for each in error.value.problems]


def test_every_sink_writes_elsewhere_or_is_named(tmp_path: Path) -> None:
    spec = project(tmp_path)
    plan, left_out = prepare_plan(spec, plan_of(tmp_path))
    assert plan.sinks == ("copied", "lite", "server", "code")
    reasons = {each.sink: each.reason for each in left_out}
    assert list(reasons) == ["bare", "real", "shown", "remote"]
    assert "set `read_back`" in reasons["bare"]
    assert "set `scratch: true`" in reasons["real"]
    assert "stores no rows" in reasons["shown"]
    assert "s3a://x/out" in reasons["remote"]

    scratch = scratch_spec(spec, plan)
    sinks = {sink.name: sink for sink in scratch.sinks}
    assert tuple(sinks) == plan.sinks
    assert {type(sink.trigger) for sink in sinks.values()} == {Unpaced}
    base = tmp_path / ".headwater" / "prove" / "ab12"
    assert scratch.run_dir == base / "run"
    assert (scratch.webhook, scratch.event_log) == (None, None)
    assert sinks["copied"].options.model_dump()["path"] == str(base / "sinks" / "copied")
    lite, server = sinks["lite"].options, sinks["server"].options
    assert isinstance(lite, DatabaseSink)
    assert isinstance(server, DatabaseSink)
    assert (lite.into, lite.address) == (
        "headwater_prove_ab12_1",
        str(base / "sinks" / "lite" / "scratch.db"),
    )
    assert lite.other_writers == "fail"
    assert server.into == '"my.shop".headwater_prove_ab12_2'
    assert sinks["code"].options == spec.sinks[3].options


def test_the_input_is_a_copy_that_stays_the_same(tmp_path: Path) -> None:
    spec = project(tmp_path)
    plan, _ = prepare_plan(spec, plan_of(tmp_path))
    first = scratch_spec(spec, plan)
    copy = plan.path / "input" / "orders" / "0"
    assert first.sources[0].options.model_dump()["path"] == (f"{copy}/*.json",)
    assert (first.sources[0].options.clean_up, first.sources[0].options.archive_dir) == (None, None)  # type: ignore[attr-defined]
    # 20 files in about 8 batches.
    assert first.sources[0].options.max_files_per_batch == 3  # type: ignore[attr-defined]
    feed(tmp_path / "in", "new", [{"id": 99}])
    assert scratch_spec(spec, plan) == first
    assert len(list(copy.iterdir())) == 20
    assert (copy / "3.json").stat().st_mtime == 1_700_000_003
    # The copy of the files is not removed with the output.
    plan.clear_output()
    assert len(list(copy.iterdir())) == 20


def test_given_files_replace_the_data_of_a_source(tmp_path: Path) -> None:
    spec = project(tmp_path)
    feed(tmp_path / "sample", "1", [{"id": 7}])
    plan, _ = prepare_plan(spec, plan_of(tmp_path, orders=(str(tmp_path / "sample" / "1.json"),)))
    (path,) = scratch_spec(spec, plan).sources[0].options.model_dump()["path"]
    assert json.loads(Path(path).read_text()) == {"id": 7}
    assert Path(path).is_relative_to(plan.path)


def test_what_cannot_be_proven_is_an_error(tmp_path: Path) -> None:
    spec = project(tmp_path)
    error, found = refused(spec, plan_of(tmp_path, visits=("/x",)))
    assert isinstance(error, UsageError)
    assert found == [("HW-PROVE-INPUT-UNKNOWN", {"source": "visits", "known": "orders"})]

    text = PIPELINE.replace(
        "sources:",
        "sources:\n  ticks: {connector: rate}\n  lines: {connector: socket, host: localhost, port: 1}",
    )
    error, found = refused(project(tmp_path, text), plan_of(tmp_path, ticks=("/x",)))
    assert found == [
        ("HW-PROVE-INPUT-UNSUPPORTED", {"source": "ticks", "connector": "rate"}),
        ("HW-PROVE-INPUT-UNBOUNDED", {"source": "ticks", "connector": "rate"}),
        ("HW-PROVE-SOURCE-UNREPLAYABLE", {"source": "lines", "connector": "socket"}),
    ]

    only = PIPELINE[: PIPELINE.index("  copied:")] + "  shown: {reads: orders, connector: console}\n"
    error, found = refused(project(tmp_path, only), plan_of(tmp_path))
    assert isinstance(error, PipelineError)
    ((code, params),) = found
    assert (code, params["pipeline"]) == ("HW-PROVE-NO-SINKS", "shop")


def test_the_plan_is_read_back_by_the_child_process(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, orders=("/a", "/b"))
    plan.save()
    assert ScratchPlan.read(plan.file_of_plan) == plan
