"""Creates the archive of Spark's classes: runs a small pipeline, after which Java writes what it loaded.

Writing takes Java 10 to 30 seconds. Therefore, no run does it at its own end: when a command has finished, a
separate process of the lowest priority starts (`python -m headwater.api.class_data`) and outlives the command.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from headwater.engine.doctor import no_archive_reason, read_memory
from headwater.errors import HeadwaterError, SetupError
from headwater.spark import class_data
from headwater.spark.class_data import EXTRA_CLASS_PATH, PART, Attempts, ClassData
from headwater.spark.java import Java, find_java
from headwater.spark.launch import find_class_data

_MEMORY = 3 * 1024**3
_DISK = 1024**3
_RUN_SECONDS = 600.0
_WRITE_SECONDS = 600.0
_OTHER_CLASS_PATH = "the process that creates it found another Java or class path"
# The second compiler pays off only in a longer life.
_SHORT_LIFE = "-XX:TieredStopAtLevel=1"

PIPELINE = """
name: class_data
spark: {spark.master: "local[2]"}
sources:
  clicks:
    connector: files
    path: in
    format: json
    schema: {at: timestamp, word: string, n: long}
    watermark: {column: at, delay: 1 minute}
    max_files_per_batch: 1
  words: {connector: files, path: words, format: json, schema: {word: string, topic: string}, static: true}
tables:
  shouted: {python: "tables.py:shouted"}
  joined: SELECT s.at, s.word, w.topic FROM shouted s LEFT JOIN words w ON s.word = w.word
  counted: |
    SELECT window.start AS at, word, count(*) AS number, sum(n) AS total
    FROM clicks GROUP BY window(at, '1 minute'), word
  totals: SELECT word, count(*) AS number FROM clicks GROUP BY word
sinks:
  joined: {reads: joined, connector: files, path: joined, format: json, trigger: available now}
  counted: {reads: counted, connector: files, path: counted, format: parquet, trigger: available now}
  totals: {reads: totals, connector: console, mode: update, trigger: available now}
"""
TABLES = """
from pyspark.sql.functions import udf


@udf("string")
def shout(word):
    return word.upper()


def shouted(clicks):
    return clicks.select("at", shout("word").alias("word"))
