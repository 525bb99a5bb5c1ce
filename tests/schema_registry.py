"""A stand-in for a schema registry: it answers the public GETs that readers make, from memory."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USER, PASSWORD = "reader", "canary-registry-51c"


@dataclass
class StandIn:
    """What it holds, and what it was asked for."""

    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    broken: bool = False
    failing: set[str] = field(default_factory=set)
    url: str = ""

    def add(self, number: int, schema: Any, **more: Any) -> None:
        """Put a schema in under a number."""
        self.schemas[number] = {"schema": json.dumps(schema), **more}

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        if self.broken or path in self.failing:
            return 503, {"error_code": 50003, "message": "not now"}
        if path.startswith("/schemas/ids/"):
            found = self.schemas.get(int(path.removeprefix("/schemas/ids/")))
            return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})
        found = self.subjects.get(path)
        return (200, found) if found else (404, {"error_code": 40401, "message": "Subject not found"})


@contextmanager
def schema_registry() -> Iterator[StandIn]:
    """A running stand-in that takes one user."""
    held = StandIn()
    login = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.headers.get("Authorization") == login
            code, found = held.answer(self.path) if allowed else (401, {"error_code": 401})
            body = json.dumps(found).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    held.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield held
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
