"""The control socket of a run.

Whatever a client sends, or does not read, has no effect on the run: each connection has its own thread, a deadline
for its request and for its response, and a maximum length; their number is bounded.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import stat
import struct
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.control.protocol import Endpoint, Host, Request, failure, success
from headwater.errors import HeadwaterError, SetupError, UsageError
from headwater.errors.catalogue.control import (
    CONTROL_BUSY,
    CONTROL_FAILED,
    CONTROL_FORBIDDEN,
    CONTROL_REQUEST_INVALID,
    CONTROL_SOCKET_FAILED,
)
from headwater.run_directory import RunDirectory
from headwater.values import scrub, scrub_within
from headwater.values.processes import process_start_time

_LOG = logging.getLogger("headwater")
_PREFIX = "headwater-run-"
LONGEST_PATH = 100
"""Systems allow 103 to 107 bytes in the path of a socket."""
_WAKE_SECONDS = 1.0
_RETRY_SECONDS = 0.1
_CLOSE_SECONDS = 2.0


@dataclass(frozen=True)
class Limits:
    """What a client can use at most."""

    connections: int = 64
    line_bytes: int = 1_000_000
    read_seconds: float = 10.0
    """For the whole request, so that a client cannot prolong it byte by byte."""
    write_seconds: float = 10.0


class ControlServer:
    """Listens from `start` to `close`; the run holds the lock of the directory all the time."""

    def __init__(self, host: Host, run_dir: Path, run_id: str, limits: Limits | None = None) -> None:
        self._host = host
        self._directory = RunDirectory(Path(os.path.abspath(run_dir)))
        self._run_id = run_id
        self._limits = limits or Limits()
        self._closed = threading.Event()
        self._turn = threading.Lock()
        self._serving: dict[socket.socket, threading.Thread] = {}
        self._listener: socket.socket | None = None
        self._acceptor: threading.Thread | None = None
        self.path = self._directory.control_socket

    def start(self) -> None:
        """Create the socket and `control.json`; SetupError if that is not possible."""
        try:
            _remove_stale(self._directory)
            self._listener, self.path = _bound(self._directory)
            own = self.path.parent == self._directory.path
            endpoint = Endpoint(
                socket=self.path.name if own else str(self.path),
                pid=os.getpid(),
                start_time=process_start_time(os.getpid()) or "",
                run_id=self._run_id,
            )
            self._directory.write(self._directory.control, endpoint.to_text())
        except OSError as error:
            self.close(0)
            reason = error.strerror or str(error)
            problem = CONTROL_SOCKET_FAILED.at(None, directory=str(self._directory.path), reason=reason)
            raise SetupError(problem) from error
        self._acceptor = threading.Thread(
            target=self._accept, args=(self._listener,), name="headwater control", daemon=True
        )
        self._acceptor.start()

    def _is_ours(self) -> bool:
        """Whether the files in the run directory are those of this run: another may have taken its lock over."""
        try:
            endpoint = Endpoint.from_text(self._directory.control.read_text())
        except (OSError, UsageError):
            return True
        return endpoint is None or endpoint.run_id == self._run_id

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Remove the socket, then wait until open requests are answered, `seconds` at most."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._is_ours():
            with suppress(OSError):
                self._directory.control.unlink(missing_ok=True)
            _remove_socket(self.path)
        if self._listener is not None:
            # On Linux, this wakes the acceptor.
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        with self._turn:
            serving = dict(self._serving)
        deadline = time.monotonic() + seconds
        for connection in serving:
            # Ends the wait for requests that have not arrived.
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        for thread in filter(None, (self._acceptor, *serving.values())):
            # A request may be what ends the run.
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _accept(self, listener: socket.socket) -> None:
        listener.settimeout(_WAKE_SECONDS)
        while not self._closed.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                # Closed, or this process has too many open files.
                self._closed.wait(_RETRY_SECONDS)
                continue
            self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(self._limits.write_seconds)
        thread = threading.Thread(
            target=self._answer, args=(connection,), name="headwater control request", daemon=True
        )
        with self._turn:
            is_full = len(self._serving) >= self._limits.connections
            if not is_full:
                self._serving[connection] = thread
        try:
            if is_full:
                # Fits the buffer of the socket, so that nothing waits.
                connection.sendall(
                    failure(HeadwaterError(CONTROL_BUSY.at(None, count=self._limits.connections)))
                )
                connection.close()
            else:
                thread.start()
        except (OSError, RuntimeError):
            # The client has gone, or the process has too many threads.
            self._forget(connection)

    def _forget(self, connection: socket.socket) -> None:
        connection.close()
        with self._turn:
            self._serving.pop(connection, None)

    def _answer(self, connection: socket.socket) -> None:
        try:
            refuse_other_users(connection)
            line = self._line(connection)
            response = answer(self._host, line) if line else b""
            connection.settimeout(self._limits.write_seconds)
            connection.sendall(response)
        except HeadwaterError as error:
            with suppress(OSError):
                connection.sendall(failure(error))
        except OSError:
            # The client has gone, or was too slow.
            pass
        finally:
            self._forget(connection)

    def _line(self, connection: socket.socket) -> bytes:
        """The request; empty if the client closes the connection before it sends anything."""
        deadline, received = time.monotonic() + self._limits.read_seconds, bytearray()
        while b"\n" not in received[-65_536:]:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            part = connection.recv(65_536)
            if not part:
                break
            received += part
            if len(received) > self._limits.line_bytes or time.monotonic() > deadline:
                reason = f"the line exceeds {self._limits.line_bytes:,} bytes or the time limit"
                raise UsageError(CONTROL_REQUEST_INVALID.at(None, reason=reason))
        return bytes(received).partition(b"\n")[0]


def answer(host: Host, line: bytes) -> bytes:
    """The response to a line; whatever the host raises becomes a problem, and no secret leaves the run."""
    verb = ""
    try:
        request = Request.from_line(line)
        verb = request.verb
        return success({name: scrub_within(value) for name, value in request.run(host).items()})
    except HeadwaterError as error:
        return failure(error)
    except Exception as error:  # noqa: BLE001 - a request must not end with a lost connection
        _LOG.exception("the control request %s failed", verb)
        text = scrub(f"{type(error).__name__}: {error}".splitlines()[0].rstrip("."))
        return failure(HeadwaterError(CONTROL_FAILED.at(None, verb=verb, error=text)))


def refuse_other_users(connection: socket.socket) -> None:
    """Raise UsageError if the client runs as another user; root may control every run."""
    if not hasattr(socket, "SO_PEERCRED"):
        # The mode of the socket alone has to keep them out.
        return
    form = struct.Struct("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, form.size)
    user = form.unpack(credentials)[1]
    if user not in (os.getuid(), 0):
        raise UsageError(CONTROL_FORBIDDEN.at(None, owner=os.getuid(), user=user))


# Where the socket is.


def _bound(directory: RunDirectory) -> tuple[socket.socket, Path]:
    directory.path.mkdir(parents=True, exist_ok=True)
    own = directory.control_socket
    if len(os.fsencode(own)) <= LONGEST_PATH:
        # Some network file systems have no sockets.
        with suppress(OSError):
            return _listening(own), own
    private = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        return _listening(private / own.name), private / own.name
    except OSError:
        shutil.rmtree(private, ignore_errors=True)
        raise


def _listening(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        # Before it listens: until then, every connection fails.
        path.chmod(0o600)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def _remove_stale(directory: RunDirectory) -> None:
    """Remove what a run left behind that was killed. Its lock is ours, so that it is dead."""
    with suppress(OSError, UsageError):
        endpoint = Endpoint.from_text(directory.control.read_text())
        if endpoint:
            _remove_socket(directory.path / endpoint.socket)
    _remove_socket(directory.control_socket)


def _remove_socket(path: Path) -> None:
    with suppress(OSError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
        if path.parent.name.startswith(_PREFIX):
            path.parent.rmdir()
