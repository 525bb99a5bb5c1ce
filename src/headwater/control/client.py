"""The client of a control socket: each call is one request on its own connection."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwater import errors
from headwater.control.protocol import VERSION, Endpoint, Request, refuse_version
from headwater.errors import HeadwaterError, UsageError
from headwater.errors.catalogue.control import (
    RUN_CONNECTION_LOST,
    RUN_NOT_ACTIVE,
    RUN_UNREACHABLE,
    RUN_UNRESPONSIVE,
)
from headwater.events.stored import problem_from_json
from headwater.run_directory import RunDirectory

_ANSWER_SECONDS = 10.0


class RunNotActiveError(UsageError):
    """No run is active in the run directory."""


class RunClient:
    """Controls the run that is active in a run directory."""

    def __init__(self, run_dir: str | Path, answer_seconds: float = _ANSWER_SECONDS) -> None:
        self._directory = RunDirectory(Path(os.path.abspath(run_dir)))
        self._answer_seconds = answer_seconds
        """How long the run may take to answer, in addition to the time that the request itself allows."""

    @property
    def endpoint(self) -> Endpoint | None:
        """Where the run listens; None if none has left its `control.json`."""
        try:
            return Endpoint.from_text(self._directory.control.read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._unreachable(error) from error

    def status(self) -> dict[str, Any]:
        """The status of the run."""
        return self._request("status", {}, self._answer_seconds)

    def stop(self, query: str | None = None, timeout: float | None = None) -> dict[str, Any]:
        """Stop one query or all, and return when they have stopped."""
        return self._request("stop", {"query": query, "timeout": timeout}, None)

    def restart(self, query: str) -> dict[str, Any]:
        """Restart a query, and return when it runs again."""
        return self._request("restart", {"query": query}, None)

    def plan(self, query: str) -> str:
        """Spark's plan of the last batch of a query."""
        return str(self._request("plan", {"query": query}, self._answer_seconds)["plan"])

    def sql(self, text: str, max_rows: int = 1_000, seconds: float = 10.0) -> dict[str, Any]:
        """The first rows of a query."""
        args = {"text": text, "max_rows": max_rows, "seconds": seconds}
        return self._request("sql", args, seconds + self._answer_seconds)

    def _request(self, verb: str, args: Mapping[str, Any], seconds: float | None) -> dict[str, Any]:
        endpoint = self.endpoint
        if endpoint is None:
            raise self._not_active()
        deadline = None if seconds is None else time.monotonic() + seconds
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            try:
                connection.settimeout(seconds or self._answer_seconds)
                connection.connect(str(self._directory.path / endpoint.socket))
                # A run that rejects a request may close the connection before it has read all of it.
                with suppress(BrokenPipeError, ConnectionResetError):
                    connection.sendall(Request(verb, args).to_line())
                line = _received(connection, deadline)
            except (FileNotFoundError, ConnectionRefusedError):
                raise self._not_active() from None
            except (TimeoutError, BlockingIOError) as error:
                raise self._unresponsive(endpoint, seconds) from error
            except OSError as error:
                raise self._unreachable(error) from error
        return self._result(line)

    def _result(self, line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line)
            if found["version"] != VERSION:
                refuse_version(run=found["version"], client=VERSION)
            if found["ok"]:
                return dict(found["result"])
            problems = [problem_from_json(each) for each in found["problems"]]
        except (ValueError, TypeError, KeyError) as error:
            # The run exited while it answered.
            raise HeadwaterError(RUN_CONNECTION_LOST.at(None, directory=self._shown)) from error
        raise _class_of(str(found.get("error"))).of(problems)

    @property
    def _shown(self) -> str:
        return str(self._directory.path)

    def _not_active(self) -> RunNotActiveError:
        return RunNotActiveError(RUN_NOT_ACTIVE.at(None, directory=self._shown))

    def _unresponsive(self, endpoint: Endpoint, seconds: float | None) -> HeadwaterError:
        waited = self._answer_seconds if seconds is None else seconds
        return HeadwaterError(
            RUN_UNRESPONSIVE.at(None, directory=self._shown, pid=endpoint.pid, seconds=waited)
        )

    def _unreachable(self, error: OSError) -> HeadwaterError:
        reason = error.strerror or str(error)
        return HeadwaterError(RUN_UNREACHABLE.at(None, directory=self._shown, reason=reason))


def _received(connection: socket.socket, deadline: float | None) -> bytes:
    """The response, or the part of it that arrived before the run closed the connection."""
    received = bytearray()
    while not received.endswith(b"\n"):
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        try:
            part = connection.recv(65_536)
        except ConnectionResetError:
            part = b""
        if not part:
            break
        received += part
    return bytes(received)


def _class_of(name: str) -> type[HeadwaterError]:
    """The error class that the run raised, so that callers can catch it as in the run's own process."""
    found = getattr(errors, name, None)
    return found if isinstance(found, type) and issubclass(found, HeadwaterError) else HeadwaterError
