"""Finished files: a file is read once, and goes only when every sink that reads it has committed it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.api.check import check
from headwater.events import Event, Notice
from headwater.runtime.handles import Run
from tests.pipelines import batches, capture, captured, feed, run_until_idle, run_while, wait_for, write

CLEANED = """
name: cleaned
sources:
  lines:
    connector: files
    path: [in, "more/*/new"]
    format: json
    schema: {id: int}
    max_files_per_batch: 1
    clean_up: archive
    archive_dir: done
  again: {connector: files, path: in, format: json, schema: {id: int}}
  brief: {connector: files, path: brief, format: json, schema: {id: int}, clean_up: delete}
tables:
  twice: SELECT l.id FROM lines l UNION ALL SELECT id + 100 FROM again
sinks:
  fast: {reads: lines, connector: foreach_batch, function: "capture.py:fast"}
  slow: {reads: twice, connector: foreach_batch, function: "capture.py:slow"}
  brief: {reads: brief, connector: foreach_batch, function: "capture.py:brief"}
"""
GATE = """

def _wait():
    import time
    deadline = time.monotonic() + 60
    while not (FOLDER.parent / "open").exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def slow(batch, batch_id):
    _wait()
    keep("slow", batch, batch_id)
"""


def everything(folder: Path, sink: str) -> Counter[tuple[Any, ...]]:
    return sum(captured(folder, sink), Counter())


def files_in(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*.json")}


@pytest.mark.feature("B2.3")
def test_files_go_when_all_sinks_have_them_and_no_sink_misses_a_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    capture(tmp_path, "fast", "brief")
    code = tmp_path / "capture.py"
    code.write_text(code.read_text(encoding="utf-8") + GATE, encoding="utf-8")
    for number in range(3):
        feed(tmp_path / "in", str(number), [{"id": number}])
    feed(tmp_path / "more" / "a b" / "new", "0", [{"id": 10}])
    feed(tmp_path / "done" / "in", "1", [{"id": -1}])
    feed(tmp_path / "brief", "1", [{"id": 1}])
    file, events = write(tmp_path, CLEANED), list[Event]()

    def steer(run: Run) -> None:
        # One sink has it all while the other is still in its first batch: nothing may go yet.
        wait_for(lambda: run.queries["fast"].rows_in == 4, run)
        wait_for(lambda: not files_in(tmp_path / "brief"), run)
        assert files_in(tmp_path / "in") == {"0.json", "1.json", "2.json"}
        (tmp_path / "open").touch()
        wait_for(lambda: not files_in(tmp_path / "in") | files_in(tmp_path / "more"), run)

    run_while(file, steer, events)
    # The archive keeps the folders, and what was there already.
    archived = {"in/0.json", "in/1.json", "in/1.2.json", "in/2.json", "more/a b/new/0.json"}
    assert files_in(tmp_path / "done") == archived
    assert (tmp_path / "done" / "in" / "1.json").read_text() == '{"id": -1}\n'

    # A name that comes back is not read again, so it stays, and that is said.
    feed(tmp_path / "in", "0", [{"id": 77}])
    os.utime(tmp_path / "in" / "0.json", (1_900_000_000, 1_900_000_000))
    feed(tmp_path / "in", "3", [{"id": 3}])
    run_until_idle(file, events)
    assert files_in(tmp_path / "in") == {"0.json"}
    notices = [event.text for event in events if isinstance(event, Notice)]
    (said,) = [message for message in notices if "HW-CLEAN-UP" in message]
    assert said.startswith(f"HW-CLEAN-UP-FILE-CHANGED Source `lines`: {tmp_path / 'in' / '0.json'} ")
    assert files_in(tmp_path / "done") == archived | {"in/3.json"}
    # Nothing is read twice, and nothing is missing.
    ids = [0, 1, 2, 3, 10]
    assert everything(tmp_path, "fast") == Counter((id_,) for id_ in ids)
    assert everything(tmp_path, "slow") == Counter((id_,) for id_ in [*ids, 100, 101, 102, 103])
    assert everything(tmp_path, "brief") == Counter([(1,)])


REFUSED = """
name: refused
sources:
  cleaned: {connector: files, path: in/a, format: json, schema: {id: int}, clean_up: archive, archive_dir: in}
  fixed: {connector: files, path: in, format: json, schema: {id: int}, static: true, clean_up: delete}
  beside: {connector: files, path: out/x, format: json, schema: {id: int}, clean_up: delete}
