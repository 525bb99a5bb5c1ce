"""A real Spark cluster for tests: one master and two workers, each a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.short_lives import PLAIN, java_options

WORKERS = 2
START_SECONDS = 120.0
STOP_SECONDS = 10.0
_MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master (spark://\S+)")


@dataclass(frozen=True)
class Cluster:
    """A standalone cluster that is up: where its master listens, and where its processes work."""

    master: str
    folder: Path

    @property
    def settings(self) -> dict[str, str]:
        """What an application sets to work on all of the cluster from this machine."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": java_options(),
            "spark.cores.max": "2",
        }


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[Cluster]:
    """Start a master and two workers of one core each below an empty folder; stop them at the end.

    Their Python is this interpreter, and they know nothing of the folder or the path of the test.
    """
    with ExitStack() as running:
        master = running.enter_context(_daemon(folder / "master", "master.Master", "--port", "0"))
        url = _wait_for(master, _MASTER_URL)
        options = ("--cores", "1", "--memory", "1g", "--work-dir", "work", url)
        workers = [
            running.enter_context(_daemon(folder / f"worker-{number}", "worker.Worker", *options))
            for number in range(1, WORKERS + 1)
        ]
        for worker in workers:
            _wait_for(worker, _REGISTERED)
        yield Cluster(url, folder)


@dataclass(frozen=True)
class _Daemon:
    """A process of the cluster and the file it logs to."""

    process: subprocess.Popen[bytes]
    log: Path


@contextmanager
def _daemon(folder: Path, role: str, *arguments: str) -> Iterator[_Daemon]:
    folder.mkdir(parents=True)
    home = Path(pyspark.__path__[0])
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
    command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=_environment(home),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield _Daemon(process, log)
    finally:
        _stop(process)


def _environment(home: Path) -> dict[str, str]:
    """Without what would let a worker find the test's own modules."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {
        **kept,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": java_options(),
        "SPARK_LAUNCHER_OPTS": PLAIN,
        "PYSPARK_PYTHON": sys.executable,
    }


def _wait_for(daemon: _Daemon, pattern: re.Pattern[str]) -> str:
    """The pattern's group as soon as the log has it."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and daemon.process.poll() is None:
        found = pattern.search(daemon.log.read_text(errors="replace"))
        if found:
            return found.group(1)
        time.sleep(0.05)
    raise TimeoutError(f"no {pattern.pattern!r} in {daemon.log}:\n{daemon.log.read_text(errors='replace')}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the process and its children: executors run in their worker's group."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
        except ProcessLookupError:
            break
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue
