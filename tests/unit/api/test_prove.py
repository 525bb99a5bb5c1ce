"""What `prove` rejects before it starts anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.api.prove import ProofOptions, prove, run_proof
from headwater.errors import PipelineError, UsageError
from headwater.proof.scratch import ENVIRONMENT
from tests.pipelines import feed, write

PIPELINE = """
name: shop
sources:
  orders: {connector: files, path: in, format: json, schema: {id: int}}
sinks:
  shown: {reads: orders, connector: console}
"""


def test_an_unknown_point_suggests_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        prove(tmp_path / "none.yml", points=["after-sink-comit"])
    (problem,) = error.value.problems
    assert problem.code == "HW-PROVE-POINT-UNKNOWN"
    assert problem.params == {"point": "after-sink-comit", "hint": "Did you mean `after-sink-commit`?"}


def test_given_files_must_exist(tmp_path: Path) -> None:
    missing = str(tmp_path / "sample")
    with pytest.raises(UsageError) as error:
        prove(tmp_path / "none.yml", inputs={"orders": missing})
    (problem,) = error.value.problems
    assert (problem.code, dict(problem.params)) == ("HW-PROVE-INPUT-INVALID", {"text": f"orders={missing}"})


def test_a_pipeline_without_a_provable_sink_leaves_nothing_behind(tmp_path: Path) -> None:
    feed(tmp_path / "in", "1", [{"id": 1}])
    file = write(tmp_path, PIPELINE)
    before = os.environ.get(ENVIRONMENT)
    with pytest.raises(PipelineError) as error:
        run_proof(file, ProofOptions())
    (problem,) = error.value.problems
    assert problem.code == "HW-PROVE-NO-SINKS"
    assert "`shown`: the connector `console` has no scratch copies" in str(problem.params["reasons"])
    assert os.environ.get(ENVIRONMENT) == before
    assert sorted(os.listdir(tmp_path)) == ["in", "pipeline.yml"]