tables:
  joined: SELECT cleaned.id FROM cleaned JOIN fixed USING (id) JOIN beside USING (id)
sinks:
  out: {reads: joined, connector: files, path: out, format: json}
"""


@pytest.mark.feature("B2.3", part="refusals")
def test_clean_up_that_would_harm_others_is_refused(tmp_path: Path) -> None:
    found = check(write(tmp_path, REFUSED), offline=True).findings
    assert {(each.problem.code, each.problem.params["name"]) for each in found} >= {
        ("HW-CLEAN-UP-ARCHIVE-CONFLICT", "cleaned"),
        ("HW-CLEAN-UP-STATIC-CONFLICT", "cleaned"),
        ("HW-CLEAN-UP-STATIC-SOURCE", "fixed"),
        ("HW-CLEAN-UP-SINK-CONFLICT", "beside"),
    }


NAMES = """
name: names
sources:
  by_name: {connector: files, path: "in/*", format: json, schema: {id: int}, file_name_only: true}
  by_path: {connector: files, path: "in/*", format: json, schema: {id: int}}
sinks:
  by_name: {reads: by_name, connector: foreach_batch, function: "capture.py:by_name"}
  by_path: {reads: by_path, connector: foreach_batch, function: "capture.py:by_path"}
"""


@pytest.mark.feature("B2.2")
def test_files_of_one_name_are_one_file_by_wish(spark: SparkSession, tmp_path: Path) -> None:
    capture(tmp_path, "by_name", "by_path")
    file = write(tmp_path, NAMES)
    feed(tmp_path / "in" / "a", "x", [{"id": 1}])
    run_until_idle(file)
    feed(tmp_path / "in" / "b", "x", [{"id": 2}])
    feed(tmp_path / "in" / "b", "y", [{"id": 3}])
    run_until_idle(file)
    assert everything(tmp_path, "by_name") == Counter([(1,), (3,)])
    assert everything(tmp_path, "by_path") == Counter([(1,), (2,), (3,)])


LIMITED = """
name: limited
sources:
  tight: {connector: files, path: in, format: json, schema: {id: int}, max_files_per_batch: 1}
  loose: {connector: files, path: in, format: json, schema: {id: int}, max_bytes_per_batch: 1 KB}
  fixed: {connector: rate_per_batch, rows_per_batch: 5}
sinks:
  tight: {reads: tight, connector: noop}
  loose: {reads: loose, connector: noop}
  fixed: {reads: fixed, connector: noop, trigger: every 1 second}
"""


@pytest.mark.feature("J2")
def test_limits_bound_batches_and_one_that_is_too_low_is_told_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number in range(30):
        feed(tmp_path / "in", str(number), [{"id": number}])
    file, events = write(tmp_path, LIMITED), list[Event]()

    def steer(run: Run) -> None:
        wait_for(lambda: (run.queries["tight"].rows_in or 0) >= 3, run)
        wait_for(lambda: run.queries["loose"].rows_in == 30, run)
        wait_for(lambda: (run.queries["fixed"].rows_in or 0) >= 10, run)

    run_while(file, steer, events)
    rows = {query: {batch.rows_in for batch in batches(events, query)} - {0} for query in ("tight", "fixed")}
    assert rows == {"tight": {1}, "fixed": {5}}
    notices = [event for event in events if isinstance(event, Notice)]
    (said,) = [event.text for event in notices if event.code == "HW-BACKLOG-GROWING"]
    assert "`tight`" in said
    assert "max_files_per_batch" in said
