"""The logs that the growth benchmark makes up, and its outcomes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import growth
from bench.children import JobRun, Usage
from bench.harness import HEADWATER, SAME, CaseResult, Sample, VariantResult
from headwater.checkpoint import Checkpoint, LocalStore, SinkLog, committed

OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"logOffset":0}'


@pytest.fixture
def first_batch(tmp_path: Path) -> Path:
    """What a query leaves behind after one batch of one file."""
    entry = {
        "path": f"file://{tmp_path}/out/part-00000-uuid.parquet",
        "size": 7,
        "isDir": False,
        "modificationTime": 1,
        "blockReplication": 1,
        "blockSize": 1,
        "action": "add",
    }
    texts = {
        "checkpoint/offsets/0": OFFSETS,
        "checkpoint/offsets/.0.crc": "checksum",
        "checkpoint/commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        "checkpoint/sources/0/0": "\n".join(["v1", growth.entry("file:///in/0.json", 0)]),
        "out/_spark_metadata/0": "\n".join(["v1", json.dumps(entry, separators=(",", ":"))]),
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("batches", [100, 1_000])
def test_a_query_seems_to_have_committed_many_batches(first_batch: Path, batches: int) -> None:
    growth.with_batches(first_batch / "checkpoint", first_batch / "out", Path("/in"), batches)
    checkpoint = Checkpoint(LocalStore(first_batch / "checkpoint"))
    assert [each.batch_id for each in checkpoint.commits()] == list(range(batches - 100, batches))
    last = checkpoint.last_offset
    assert last is not None
    assert (last.batch_id, last.sources) == (batches - 1, {"0": {"logOffset": batches - 1}})
    read = committed(checkpoint, ["events"])
    assert read is not None
    assert len(read["events"].files) == batches
    log = SinkLog(LocalStore(first_batch / "out"))
    assert (log.last_batch, len(log.files())) == (batches - 1, batches)
    assert next(log.newest()).path.endswith("/part-00000-uuid.parquet")
    assert not list((first_batch / "checkpoint").rglob(".*.crc"))


def test_a_query_seems_to_have_read_many_files(first_batch: Path) -> None:
    growth.with_files(first_batch / "checkpoint", Path("/in"), 50)
    checkpoint = Checkpoint(LocalStore(first_batch / "checkpoint"))
    files = checkpoint.source_files(0)
    assert (len(files), {file.batch_id for file in files}) == (50, {0, 1})
    assert checkpoint.last_commit is not None
    assert checkpoint.last_commit.batch_id == 1
    assert [file.batch_id for file in files].count(1) == 1
    assert files[-1].path == "file:///in/00000049.json"


def result(name: str, ours: float, theirs: float) -> CaseResult:
    details = {growth.START: 10.0, growth.JVM: 700.0, growth.PYTHON: 90.0}
    variants = [
        VariantResult(each, {0: Sample(value, None, details)})
        for each, value in ((HEADWATER, ours), (SAME, theirs))
    ]
    return CaseResult(name, "ms", "lower", SAME, variants)


@pytest.mark.parametrize(("ours", "met"), [(240.0, True), (250.0, False)])
def test_growth_is_compared_with_that_by_hand(ours: float, met: bool) -> None:
    benchmark = growth.Growth()
    benchmark.input = Path("/nowhere")
    results = []
    for number, case in enumerate(benchmark.cases(quick=True)):
        large = number % 2 == 1
        results.append(result(case.name, ours if large else 120.0, 200.0 if large else 100.0))
    outcomes = list(benchmark.outcomes(results))
    assert len(outcomes) == sum(len(curve.measures) for curve in growth.CURVES)
    of_batches = [outcome for outcome in outcomes if "growth of a batch " in outcome.text]
    assert [outcome.met for outcome in of_batches] == [met] * len(growth.CURVES)
    # Spark grows by 100 ms to 200.
    assert of_batches[0].reached == pytest.approx((ours - 120 - 100) / 200)
    assert all(outcome.met for outcome in outcomes if outcome not in of_batches)


def test_a_variant_without_results_has_no_value() -> None:
    full = result("case", 120.0, 100.0)
    empty = CaseResult("case", "ms", "lower", SAME, [VariantResult(SAME, {}, unavailable="no such engine")])
    assert growth.ends(full, full, SAME, "") == (100.0, 100.0)
    assert growth.ends(full, empty, SAME, "") is None
    assert growth.extra_growth((1.0, 2.0), None) is None
    assert growth.extra_growth(None, (1.0, 2.0)) is None


def test_memory_is_the_largest_of_the_run() -> None:
    # The first query ended after one second; the others used more memory after that.
    usages = [Usage(1.0, 1.0, 100 << 20, 30 << 20, 40), Usage(9.0, 9.0, 500 << 20, 20 << 20, 90)]
    run = JobRun(10.0, 9.0, "", commits={0: usages[0]}, usages=usages)
    measured = growth.Measured(run, (), 0.0, Path("/nowhere"))
    assert measured.memory() == {growth.JVM: 500.0, growth.PYTHON: 30.0, "threads": 90.0}


def test_a_curve_with_a_manifest_differs_only_in_the_sink() -> None:
    plain, listed = (growth.copy_job(Path("/in"), sink) for sink in (growth.TO_FILES, growth.WITH_MANIFEST))
    assert listed.pipeline == plain.pipeline.replace("format: parquet", "format: parquet, manifest: true")
    assert listed.parameters == plain.parameters == {"data": "/in", "to_files": True}
    assert growth.copy_job(Path("/in"), growth.NOWHERE).parameters == {"data": "/in", "to_files": False}
