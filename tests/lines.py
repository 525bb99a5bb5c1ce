"""A server for tests that sends lines to whoever connects, as `nc -lk` does."""

from __future__ import annotations

import socket
import threading
from types import TracebackType

HOST = "127.0.0.1"
LONGEST_SECONDS = 60.0
_LOOK_SECONDS = 0.05


class LineServer:
    """Listens on a free port; every line goes to all that have connected."""

    def __init__(self) -> None:
        self._listening = socket.create_server((HOST, 0))
        self._listening.settimeout(_LOOK_SECONDS)
        self.port = int(self._listening.getsockname()[1])
        self.connected: list[socket.socket] = []
        self._changed = threading.Condition()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="lines", daemon=True)

    def send(self, *lines: str, to: int = 1) -> None:
        """Send lines in one piece, once so many have connected."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.connected) >= to, LONGEST_SECONDS)
        for each in self.connected:
            each.sendall("".join(f"{line}\n" for line in lines).encode())

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listening.accept()
            except TimeoutError:
                continue
            with self._changed:
                self.connected.append(connection)
                self._changed.notify_all()

    def __enter__(self) -> LineServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        for each in (*self.connected, self._listening):
            each.close()
