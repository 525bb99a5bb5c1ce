"""Runs that cron or Airflow start: exit codes, no second run beside the first, a quick end without news."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import headwater

PIPELINE = """
name: nightly
sources:
  orders: {connector: files, path: in, format: json, schema: {id: int}}
sinks:
  orders: {reads: orders, connector: foreach_batch, function: "out.py:write", trigger: available now}
"""
# The batch tells that it runs, and ends when it is let go.
OUT = """
import threading
from pathlib import Path

HERE = Path(__file__).parent


def write(batch, batch_id):
    with (HERE / "written").open("a") as file:
        file.writelines(f"{row.id}\\n" for row in batch.collect())
    wait = threading.Event()
    while not (HERE / "go").exists():
        wait.wait(0.05)
"""
FAILING = """
def write(batch, batch_id):
    raise RuntimeError("no room")
"""


@pytest.mark.feature("E3.2")
def test_a_scheduler_gets_true_exit_codes_and_no_run_beside_another(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 1}\n{"id": 2}\n', encoding="utf-8")
    (tmp_path / "pipeline.yml").write_text(PIPELINE, encoding="utf-8")
    (tmp_path / "out.py").write_text(OUT, encoding="utf-8")
    written = tmp_path / "written"

    with headwater(tmp_path, "run", "pipeline.yml") as first:
        first.until(lambda: written.exists() and written.read_text(encoding="utf-8").count("\n") == 2)
        with headwater(tmp_path, "run", "pipeline.yml", "--json") as second:
            assert second.wait() == 4
        (refusal,) = [event for event in map(json.loads, second.stdout.splitlines()) if "problems" in event]
        assert [problem["code"] for problem in refusal["problems"]] == ["HW-CHECKPOINT-LOCKED"]
        assert str(first.pid) in refusal["problems"][0]["message"]
        (tmp_path / "go").touch()
        assert first.wait() == 0
    with headwater(tmp_path, "run", "pipeline.yml") as third:
        assert third.wait() == 0
    assert "orders: finished, 0 rows in, 0 out" in third.stdout
    assert written.read_text(encoding="utf-8") == "1\n2\n"

    (tmp_path / "in" / "2.json").write_text('{"id": 3}\n', encoding="utf-8")
    (tmp_path / "out.py").write_text(FAILING, encoding="utf-8")
    with headwater(tmp_path, "run", "pipeline.yml") as failing:
        assert failing.wait() == 1
    assert "HW-QUERY-CODE-FAILED" in failing.stdout
