"""Serves the metrics of a run to Prometheus, and its health to probes, over HTTP.

GET /metrics        every metric
GET /health/live    200 while the run can act
GET /health/ready   200 once every query has started, while none has failed or is critical

The Prometheus client is imported when a server starts: most runs have none.
"""

from __future__ import annotations

import errno
import ipaddress
import json
import re
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from headwater.errors import Problem, SetupError, UsageError
from headwater.errors.catalogue.environment import METRICS_ADDRESS_IN_USE, METRICS_PORT_UNAVAILABLE
from headwater.errors.catalogue.notices import METRICS_SERVED
from headwater.errors.catalogue.programs import METRICS_ADDRESS_INVALID
from headwater.errors.catalogue.running import METRICS_EXPOSED
from headwater.events.kinds import QueryStatus
from headwater.events.status import QueryView, RunView

DEFAULT_PORT = 9464
LOOPBACK = "127.0.0.1"
MAX_REQUESTS = 8
"""How many requests are answered at the same time; further ones are closed without an answer."""
_REQUEST_SECONDS = 10.0
_POLL_SECONDS = 0.1
_JSON = "application/json"
_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.%]+\]|[^\s:\[\]/]+):)?(?P<port>[0-9]{1,5})")


@dataclass(frozen=True)
class Address:
    """Where the metrics are served; port 0 is any free port."""

    host: str = LOOPBACK
    port: int = DEFAULT_PORT

    @classmethod
    def parse(cls, text: str) -> Address:
        """`PORT`, `HOST:PORT` or `[IPV6]:PORT`."""
        found = _ADDRESS.fullmatch(text.strip())
        if found is None or int(found["port"]) > 65535:
            raise UsageError(METRICS_ADDRESS_INVALID.at(text=text))
        return cls((found["host"] or LOOPBACK).strip("[]"), int(found["port"]))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class MetricsServer:
    """The HTTP server; it listens from its creation until `close`."""

    def __init__(
        self,
        address: Address,
        views: Callable[[], Sequence[RunView]],
        alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self._server = _listen(address, views, alive)
        self.address = Address(address.host, self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": _POLL_SECONDS},
            name="headwater metrics",
            daemon=True,
        )
        self._thread.start()

    @property
    def notices(self) -> tuple[Problem, ...]:
        """What to tell the user at the start."""
        served = METRICS_SERVED.at(None, url=f"http://{self.address}/metrics")
        exposed = METRICS_EXPOSED.at(None, address=str(self.address), port=self.address.port)
        return (served,) if self.address.is_loopback else (served, exposed)

    def close(self) -> None:
        """Stop to listen. Running requests end on their own."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _listen(address: Address, views: Callable[[], Sequence[RunView]], alive: Callable[[], bool]) -> _Server:
    try:
        return _Server(address, views, alive)
    except (OSError, UnicodeError) as error:
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise SetupError(METRICS_ADDRESS_IN_USE.at(address=str(address))) from error
        reason = getattr(error, "strerror", None) or str(error)
        raise SetupError(METRICS_PORT_UNAVAILABLE.at(address=str(address), reason=reason)) from error


class _Server(ThreadingHTTPServer):
    """Answers a limited number of requests at the same time."""

    daemon_threads = True

    def __init__(
        self, address: Address, views: Callable[[], Sequence[RunView]], alive: Callable[[], bool]
    ) -> None:
        from prometheus_client import CollectorRegistry

        from headwater.history.metrics import RunCollector

        self.views, self.alive = views, alive
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(RunCollector(views))
        self._slots = threading.BoundedSemaphore(MAX_REQUESTS)
        family, _, _, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        self.address_family = family
        super().__init__((str(where[0]), int(where[1])), _Handler)

    def server_bind(self) -> None:
        # The one of HTTPServer looks the machine's own name up, which can take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that closes its connection early is no error of the run."""


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: _Server
    server_version, sys_version = "headwater", ""
    timeout = _REQUEST_SECONDS

    def do_GET(self) -> None:
        from prometheus_client.exposition import choose_encoder

        match self.path.partition("?")[0]:
            case "/metrics":
                encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                self._answer(HTTPStatus.OK, content_type, encode(self.server.registry))
            case "/health/live":
                self._answer_health("alive", [] if self.server.alive() else [{"reason": "stopped"}])
            case "/health/ready":
                self._answer_health("ready", unready(self.server.views()))
            case _:
                self._answer_json(HTTPStatus.NOT_FOUND, {"error": "not found"})

    def _answer_health(self, word: str, reasons: Sequence[dict[str, str]]) -> None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        self._answer_json(status, {word: not reasons, "reasons": reasons})

    def _answer_json(self, status: HTTPStatus, content: Any) -> None:
        self._answer(status, _JSON, json.dumps(content).encode() + b"\n")

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: they arrive every few seconds."""


def unready(views: Sequence[RunView]) -> list[dict[str, str]]:
    """Why the runs are not ready: they or their queries have not started, have failed or are critical."""
    found: list[dict[str, str]] = []
    for view in views:
        with view.turn:
            reasons = [(query.name, reason) for query in view.queries.values() if (reason := _reason(query))]
            pipeline, status, started = view.pipeline, view.status, bool(view.queries)
        found += [{"pipeline": pipeline, "query": query, "reason": reason} for query, reason in reasons]
        if not started and status in ("starting", "failed"):
            found.append({"pipeline": pipeline, "reason": status})
    return found if views else [{"reason": "starting"}]


def _reason(query: QueryView) -> str | None:
    if query.status is QueryStatus.FAILED:
        return "failed"
    # A restarted query is starting once more; it has been ready before.
    if query.status is QueryStatus.STARTING and not query.restarts:
        return "starting"
    return "critical" if query.health == "critical" else None
