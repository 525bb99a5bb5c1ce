"""What a run folder tells of its checkpoints, and who may use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.checkpoint import STATE_FORMAT
from headwater.checks import Finding, Reached, Severity
from headwater.checks.changes import setting_frozen
from headwater.errors import CheckpointLockedError
from headwater.runtime.locks import RunLocks
from headwater.runtime.records import RunRecords
from headwater.spec import PipelineSpec
from headwater.values.secrets import Revealed
from tests.unit.specs import spec_of

PIPELINE = """
name: p
sources: {clicks: {connector: rate}}
sinks: {%s: {reads: clicks, connector: %s}}
"""


def pipeline(root: Path, sink: str = "out", connector: str = "noop") -> PipelineSpec:
    return spec_of(PIPELINE % (sink, connector), root)


def begun(folder: RunRecords) -> None:
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
    folder = RunRecords.of(spec)
    assert folder.reached(spec) == {}
    begun(folder)
    settings = {"spark.sql.shuffle.partitions": "3", STATE_FORMAT: "1"}
    assert folder.reached(spec) == {"out": Reached(str(folder.checkpoint("out")), (7,), 1, settings)}


def test_the_next_start_retries_the_batch_that_did_not_commit(tmp_path: Path) -> None:
    folder = RunRecords.of(pipeline(tmp_path))
    assert folder.last_batch("out") == -1
    begun(folder)
    assert folder.last_batch("out") == 0
    (folder.checkpoint("out") / "commits/1").write_text("v1\n{}", encoding="utf-8")
    assert folder.last_batch("out") == 1
    # Spark resumes at the newest planned batch, even if commits before it are missing.
    (folder.checkpoint("out") / "offsets/9").write_text("v1\n{}\n7", encoding="utf-8")
    assert folder.last_batch("out") == 8


def test_what_begins_anew_has_come_nowhere(tmp_path: Path) -> None:
    spec = pipeline(tmp_path, connector="memory")
    folder = RunRecords.of(spec)
    begun(folder)
    assert folder.reached(spec) == {}


def test_a_second_run_is_refused_though_its_sinks_have_other_names(tmp_path: Path) -> None:
    one, other = pipeline(tmp_path), pipeline(tmp_path, "renamed")
    folder = RunRecords.of(one)
    first = RunLocks(folder.locked(one), "first")
    with pytest.raises(CheckpointLockedError) as caught:
        RunLocks(folder.locked(other), "second")
    (problem,) = caught.value.problems
    assert problem.code == "HW-CHECKPOINT-LOCKED-BY-THIS-PROCESS"
    assert problem.params["checkpoint"] == str(folder.path / "checkpoints")
    assert problem.params["run"] == "first"
    assert not (folder.path / "checkpoints" / "renamed.lock").exists()
    first.release()
    RunLocks(folder.locked(other), "second").release()
    assert not (folder.path / "checkpoints.lock").exists()


def test_what_the_check_before_the_last_start_found(tmp_path: Path) -> None:
    spec = pipeline(tmp_path)
    folder = RunRecords.of(spec)
    folder.claim(spec)
    problem = setting_frozen.entry.at(None, sink="out", key="k", kept="1", wanted="2")
    folder.store_findings("first", 1, [])
    folder.store_findings("second", 2, [Finding(problem, Severity.WARNING, "out", suppressed="fine")])
    stored = json.loads(folder.findings.read_text(encoding="utf-8"))
    assert (stored["version"], stored["run_id"], stored["epoch"], stored["at"][-1]) == (1, "second", 2, "Z")
    (finding,) = stored["findings"]
    assert (finding["code"], finding["sink"], finding["suppressed"]) == ("HW-SETTING-FROZEN", "out", "fine")
    assert [file.name for file in folder.path.iterdir() if file.suffix == ".part"] == []


def test_no_secret_is_stored_with_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    revealed = Revealed()
    revealed.add("hunter2")
    monkeypatch.setattr("headwater.values.secrets._REVEALED", revealed)
    spec = pipeline(tmp_path)
    folder = RunRecords.of(spec)
    folder.claim(spec)
    problem = setting_frozen.entry.at(None, sink="out", key="k", kept="hunter2", wanted="2")
    folder.store_findings("run", 1, [Finding(problem, Severity.WARNING, "out")])
    text = folder.findings.read_text(encoding="utf-8")
    assert ("hunter2" in text, "***" in text) == (False, True)
