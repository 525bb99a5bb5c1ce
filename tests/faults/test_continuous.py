"""A continuous query over two lives: shown, stopped without noise, gone on with; and what it can't become."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from pyspark import SparkContext

from headwater.api.check import check
from tests.pipelines import write
from tests.processes import headwater

PIPELINE = """
name: quick
sources:
  ticks: {connector: rate, rows_per_second: 20, num_partitions: 1}
tables:
  even: SELECT value, value * 2 AS twice FROM ticks WHERE value % 2 = 0
sinks:
  even: {reads: even, connector: console, trigger: continuous 1 second}
"""


def _life(folder: Path) -> int:
    """Run until three epochs are committed, and stop by SIGTERM: the newest epoch of all."""
    with headwater(folder, "run", "pipeline.yml", "--json") as run:
        run.until(lambda: sum(each["event"] == "epoch_committed" for each in run.events) >= 3)
        run.signal(signal.SIGTERM)
        assert run.wait() == 0, run.told
        # What Spark warns of when its tasks are killed stays in the log; the rest is the console sink.
        assert not re.search("WARN|ERROR|Exception|warning", run.stderr), run.told
        (ended,) = (each for each in run.events if each["event"] == "run_finished")
    told = ended["queries"]["even"]
    assert (told["status"], told["rows_in"], told["rows_out"]) == ("stopped", None, None)
    return int(told["batch"])


@pytest.mark.feature("E4.2")
def test_two_lives_of_a_continuous_query_and_what_it_can_not_become(
    context: SparkContext, tmp_path: Path
) -> None:
    file = write(tmp_path, PIPELINE)
    first = _life(tmp_path)
    assert _life(tmp_path) > first

    changed = PIPELINE.replace("trigger: continuous 1 second", "trigger: every 1 second")
    changed = changed.replace(
        "sinks:",
        "sinks:\n"
        "  counts: {reads: counts, connector: memory, mode: update, trigger: continuous 1 second}\n"
        "  late: {reads: late, connector: memory, trigger: continuous 1 second}\n"
        "  ramped: {reads: ramped, connector: memory, trigger: continuous 1 second}\n"
        "  wide: {reads: wide, connector: memory, trigger: continuous 1 second}\n"
        "  batches: {reads: even, connector: foreach_batch, function: 'out.py:write', "
        "trigger: continuous 1 second}",
    )
    changed = changed.replace(
        "tables:",
        "  ramped: {connector: rate, num_partitions: 1, ramp_up_time: 1 minute}\n"
        "  wide: {connector: rate, num_partitions: 99}\n"
        "tables:\n"
        "  counts: SELECT count(*) AS n FROM ticks\n"
        "  late: SELECT value, current_timestamp() AS now FROM ticks",
    )
    file.write_text(changed, encoding="utf-8")
    write(tmp_path, "def write(batch, number):\n    pass\n", "out.py")
    assert {(each.sink, each.code) for each in check(file).findings if each.is_error} == {
        ("even", "HW-TRIGGER-CHANGED"),
        ("counts", "HW-CONTINUOUS-UNSUPPORTED"),
        ("late", "HW-CONTINUOUS-TIME-UNSUPPORTED"),
        ("ramped", "HW-OPTION-IGNORED-BY-TRIGGER"),
        ("wide", "HW-CORES-MISSING"),
        ("batches", "HW-TRIGGER-SINK-UNSUPPORTED"),
    }