"""
"""Together they use what most pipelines use: files, SQL, Python, windows, state, a join."""


def start_making() -> None:
    """Start the process that creates the archive, if a JVM of this process missed it and the machine has room.

    Whatever prevents that is no error: the next start is as fast as this one.
    """
    missed = class_data.missing()
    if missed is None or not _has_room(missed.archive):
        return
    command = [sys.executable, "-m", __name__, missed.archive.key, missed.extra_class_path]
    with suppress(OSError):
        if _count_attempt(missed.archive):
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=missed.archive.folder,
                start_new_session=True,
            )


def _count_attempt(archive: ClassData) -> bool:
    """Count an attempt before its process starts, which may fail too early to count it.

    False if the archive needs no attempt, because another process is creating it or has created it.
    """
    with archive.writing(wait=False) as alone:
        if not alone or archive.is_complete:
            return False
        archive.note(Attempts(archive.attempts().number + 1))
        return True


def _has_room(archive: ClassData) -> bool:
    if archive.attempts().exhausted:
        return False
    total, free = read_memory()
    try:
        archive.folder.mkdir(parents=True, exist_ok=True)
        return (total if free is None else free) >= _MEMORY and shutil.disk_usage(
            archive.folder
        ).free >= _DISK
    except OSError:
        return False


def make_now() -> str:
    """Create the archive for this machine and wait for it; returns why there is none, or nothing."""
    try:
        archive = find_class_data({})
    except SetupError:
        return "no Java was found"
    return make(archive, wait=True) if archive is not None else no_archive_reason(os.environ)


def make(archive: ClassData, extra_class_path: str = "", *, wait: bool = False, counted: bool = False) -> str:
    """Create the archive unless it exists; returns why there is none, or nothing.

    Only one process creates an archive at a time; a second one waits for it or gives up. `counted`: the command
    that started this process has counted the attempt.
    """
    try:
        archive.folder.mkdir(parents=True, exist_ok=True)
        with archive.writing(wait=wait) as alone:
            if archive.is_complete:
                return ""
            if not alone:
                return "another process is creating it"
            return _attempt(archive, extra_class_path, counted=counted)
    except OSError as error:
        return f"{archive.folder}: {error.strerror or error}"


def _attempt(archive: ClassData, extra_class_path: str, *, counted: bool) -> str:
    number = archive.attempts().number
    if not counted:
        # First: a process that is killed must not try forever.
        number += 1
        archive.note(Attempts(number))
    try:
        reason = _make_archive(archive, extra_class_path)
    except HeadwaterError as error:
        reason = str(error).partition("\n")[0].rstrip(".")
    except subprocess.TimeoutExpired:
        reason = f"Java took longer than {_WRITE_SECONDS:g} seconds"
    if reason:
        archive.note(Attempts(number, reason))
    else:
        archive.complete()
    archive.delete_unused()
    return reason


def _make_archive(archive: ClassData, extra_class_path: str) -> str:
    # What a process that was killed has left.
    for old in archive.folder.glob(f"{PART}{archive.key}-*"):
        shutil.rmtree(old, ignore_errors=True)
    # In the same directory, so that the archive appears there complete or not at all.
    with tempfile.TemporaryDirectory(prefix=f"{PART}{archive.key}-", dir=archive.folder) as work:
        folder, java, part = Path(work), find_java(), Path(work, "part.jsa")
        options = [_SHORT_LIFE, f'"-XX:ArchiveClassesAtExit={part}"']
        if not archive.has_base:
            if reason := _write_base(archive, java, folder / "base.jsa"):
                return reason
            options.append(f'"-XX:SharedArchiveFile={archive.base}"')
        settings = {"spark.driver.extraJavaOptions": " ".join(options), "spark.driver.memory": "512m"}
        if extra_class_path:
            settings[EXTRA_CLASS_PATH] = extra_class_path
        _run(folder, settings)
        if not part.exists():
            return "Java wrote no archive"
        os.replace(part, archive.archive)
    return ""


def _write_base(archive: ClassData, java: Java, part: Path) -> str:
    """The archive of Java's own classes, for a Java that comes without."""
    command = [str(java.executable), "-Xshare:dump", f"-XX:SharedArchiveFile={part}"]
    done = subprocess.run(command, capture_output=True, timeout=_WRITE_SECONDS, check=False)
    if done.returncode or not part.exists():
        return "this Java cannot write an archive"
    os.replace(part, archive.base)
    return ""


def _run(folder: Path, settings: Mapping[str, str]) -> None:
    """Run the pipeline to its end; the JVM then writes the archive and exits."""
    # Loaded late: the command that starts this process needs none of it.
    from headwater.engine.pipeline_file import load
    from headwater.runtime import RunOptions, start
    from headwater.runtime.application import APPLICATION

    (folder / "pipeline.yml").write_text(PIPELINE, encoding="utf-8")
    (folder / "tables.py").write_text(TABLES, encoding="utf-8")
    for name in ("in", "words"):
        (folder / name).mkdir()
    for number in range(3):
        rows = [
            {"at": f"2026-01-01T12:{minute:02}:00Z", "word": "a", "n": 1} for minute in (number, number + 5)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "in" / f"{number}.json").write_text(text, encoding="utf-8")
    (folder / "words" / "1.json").write_text('{"word": "A", "topic": "letters"}\n', encoding="utf-8")
    warehouse = {"spark.sql.warehouse.dir": str(folder / "warehouse")}
    options = RunOptions(conf={**settings, **warehouse}, observed=False, restarts=False)
    running = start(load(folder / "pipeline.yml"), options, lambda event: None, lambda line: None)
    try:
        running.wait(_RUN_SECONDS)
    finally:
        APPLICATION.stop(_WRITE_SECONDS)


def main(arguments: list[str]) -> int:
    """Create the archive with this key in the background; it is no error if there is none in the end."""
    key, extra_class_path = arguments
    os.nice(19)
    try:
        archive = find_class_data({EXTRA_CLASS_PATH: extra_class_path} if extra_class_path else {})
    except SetupError:
        archive = None
    if archive is not None and archive.key == key:
        make(archive, extra_class_path, counted=True)
        return 0
    # A relative path leads elsewhere from here, and so it would after the next command. This process started in
    # the directory of the archives.
    wanted = ClassData(Path.cwd(), key)
    with suppress(OSError):
        wanted.note(Attempts(wanted.attempts().number, _OTHER_CLASS_PATH))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
