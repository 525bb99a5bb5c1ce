"""The logs of a query: how far it is, and the edits that a crash can also leave behind."""

from __future__ import annotations

import os
from pathlib import Path

from headwater.proof.checkpoints import Progress, QueryLog


def write(folder: Path, log: str, *batches: int) -> None:
    (folder / log).mkdir(exist_ok=True)
    for batch in batches:
        (folder / log / str(batch)).touch()
        (folder / log / f".{batch}.crc").touch()


def test_progress_is_read_from_the_names_of_files(tmp_path: Path) -> None:
    log = QueryLog(tmp_path / "none")
    assert log.progress == Progress(-1, -1)
    write(tmp_path, "offsets", 0, 9, 10)
    write(tmp_path, "commits", 0, 9)
    (tmp_path / "offsets" / ".11.tmp").touch()
    log = QueryLog(tmp_path)
    assert log.progress == Progress(planned=10, committed=9)
    assert log.progress.unfinished
    write(tmp_path, "commits", 10)
    assert not log.progress.unfinished


def test_a_commit_is_removed_with_its_checksum(tmp_path: Path) -> None:
    write(tmp_path, "offsets", 0, 1)
    write(tmp_path, "commits", 0, 1)
    QueryLog(tmp_path).forget_commit(1)
    assert sorted(os.listdir(tmp_path / "commits")) == [".0.crc", "0"]
    assert QueryLog(tmp_path).progress == Progress(1, 0)


def test_durations_are_from_the_plan_to_the_commit(tmp_path: Path) -> None:
    write(tmp_path, "offsets", 0, 1, 2)
    write(tmp_path, "commits", 0, 1)
    for batch in (0, 1):
        os.utime(tmp_path / "offsets" / str(batch), (100 * batch, 100 * batch))
        os.utime(tmp_path / "commits" / str(batch), (100 * batch + 3, 100 * batch + 3))
    assert QueryLog(tmp_path).durations() == [3.0, 3.0]


def test_state_and_watermark_decide_what_a_result_depends_on(tmp_path: Path) -> None:
    log = QueryLog(tmp_path)
    assert (log.has_state, log.watermark_ms) == (False, 0)
    (tmp_path / "state").mkdir()
    (tmp_path / "offsets").mkdir()
    line = '{"batchWatermarkMs":5,"batchTimestampMs":1,"conf":{}}'
    (tmp_path / "offsets" / "0").write_text(f"v1\n{line}\n-")
    assert (log.has_state, log.watermark_ms) == (True, 5)
