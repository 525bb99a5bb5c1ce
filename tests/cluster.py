"""A real Spark cluster for tests: one master and two workers, each a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyspark

from tests.short_lives import PLAIN, java_options

WORKERS = 2
START_SECONDS = 120.0
STOP_SECONDS = 10.0
_MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_APART = ("unshare", "--mount", "--uts", "sh", "-c")
_REGISTERED = re.compile(r"Successfully registered with master (spark://\S+)")


@dataclass(frozen=True)
class Cluster:
    """A standalone cluster that is up: where its master listens, and where its processes work."""

    master: str
    folder: Path
    not_apart: str = ""
    """Why the workers see all directories of this machine; empty where each has mounts of its own."""

    pids: tuple[int, ...] = ()
    """The processes of the workers."""

    def as_seen_by(self, worker: int, path: Path) -> Path:
        """A path of a worker's own mounts, for this process."""
        return Path(f"/proc/{self.pids[worker - 1]}/root{path}")

    @property
    def hidden(self) -> Path:
        """A directory of the driver that no worker sees: there is another one of that name."""
        return self.folder / "hidden"

    @property
    def half_hidden(self) -> Path:
        """The same, where only the second worker does not see it."""
        return self.folder / "half-hidden"

    @property
    def read_only(self) -> Path:
        """A shared directory that the second worker can't write."""
        return self.folder / "read-only"

    @property
    def overlaid(self) -> Path:
        """A directory that the second worker sees, and what it writes there stays with it."""
        return self.folder / "overlaid"

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

    Their Python is this interpreter, and they know nothing of the folder or the path of the test. Each worker
    is like a machine of its own: it has a host name and mounts, by which it does not see some directories.
    """
    with ExitStack() as running:
        master = running.enter_context(_daemon(folder / "master", "master.Master", "--port", "0"))
        url = _wait_for(master, _MASTER_URL)
        options = ("--cores", "1", "--memory", "1g", "--work-dir", "work", url)
        cluster = Cluster(url, folder, _why_not_apart())
        for directory in (cluster.hidden, cluster.half_hidden, cluster.read_only, cluster.overlaid):
            directory.mkdir(parents=True)
        workers = [
            running.enter_context(
                _daemon(
                    folder / f"worker-{number}", "worker.Worker", *options, within=_machine(cluster, number)
                )
            )
            for number in range(1, WORKERS + 1)
        ]
        for worker in workers:
            _wait_for(worker, _REGISTERED)
        yield replace(cluster, pids=tuple(worker.process.pid for worker in workers))


def _why_not_apart() -> str:
    """What keeps workers from having mounts of their own; empty where nothing does."""
    try:
        tried = subprocess.run([*_APART, "true"], capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return tried.stderr.strip() if tried.returncode else ""


def _machine(cluster: Cluster, number: int) -> list[str]:
    """The beginning of a command that runs the rest of it as on a machine of its own."""
    if cluster.not_apart:
        return []
    own = cluster.folder / f"own-{number}"
    own.mkdir()
    lines = [f"hostname worker-{number}", f"mount -t tmpfs none {cluster.hidden}"]
    if number == WORKERS:
        overlay = f"lowerdir={cluster.overlaid},upperdir={own}/upper,workdir={own}/work"
        lines += [
            f"mount -t tmpfs none {cluster.half_hidden}",
            f"mount --bind {cluster.read_only} {cluster.read_only}",
            f"mount -o remount,ro,bind {cluster.read_only}",
            f"mount -t tmpfs none {own}",
            f"mkdir {own}/upper {own}/work",
            f"mount -t overlay overlay -o {overlay} {cluster.overlaid}",
        ]
    return [*_APART, " && ".join([*lines, 'exec "$@"']), "sh"]


@dataclass(frozen=True)
class _Daemon:
    """A process of the cluster and the file it logs to."""

    process: subprocess.Popen[bytes]
    log: Path


@contextmanager
def _daemon(folder: Path, role: str, *arguments: str, within: Sequence[str] = ()) -> Iterator[_Daemon]:
    folder.mkdir(parents=True)
    home = Path(pyspark.__path__[0])
    command = [*within, str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
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
