"""A JVM with an archive of Spark's classes: it maps one that fits and ignores one that is damaged."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from headwater.spark.class_data import SWITCH, ClassData
from headwater.spark.launch import find_class_data
from tests.short_lives import archive_file
from tests.spark.test_jvm import run

PROGRAM = """
from pyspark.sql import SparkSession

jvm = start(**{"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={LOGS.parent / 'loaded'}"})
say(SparkSession(jvm.context).range(3).count())
jvm.stop()
say(LINES)
"""
MAPPED = "source: shared objects file (top)"


def archive_in(cache: Path) -> ClassData:
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache), SWITCH: "", "SPARK_SUBMIT_OPTS": ""}
    archive = find_class_data({}, environ)
    assert archive is not None
    archive.folder.mkdir(parents=True)
    return archive


def start_with(cache: Path, logs: Path) -> str:
    """The classes that a JVM loaded, with their sources; it works, and prints nothing."""
    environ = {"XDG_CACHE_HOME": str(cache), SWITCH: "", "SPARK_SUBMIT_OPTS": ""}
    assert run(logs, PROGRAM, **environ) == [3, []]
    log = (logs / "spark.log").read_text()
    assert "archive" not in log
    assert "shared" not in log
    return (logs.parent / "loaded").read_text()


def test_an_archive_that_fits_is_mapped(tmp_path: Path) -> None:
    if not archive_file().exists():
        pytest.skip("there is no archive: `python -m tests.short_lives` makes it")
    archive = archive_in(tmp_path / "cache")
    shutil.copyfile(archive_file(), archive.archive)
    archive.complete()
    loaded = start_with(tmp_path / "cache", tmp_path / "logs")
    assert f"org.apache.spark.SparkContext {MAPPED}" in loaded


@pytest.mark.parametrize("damage", [b"", bytes(8192), b"no archive"])
def test_a_damaged_archive_is_ignored(tmp_path: Path, damage: bytes) -> None:
    archive = archive_in(tmp_path / "cache")
    archive.archive.write_bytes(damage)
    archive.complete()
    assert MAPPED not in start_with(tmp_path / "cache", tmp_path / "logs")
