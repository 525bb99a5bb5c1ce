"""A full check and a run say everything that is wrong, each once, at its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from headwater.api.check import check
from headwater.errors import PipelineError, Problem
from tests.pipelines import run_until_idle, write

PIPELINE = """
name: broken
sources:
  orders:
    connector: files
    path: orders
    format: json
    schema: {id: int, amount: double, name: string}
  timed:
    connector: files
    path: orders
    format: json
    schema: {id: int, at: string}
    watermark: {column: at, delay: 1 minute}
  hidden: {connector: rate, options: {key: "${secret:NO_SUCH_SECRET}"}}
tables:
  syntax: SELECT sum( FROM orders
  missing: SELECT * FROM ordres
  typo: SELECT sum(amont) AS amount FROM orders
  after: SELECT amount FROM typo JOIN syntax
  nothing: {python: "code.py:nothing"}
  total: SELECT sum(amount) AS amount FROM orders
sinks:
  after: {reads: after, connector: noop}
  missing: {reads: missing, connector: noop}
  nothing: {reads: nothing, connector: noop}
  timed: {reads: timed, connector: noop}
  hidden: {reads: hidden, connector: noop}
  mode: {reads: orders, connector: files, path: one, format: json, mode: update}
  parts: {reads: orders, connector: files, path: two, format: json, partition_by: [day]}
  total: {reads: total, connector: files, path: three, format: json}
""".lstrip()
CODE = "import os\n\n\n@lambda function: function\ndef nothing(orders):\n    return None\n"
WRONG = [
    ("HW-TABLE-NOT-A-DATAFRAME", "code.py", 5),
    ("HW-WATERMARK-TYPE-INVALID", "pipeline.yml", 13),
    ("HW-SECRET-MISSING", "pipeline.yml", 14),
    ("HW-SQL-SYNTAX", "pipeline.yml", 16),
    ("HW-TABLE-NOT-FOUND", "pipeline.yml", 17),
    ("HW-COLUMN-NOT-FOUND", "pipeline.yml", 18),
    ("HW-APPEND-NEEDS-WATERMARK", "pipeline.yml", 21),
    ("HW-SINK-MODE-UNSUPPORTED", "pipeline.yml", 28),
    ("HW-PARTITION-COLUMN-NOT-FOUND", "pipeline.yml", 29),
]


def told(problems: list[Problem]) -> list[tuple[str, str, int]]:
    return [(problem.code, problem.file, problem.place.line if problem.place else 0) for problem in problems]


def test_nothing_hides_another_thing(
    context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    write(tmp_path, CODE, "code.py")
    file = write(tmp_path, PIPELINE)
    result = check(file)
    problems = [finding.problem for finding in result.findings]
    assert told(problems) == WRONG
    hints = {problem.code: problem.hint for problem in problems}
    assert hints["HW-COLUMN-NOT-FOUND"] == "Did you mean `amount`?"
    assert hints["HW-APPEND-NEEDS-WATERMARK"].startswith("Declare a watermark on a timestamp column")
    file.write_text(PIPELINE.replace("NO_SUCH_SECRET", "A_SECRET_THAT_IS_SET"), encoding="utf-8")
    monkeypatch.setenv("A_SECRET_THAT_IS_SET", "a value that is in no other text")
    with pytest.raises(PipelineError) as error:
        run_until_idle(file)
    assert told(list(error.value.problems)) == [each for each in WRONG if each[0] != "HW-SECRET-MISSING"]
