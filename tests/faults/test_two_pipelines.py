"""Two pipelines in one run share a Spark, and nothing else."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.pipelines import committed, feed, write
from tests.processes import COMMAND, headwater, lock_of, queries_of

PIPELINE = """
name: {name}
spark: {{spark.master: "local[2]"}}
sources:
  rows: {{connector: files, path: in, format: json, schema: {{id: int}}, max_files_per_batch: 1}}
sinks:
  copied: {{reads: rows, connector: files, path: out, format: json}}
  called: {{reads: rows, connector: foreach_batch, function: "code.py:call"}}
"""
CODE = """\
from pathlib import Path


def call(batch, batch_id):
    if batch_id == 1 and (Path(__file__).parent / "fails").exists():
        raise ValueError("no such account")
    pool = batch.sparkSession.sparkContext.getLocalProperty("spark.scheduler.pool")
    (Path(__file__).parent / "pool").write_text(pool)
"""


@pytest.mark.feature("F2", part="two pipelines in one run")
@pytest.mark.feature("F3", part="one of two pipelines fails")
def test_neither_a_failure_nor_a_stop_of_one_affects_the_other(tmp_path: Path) -> None:
    orders, visits = tmp_path / "orders", tmp_path / "visits"
    files = [write(folder, PIPELINE.format(name=folder.name)) for folder in (orders, visits)]
    for folder in (orders, visits):
        write(folder, CODE, "code.py")
        feed(folder / "in", "0", [{"id": 0}])
    (orders / "fails").touch()

    def statuses(folder: Path) -> dict[str, str]:
        return {name: query["status"] for name, query in queries_of(folder).items()}

    both = {"copied": "idle", "called": "idle"}
    with headwater(tmp_path, "run", *files, "--json") as run:
        run.until(lambda: statuses(orders) == statuses(visits) == both)
        # Each query has a pool of its own, though they have the same names.
        pools = [(folder / "pool").read_text() for folder in (orders, visits)]
        assert pools == ["orders.called", "visits.called"]
        for folder in (orders, visits):
            feed(folder / "in", "1", [{"id": 1}])
        run.until(lambda: statuses(orders) == {"copied": "idle", "called": "failed"})
        run.until(lambda: committed(visits / "out").total() == 2 and statuses(visits) == both)

        stop = [str(COMMAND), "stop", str(files[0])]
        subprocess.run(stop, capture_output=True, text=True, check=True, timeout=60)
        # Its checkpoints are free when the command returns; the other one goes on.
        assert lock_of(orders, "copied") is None
        for folder in (orders, visits):
            feed(folder / "in", "2", [{"id": 2}])
        run.until(lambda: committed(visits / "out").total() == 3 and statuses(visits) == both)
        run.signal(signal.SIGTERM)
        assert run.wait() == 1, run.told
    assert committed(orders / "out") == Counter([0, 1])
    assert committed(visits / "out") == Counter([0, 1, 2])
    ended = {}
    for event in run.events:
        if event["event"] == "run_finished":
            codes = {
                name: each["problem"] and each["problem"]["code"] for name, each in event["queries"].items()
            }
            ended[event["run_id"]] = (event["exit_code"], codes)
    assert list(ended.values()) == [
        (1, {"orders.copied": None, "orders.called": "HW-QUERY-CODE-FAILED"}),
        (0, {"visits.copied": None, "visits.called": None}),
    ]
    assert run.stderr == ""
