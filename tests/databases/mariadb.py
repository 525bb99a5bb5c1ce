"""A real MariaDB server on this machine, from Debian's package: loopback only, exits with its parent process."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pymysql

from headwater.dev.processes import HOST, GuardedProcess, free_port
from tests.databases import certificates

DATABASE, USER = "shop", "ada"
MISSING = "MariaDB is not installed; on Debian and Ubuntu: sudo apt-get install mariadb-server"
_START_SECONDS, _LOOK_SECONDS = 60.0, 0.02
_SETTINGS = (
    "--skip-log-bin",
    "--innodb-log-file-size=16M",
    # A crash of the machine can lose data, a crash of the server cannot.
    "--innodb-flush-method=nosync",
    "--innodb-doublewrite=0",
    "--innodb-buffer-pool-size=64M",
    "--innodb-flush-log-at-trx-commit=2",
    "--character-set-server=latin1",
)


def program(name: str) -> str | None:
    """The path of a program of the server, which can be outside PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


class MariadbServer:
    """A server with its data in a directory, and one user with a password; later starts keep its port."""

    def __init__(self, folder: Path, *, password: str, settings: Sequence[str] = ()) -> None:
        self.folder = folder
        self._password = password
        self._settings = settings
        self._port = 0
        self._process = GuardedProcess(folder / "mariadb.log")

    @property
    def url(self) -> str:
        """The address of its user."""
        return f"mysql://{USER}:{self._password}@{HOST}:{self._port}/{DATABASE}"

    def connect(self, user: str = USER, database: str | None = DATABASE) -> pymysql.Connection[Any]:
        """A connection of a test, which commits each statement."""
        password = self._password if user == USER else ""
        return pymysql.connect(
            host=HOST,
            port=self._port,
            user=user,
            password=password,
            database=database,
            charset="utf8mb4",
            autocommit=True,
            init_command="SET time_zone = '+00:00'",
        )

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        if self._process.runs:
            return
        with ExitStack() as reserved:
            self._port = free_port(self._port, reserved)
        data, me = self.folder / "data", getpass.getuser()
        is_new = not data.exists()
        common = ["--no-defaults", f"--datadir={data}", f"--user={me}"]
        if is_new:
            install = [
                str(program("mariadb-install-db")),
                *common,
                "--auth-root-authentication-method=normal",
            ]
            subprocess.run([*install, "--skip-test-db", *_SETTINGS[1:4]], check=True, capture_output=True)
        if is_new:
            certificates.create(self.folder / "tls")
        tls = {"ca": "ca", "cert": "server", "key": "server-key"}
        common += [f"--ssl-{option}={self.folder / 'tls' / name}.pem" for option, name in tls.items()]
        address = [f"--bind-address={HOST}", f"--port={self._port}", f"--socket={self.folder / 'socket'}"]
        started = self._process.launch(
            [str(program("mariadbd")), *common, *address, *_SETTINGS, *self._settings]
        )
        assert started, self._process.output()
        self._wait()
        if is_new:
            with self.connect("root", None) as connection, connection.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE {DATABASE}")
                cursor.execute(f"CREATE USER {USER}@'%%' IDENTIFIED BY %s", (self._password,))
                cursor.execute(f"GRANT ALL ON *.* TO {USER}@'%'")

    def stop(self) -> None:
        """Shut it down."""
        if self._process.runs:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)
        self._process.end()

    def kill(self) -> None:
        """Kill it as `kill -9` does; the next start keeps its data and port."""
        if self._process.runs:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        self._process.end()

    def __enter__(self) -> MariadbServer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        # Its data is of no use after the tests.
        self.kill()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.connect("root", None).close()
                return
            except pymysql.Error:
                assert self._process.runs, self._process.output()
                assert time.monotonic() < deadline, self._process.output()
                time.sleep(_LOOK_SECONDS)
