"""What a run folder tells of its checkpoints, and who may use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.checkpoint import STATE_FORMAT
from headwater.checks import Reached
from headwater.errors import Held
from headwater.runtime.locks import RunLocks
from headwater.runtime.run_folder import RunFolder
from headwater.spec import PipelineSpec
from tests.unit.specs import spec_of

PIPELINE = """
name: p
sources: {clicks: {connector: rate}}
sinks: {%s: {reads: clicks, connector: %s}}
"""


def pipeline(root: Path, sink: str = "out", connector: str = "noop") -> PipelineSpec:
    return spec_of(PIPELINE % (sink, connector), root)


def begun(folder: RunFolder) -> None:
    conf = json.dumps({"conf": {"spark.sql.shuffle.partitions": "3"}})
    for name, text in (
        ("offsets/0", f"v1\n{conf}\n5"),
        ("offsets/1", f"v1\n{conf}\n7"),
        ("commits/0", "v1\n{}"),
    ):
        file = folder.checkpoint("out") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def test_how_far_a_query_has_come(tmp_path: Path) -> None:
    spec = pipeline(tmp_path)
    folder = RunFolder.of(spec)
    assert folder.reached(spec) == {}
    begun(folder)
    settings = {"spark.sql.shuffle.partitions": "3", STATE_FORMAT: "1"}
    assert folder.reached(spec) == {"out": Reached(str(folder.checkpoint("out")), (7,), 1, settings)}


def test_what_begins_anew_has_come_nowhere(tmp_path: Path) -> None:
    spec = pipeline(tmp_path, connector="memory")
    folder = RunFolder.of(spec)
    begun(folder)
    assert folder.reached(spec) == {}


def test_a_second_run_is_refused_though_its_sinks_have_other_names(tmp_path: Path) -> None:
    one, other = pipeline(tmp_path), pipeline(tmp_path, "renamed")
    folder = RunFolder.of(one)
    first = RunLocks(folder.locked(one), "first")
    with pytest.raises(Held) as caught:
        RunLocks(folder.locked(other), "second")
    (problem,) = caught.value.problems
    assert problem.code == "HW-CHECKPOINT-HELD-BY-THIS-PROCESS"
    assert problem.params["checkpoint"] == str(folder.path / "checkpoints")
    assert problem.params["run"] == "first"
    assert not (folder.path / "checkpoints" / "renamed.lock").exists()
    first.release()
    RunLocks(folder.locked(other), "second").release()
    assert not (folder.path / "checkpoints.lock").exists()
