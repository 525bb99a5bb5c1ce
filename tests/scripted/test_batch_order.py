"""What lies in the checkpoint when a sink is called, and what a batch that runs again computes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.testing.report import report
from headwater.testing.test_runner import TestRunner
from tests.pipelines import write
from tests.scripted.plays import play_here

PIPELINE = """
name: stamped
sources:
  words: {connector: files, path: in, format: json, schema: {word: string}}
tables:
  stamped: SELECT word, current_timestamp() AS read_at FROM words
sinks:
  stamped: {reads: stamped, connector: foreach_batch, function: "out.py:look"}
"""
OUT = """
import json
import os
from pathlib import Path

SEEN = Path(__file__).parent / "seen.jsonl"


def look(batch, batch_id):
    \"\"\"Note the rows and what the checkpoint holds; the batch of the word `bad` fails the first time.\"\"\"
    rows = [[row.word, f"{row.read_at:%H:%M}"] for row in batch.collect()]
    [checkpoint] = Path(os.environ["HEADWATER_TEST_DIR"]).parent.glob("*/checkpoints/stamped")
    told = {"batch": batch_id, "rows": rows, "offsets": held(checkpoint / "offsets")}
    told["commits"] = sorted(held(checkpoint / "commits"))
    before = SEEN.read_text() if SEEN.exists() else ""
    SEEN.write_text(before + json.dumps(told) + chr(10))
    if "bad" in rows[0] and "bad" not in before:
        raise ValueError("not today")


def held(folder):
    return {file.name: file.read_text() for file in folder.glob("[0-9]*")}
"""
TESTS = """
clock: 08:00
sinks: {stamped: real}
tests:
  order:
    - feed: {words: [[owl]]}
    - feed: {words: [[bad]]}
      fails: not today
    - advance: 1 hour
    - feed: {words: [[cat]]}
    - start
    - advance: 1 hour
    - crash
    - feed: {words: [[dog]]}
"""


@pytest.mark.feature("H1.2")
def test_offsets_come_before_the_sink_and_commits_after_it(player: TestRunner, tmp_path: Path) -> None:
    write(tmp_path, OUT, "out.py")
    result = play_here(player, tmp_path, PIPELINE, TESTS)["order"]
    assert result.passed, "\n".join(report(result))
    calls = [json.loads(line) for line in (tmp_path / "seen.jsonl").read_text("utf-8").splitlines()]
    assert [(call["batch"], call["rows"], sorted(call["offsets"]), call["commits"]) for call in calls] == [
        (0, [["owl", "08:00"]], ["0"], []),
        (1, [["bad", "08:00"]], ["0", "1"], ["0"]),
        # The clock has moved and more rows have come, and still it is the same batch.
        (1, [["bad", "08:00"]], ["0", "1"], ["0"]),
        (2, [["cat", "09:00"]], ["0", "1", "2"], ["0", "1"]),
        (2, [["cat", "09:00"]], ["0", "1", "2"], ["0", "1"]),
        (3, [["dog", "10:00"]], ["0", "1", "2", "3"], ["0", "1", "2"]),
    ]
    planned = calls[-1]["offsets"]
    assert all(call["offsets"][name] == planned[name] for call in calls for name in call["offsets"])
