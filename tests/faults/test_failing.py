"""One query of three fails in its second batch: the others go on, and everybody is told the truth."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipelines import feed, rows_of, write
from tests.processes import headwater

PIPELINE = """
name: orders
sources:
  orders:
    connector: files
    path: in
    format: json
    schema: {id: int}
    max_files_per_batch: 1
tables:
  doubled: SELECT id * 2 AS id FROM orders
sinks:
  plain: {reads: orders, connector: files, path: plain, format: json}
  broken: {reads: orders, connector: foreach_batch, function: "out.py:write"}
  doubled: {reads: doubled, connector: files, path: doubled, format: json}
"""

OUT = """\
def write(batch, batch_id):
    if batch_id == 1:
        book(batch)


def book(batch):
    raise ValueError("no such account")
"""

JAVA = re.compile(r"py4j|java|scala|org\.apache|Traceback|\tat |Exception in thread", re.IGNORECASE)


@pytest.mark.feature("F3", part="without restarts")
def test_one_of_three_fails(spark: SparkSession, tmp_path: Path) -> None:
    file = write(tmp_path, PIPELINE)
    write(tmp_path, OUT, "out.py")
    for number in range(4):
        feed(tmp_path / "in", str(number), [{"id": number}], at=1_700_000_000 + number)
    with headwater(tmp_path, "run", file, "--until-idle") as run:
        assert run.wait() == 1, run.told

    assert rows_of(spark, tmp_path / "plain", schema="id int") == Counter({(n,): 1 for n in range(4)})
    assert rows_of(spark, tmp_path / "doubled", schema="id int") == Counter({(2 * n,): 1 for n in range(4)})

    # Told when it happens, not only at the end of a run that may go on for days.
    told = next(line for line in run.stdout.splitlines() if " broken: failed" in line)
    assert "HW-QUERY-CODE-FAILED" in told
    assert "(out.py:7:1)" in told
    summary = run.stdout.partition(" Run finished\n")[2].splitlines()
    assert [line.split(":")[0].strip() for line in summary] == ["plain", "broken", "doubled"]
    assert [line.split(",")[0].split(": ")[1] for line in summary] == ["stopped", "failed", "stopped"]
    assert "1 row in, 1 out: HW-QUERY-CODE-FAILED" in summary[1]
    assert "ValueError: no such account" in summary[1]
    assert "out.py:7:1: error HW-QUERY-CODE-FAILED" in run.stderr
    assert run.stderr.count("HW-QUERY-CODE-FAILED") == 1
    assert JAVA.findall(run.stdout + run.stderr) == []

    log = (tmp_path / ".headwater" / "logs" / "failures.log").read_text()
    for text in ("broken", "HW-QUERY-CODE-FAILED", 'out.py", line 7, in book', " at org.apache.spark."):
        assert text in log
