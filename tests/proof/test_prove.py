"""Proofs on real runs: right sinks have no violation, and every planted fault is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark import SparkContext

from headwater.api.prove import ProofOptions, prove, run_proof
from headwater.cli.prove_views import certificate_lines
from headwater.proof.certificate import Reference
from headwater.proof.events import Killed, ProofEvent
from tests.proof.planted import ROWS, of_code, project, violated

SEED_OF_NAIVE = 1
"""With this seed, the first kill of three sinks is that of the last one."""
COPIED = "copied: {reads: slim, connector: files, path: out, format: json}"
TOTALS = "totals: {reads: totals, connector: sqlite, path: shop.db, into: totals, mode: update, key: page}"


@pytest.mark.feature("H1.1", part="prove: a crash between the commits of the sink and of Spark")
@pytest.mark.feature("H3", part="prove: a naive append")
def test_a_naive_append_is_found_and_right_sinks_have_no_violation(
    context: SparkContext, tmp_path: Path
) -> None:
    # After its only batch, nothing else is planned, so the log always shows that Spark has committed it.
    file = project(
        tmp_path, COPIED, TOTALS, of_code("naive"), "shown: {reads: slim, connector: console}", files=1
    )
    events: list[ProofEvent] = []
    options = ProofOptions(kills=1, points=("before-spark-commit",), seed=SEED_OF_NAIVE)
    certificate = run_proof(file, options, events.append)

    assert violated(certificate) == {"naive"}
    assert certificate.exit_code == 1
    for each in certificate.violations:
        assert each.after_kill == 1
        assert each.difference is not None
        # The batch is there twice.
        assert (each.difference.missing, each.difference.extra) == (0, ROWS)
    (kill,) = certificate.kills
    assert (kill.point, kill.sink, kill.victim) == ("before-spark-commit", "naive", "driver and JVM")
    assert (kill.reached, kill.edited, kill.batch) == (True, True, 0)
    assert [event.kill for event in events if isinstance(event, Killed)] == [kill]
    rows = {each.sink: each.rows for each in certificate.sinks}
    assert rows == {"copied": ROWS, "totals": 3, "naive": ROWS}
    assert {each.reference for each in certificate.sinks} == {Reference.BATCH}
    assert [each.sink for each in certificate.not_proven] == ["shown"]
    assert (
        f"headwater prove {file} --kills 1 --seed {SEED_OF_NAIVE} --point before-spark-commit"
        == certificate.command
    )
    text = "\n".join(certificate_lines(certificate))
    assert "NOT PROVEN" in text
    assert certificate.command in text
    shown = certificate.to_json()
    assert json.loads(json.dumps(shown))["points"] == {"before-spark-commit": {"reached": 1, "tried": 1}}
    # Nothing scratch is left, and nothing real was written.
    assert sorted(each.name for each in tmp_path.iterdir() if each.name != "__pycache__") == [
        ".headwater",
        "code.py",
        "in",
        "pipeline.yml",
    ]
    assert not (tmp_path / ".headwater" / "prove").exists()


@pytest.mark.feature("H3", part="prove: an upsert without a key, a nondeterministic query")
def test_what_is_wrong_without_a_kill_is_found_before_the_first(
    context: SparkContext, tmp_path: Path
) -> None:
    drawn = "drawn: {reads: drawn, connector: sqlite, path: shop.db, into: drawn}"
    file = project(tmp_path, TOTALS, of_code("keyless", "totals", "update"), drawn, files=2)
    certificate = prove(file, kills=1)
    assert violated(certificate) == {"keyless", "drawn"}
    assert {each.after_kill for each in certificate.violations} == {0}
    assert certificate.kills == ()


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.feature(
    "H3", part="prove: a ledger that is not checked, commits in the wrong order, an ignored batch ID"
)
@pytest.mark.parametrize(
    ("fault", "point"),
    [("early", "mid-task"), ("ignored", "before-spark-commit"), ("unchecked", "before-spark-commit")],
)
def test_other_faulty_functions_are_found(
    context: SparkContext, tmp_path: Path, fault: str, point: str
) -> None:
    certificate = prove(project(tmp_path, of_code(fault)), kills=20, points=(point,), seed=3)
    assert violated(certificate) == {fault}
    assert certificate.violations[-1].after_kill > 0
