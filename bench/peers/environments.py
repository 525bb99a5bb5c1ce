"""Installs each peer from its lock into build/peers, on demand."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headwater.engine.launch import jar_store
from headwater.errors import SetupError
from headwater.jars import Artifact, Release
from headwater.spark.java import find_java

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ROOT / "requirements"
ENVIRONMENTS = ROOT / "build" / "peers"
SCRIPTS = Path(__file__).resolve().parent
DECLARED = SCRIPTS / "peers.toml"
INSTALL_SECONDS = 900


class PeerUnavailableError(Exception):
    """A peer cannot be installed or started here; the text is the reason."""


@dataclass(frozen=True)
class Peer:
    """A peer: its name in results, what it requires from PyPI, and its jars."""

    key: str
    title: str
    module: str
    """The module whose import shows that the installation works."""
    requirements: tuple[str, ...]
    jars: tuple[Artifact, ...] = ()
    engine: bool = True
    """It processes streams; a driver of a database does not."""

    @property
    def lock(self) -> Path:
        return LOCKS / f"peers-{self.key}.lock"

    @property
    def home(self) -> Path:
        return ENVIRONMENTS / self.key

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    def environ(self) -> dict[str, str]:
        """The environment variables of its processes: no package of the project, the same Java."""
        outside = ("PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "FLINK_HOME")
        kept = {key: value for key, value in os.environ.items() if key not in outside}
        return {
            **kept,
            "PATH": f"{self.home / 'bin'}{os.pathsep}{kept.get('PATH', '')}",
            "JAVA_HOME": str(find_java(os.environ).executable.resolve().parents[1]),
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
        }


def declared() -> Mapping[str, Peer]:
    """All peers, by their key."""
    found = tomllib.loads(DECLARED.read_text(encoding="utf-8"))
    return {
        key: Peer(
            key,
            each["title"],
            each["module"],
            tuple(each["requirements"]),
            _jars(each.get("jars", {})),
            each.get("engine", True),
        )
        for key, each in found.items()
    }


def peers() -> Mapping[str, Peer]:
    """The engines that Headwater is compared with, by their key."""
    return {key: peer for key, peer in declared().items() if peer.engine}


def _jars(checksums: Mapping[str, str]) -> tuple[Artifact, ...]:
    parts = ((*coordinates.split(":"), checksum) for coordinates, checksum in checksums.items())
    return tuple(Artifact(group, name, (Release(version, sum_),)) for group, name, version, sum_ in parts)


def install(peer: Peer) -> None:
    """Install the lock of a peer unless it is already; raises PeerUnavailableError with the reason."""
    stamp, lock = peer.home / ".ready", peer.lock.read_text(encoding="utf-8")
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == lock:
        return
    uv = [sys.executable, "-m", "uv"]
    sync = [*uv, "pip", "sync", "--quiet", "--require-hashes", "--compile-bytecode"]
    for command in (
        [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(peer.home)],
        [*sync, "--python", str(peer.python), str(peer.lock)],
    ):
        _run(command)
    stamp.write_text(lock, encoding="utf-8")


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS, cwd=ROOT
        )
    except subprocess.TimeoutExpired as error:
        raise PeerUnavailableError(f"not installed within {INSTALL_SECONDS} s") from error
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise PeerUnavailableError("; ".join(lines[:3]) or f"uv exited with code {done.returncode}")


def class_path(peer: Peer) -> str:
    """The jars of a peer as `file:` URLs, downloaded if needed."""
    return ";".join(taken.path.as_uri() for taken in jar_store().take_all(peer.jars))


def free_ports(number: int) -> list[int]:
    """Ports on this machine that no process uses now."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [probe.getsockname()[1] for probe in probes]


@cache
def _problem(key: str) -> str:
    """Why a peer does not run here; empty if it does."""
    peer = declared()[key]
    try:
        install(peer)
        class_path(peer)
        _run([str(peer.python), "-W", "ignore", "-c", f"import {peer.module}"])
    except (PeerUnavailableError, SetupError, OSError) as error:
        return str(error)
    return ""


def ready(key: str) -> Peer:
    """An installed peer; raises PeerUnavailableError with the reason if it does not run here."""
    if problem := _problem(key):
        raise PeerUnavailableError(problem)
    return declared()[key]
