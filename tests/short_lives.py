"""How the JVMs of tests are started: they live for seconds, and most of that goes into becoming fast.

Half of a short life is loading and checking Spark's classes. An archive of those classes, made once for a
Java and a Spark (`python -m tests.short_lives`, a step of the gate), spares that. Java itself looks whether
an archive fits, and goes on without one that does not.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from functools import cache
from pathlib import Path

import pyspark

from headwater.spark.java import find_java
from headwater.spark.jvm import start_context
from headwater.spark.local_files import JAR
from tests.pipelines import feed, run_until_idle, write

FOLDER = Path(__file__).resolve().parents[1] / "build" / "class_archive"
# The second compiler and a collector with many threads pay off only in a longer life.
PLAIN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# For drivers: room for new objects and for classes from the start spares the collector half of its work. With only the
# first compiler, Java reserves 48 MB for compiled code. A hundred queries fill it, and the error of Java stops Spark.
ROOM = "-Xmn300m -XX:MetaspaceSize=256m -XX:ReservedCodeCacheSize=240m"
# A query that has nothing to do looks for rows every 10 ms; the others need the two cores more.
PATIENT = {"spark.sql.streaming.pollingDelay": "100ms"}
DUMP_SECONDS = 300.0


@cache
def java_options() -> str:
    """The options for a JVM with Spark's class path, with the archive if there is one."""
    archive = archive_file()
    return f'{PLAIN} "-XX:SharedArchiveFile={archive}"' if archive.exists() else PLAIN


def environment() -> dict[str, str]:
    """What hands the options to every JVM that a child process starts."""
    patient = " ".join(f"-D{key}={value}" for key, value in PATIENT.items())
    return {"SPARK_SUBMIT_OPTS": f"{java_options()} {ROOM} {patient}", "SPARK_LAUNCHER_OPTS": PLAIN}


@cache
def archive_file() -> Path:
    """Where the archive for this Java and these jars belongs."""
    jars = sorted(Path(pyspark.__path__[0], "jars").iterdir())
    java = find_java().executable.resolve()
    facts = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in (java, JAR, *jars)]
    return FOLDER / f"{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}.jsa"


ENRICHED = """
from pyspark.sql.functions import udf


@udf("string")
def shout(word):
    return word.upper()


def enriched(clicks):
    return clicks.select("at", shout("word").alias("word"))
"""
PIPELINE = """
name: usual
spark: {spark.sql.shuffle.partitions: 1}
sources:
  clicks:
    connector: files
    path: in
    format: json
    schema: {at: timestamp, word: string}
    watermark: {column: at, delay: 1 minute}
  words: {connector: files, path: words, format: json, schema: {word: string, topic: string}, static: true}
tables:
  enriched: {python: "tables.py:enriched"}
  joined: SELECT e.word, w.topic FROM enriched e LEFT JOIN words w ON e.word = w.word
  counted: SELECT window.start AS at, word, count(*) AS n FROM clicks GROUP BY window(at, '1 minute'), word
sinks:
  joined: {reads: joined, connector: files, path: joined, format: parquet}
  counted: {reads: counted, connector: files, path: counted, format: json}
  shown: {reads: counted, connector: console, mode: update}
"""


def make_archive(file: Path) -> None:
    """Run a pipeline that does what most tests do, and keep the classes that this took."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as work:
        folder, part = Path(work), Path(work, "part.jsa")
        settings = {
            "spark.master": "local[2]",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.driver.extraJavaOptions": f'{PLAIN} "-XX:ArchiveClassesAtExit={part}"',
        }
        jvm = start_context(settings, java=find_java(), log_folder=folder, stdout=lambda line: None)
        try:
            write(folder, ENRICHED, "tables.py")
            feed(folder / "in", "1", [{"at": f"2026-01-01T12:0{n}:00Z", "word": "a"} for n in range(4)])
            feed(folder / "words", "1", [{"word": "A", "topic": "letters"}])
            run_until_idle(write(folder, PIPELINE))
        finally:
            # The archive is written when the JVM leaves.
            jvm.stop(DUMP_SECONDS)
        if part.exists():
            part.rename(file)


def main() -> int:
    """Make the archive unless it is there; a Java that can't make one is no failure."""
    file = archive_file()
    if not file.exists():
        for old in FOLDER.glob("*.jsa"):
            old.unlink()
        make_archive(file)
    made = f"{file.stat().st_size // 2**20} MB" if file.exists() else "none: this Java makes no archives"
    sys.stdout.write(f"archive of Spark's classes: {made}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
