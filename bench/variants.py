"""The Spark settings of the hand-written variants.

"Same settings" are read from a running session of Headwater, so they are always those that Headwater gives to the
JVM and to the query. `python -m bench.variants PIPELINE` is the program that reads them.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from bench.harness import DEFAULTS, GUIDE, ROOT, SAME, STOCK_FILES, Unavailable

CORES = os.cpu_count() or 1
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
NEEDED = {"spark.master": "local[*]", "spark.sql.streaming.numRecentProgressUpdates": "10000"}
"""What every hand-written variant sets: where it runs, and that Spark keeps the progress of all batches."""
FILE_SYSTEM = ("spark.hadoop.fs.file.impl", "spark.hadoop.fs.AbstractFileSystem.file.impl")
"""Where Hadoop takes the class of the local file system from."""
RUN_SPECIFIC = (
    "spark.app.",
    "spark.driver.port",
    "spark.executor.id",
    "spark.repl.",
    "spark.submit.",
    "spark.driver.extraJavaOptions",
    "spark.executor.extraJavaOptions",
    "spark.sql.warehouse.dir",
)
"""What differs from run to run, and the Java options that Spark itself adds."""
SPARK_ENVIRONMENT = (
    "PYTHONHASHSEED",
    "PYSPARK_SUBMIT_ARGS",
    "_PYSPARK_",
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_ENV_LOADED",
    "SPARK_CONNECT_MODE",
    "SPARK_SCALA_VERSION",
    "SPARK_LAUNCHER_OPTS",
)
"""Environment variables that PySpark and Spark's scripts set in every JVM, and those of Spark's launcher."""
PIPELINES = {
    "": "name: settings\nsources: {r: {connector: rate}}\nsinks: {out: {reads: r, connector: noop}}\n",
    "kafka": (
        "name: settings\n"
        "sources: {r: {connector: kafka, bootstrap_servers: 'localhost:9', topic: t, schema: {a: string},"
        " format: json}}\n"
        "sinks: {out: {reads: r, connector: noop}}\n"
    ),
}


@dataclass(frozen=True)
class Settings:
    """Spark's settings of a variant, and the environment variables with which its JVM starts."""

    conf: dict[str, str]
    environ: dict[str, str] = field(default_factory=dict)

    def without(self, *keys: str) -> Settings:
        """The same settings without some."""
        return Settings({k: v for k, v in self.conf.items() if k not in keys}, self.environ)


def settings(variant: str, *, kafka: bool = False) -> Settings:
    """The settings of a variant, by its name."""
    if variant == SAME:
        return same_settings("kafka" if kafka else "")
    if variant == STOCK_FILES:
        ours = settings(SAME, kafka=kafka)
        if not set(FILE_SYSTEM) & set(ours.conf):
            raise Unavailable("Headwater sets no file system of its own")
        return ours.without(*FILE_SYSTEM)
    jars = {"spark.jars": kafka_jars()} if kafka else {}
    if variant == GUIDE:
        return Settings({**NEEDED, **jars, **guide_settings()})
    if variant == DEFAULTS:
        return Settings({**NEEDED, **jars})
    raise ValueError(f"unknown variant {variant!r}")


def guide_settings() -> dict[str, str]:
    """What tuning guides recommend for a small stateful query."""
    return {
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }


@cache
def kafka_jars() -> str:
    """The Kafka connector of the installed Spark and its dependencies, as `spark.jars` takes them."""
    from headwater.engine.launch import artifacts_of, jar_store

    return ",".join(str(jar_store().take(artifact).path) for artifact in artifacts_of("kafka"))


@cache
def same_settings(connector: str = "") -> Settings:
    """The settings that Headwater gives to the JVM and to a query that uses this connector."""
    return settings_in(os.environ, connector)


def settings_in(environ: Mapping[str, str], connector: str = "") -> Settings:
    """The settings that Headwater gives in an environment."""
    # The JVM's options name a file in this directory, so it stays until the benchmark ends.
    folder = Path(tempfile.mkdtemp(prefix="headwater-bench-settings-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "settings.yml"
    file.write_text(PIPELINES[connector], encoding="utf-8")
    command = [sys.executable, "-m", "bench.variants", str(file)]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the settings of Headwater could not be read:\n{done.stdout}{done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    return Settings({**found["conf"], **NEEDED}, found["environ"])


def read_settings(pipeline: Path) -> Settings:
    """Start a session as `headwater run` does, and read its settings and the options of its JVM."""
    from headwater.engine.pipeline_file import load
    from headwater.engine.session import open_session, query_settings

    spec = load(pipeline)
    session = open_session(spec, logs=pipeline.parent, stdout=lambda line: None)
    try:
        running = dict(session.jvm.context.getConf().getAll())
        query = query_settings(spec, session.given, session.cores, {})
        # Options and class path of the JVM come from environment variables.
        text = Path(f"/proc/{session.jvm.pid}/environ").read_bytes().decode()
    finally:
        session.jvm.stop()
    conf = {key: value for key, value in running.items() if not key.startswith(RUN_SPECIFIC)}
    pairs = [line.partition("=")[::2] for line in text.split("\0") if line]
    environ = {k: v for k, v in pairs if os.environ.get(k) != v and not k.startswith(SPARK_ENVIRONMENT)}
    return Settings({**conf, **{each.key: each.value for each in query}}, environ)


if __name__ == "__main__":
    read = read_settings(Path(sys.argv[1]))
    print(json.dumps(asdict(read)))
