"""The control protocol: JSON, one object per line; a request and its response.

    {"version": 1, "verb": "stop", "args": {"query": "orders"}}
    {"version": 1, "ok": true, "result": {…}}
    {"version": 1, "ok": false, "error": "UsageError", "problems": [{"code": "HW-…", …}]}

`control.json` in the run directory names the socket, so that clients find it in the same way wherever it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NoReturn, Protocol

from headwater.errors import HeadwaterError, UsageError
from headwater.errors.catalogue.control import CONTROL_REQUEST_INVALID, CONTROL_VERSION_UNSUPPORTED
from headwater.values import quoted
from headwater.values.processes import is_alive

VERSION = 1
MAX_ROWS = 100_000
MAX_SECONDS = 3_600.0


class Host(Protocol):
    """What a run does on request. A `HeadwaterError` becomes the response; results are JSON values."""

    def status(self) -> Mapping[str, Any]:
        """The status of the run."""

    def stop(self, query: str | None, timeout: float | None) -> Mapping[str, Any]:
        """Stop one query or all; return when they have stopped."""

    def restart(self, query: str) -> Mapping[str, Any]:
        """Restart a query; return when it runs again."""

    def plan(self, query: str) -> Mapping[str, Any]:
        """Spark's plan of the last batch of a query, as `plan`."""

    def sql(self, text: str, max_rows: int, seconds: float) -> Mapping[str, Any]:
        """The first rows of a query: `columns`, each with `name` and `type`, `rows` and `truncated`."""


@dataclass(frozen=True)
class Endpoint:
    """The content of `control.json`: where the run listens, and which process it is."""

    socket: str
    """Relative to the run directory, or absolute."""
    pid: int
    start_time: str
    run_id: str

    @property
    def alive(self) -> bool:
        return is_alive(self.pid, self.start_time)

    def to_text(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Endpoint | None:
        """None if the text is not complete; UsageError if another version of Headwater wrote it."""
        try:
            found = json.loads(text)
            version = found["version"]
            if version != VERSION:
                refuse_version(run=version, client=VERSION)
            return cls(
                str(found["socket"]), int(found["pid"]), str(found["start_time"]), str(found["run_id"])
            )
        except (ValueError, TypeError, KeyError, RecursionError):
            return None


@dataclass(frozen=True)
class Request:
    """A verb with its arguments."""

    verb: str
    args: Mapping[str, Any]

    def to_line(self) -> bytes:
        return _line({"version": VERSION, "verb": self.verb, "args": self.args})

    @classmethod
    def from_line(cls, line: bytes) -> Request:
        """A valid request; UsageError says what is wrong with any other line."""
        try:
            found = json.loads(line, parse_constant=_invalid_constant)
        except (ValueError, RecursionError):
            _refuse("not valid JSON")
        if not isinstance(found, dict):
            _refuse("expected a JSON object")
        version = found.get("version")
        # In Python, `true` equals 1.
        if isinstance(version, bool) or version != VERSION:
            refuse_version(run=VERSION, client=version)
        unknown = sorted({*found} - {"version", "verb", "args"})
        if unknown:
            _refuse(f"unknown key {quoted(unknown)}")
        verb, args = found.get("verb"), found.get("args", {})
        if not isinstance(verb, str) or verb not in _VERBS:
            _refuse(f"unknown verb; expected one of {', '.join(_VERBS)}")
        if not isinstance(args, dict):
            _refuse("`args` is not an object")
        return cls(verb, _arguments(verb, args))

    def run(self, host: Host) -> Mapping[str, Any]:
        """Have the host do it."""
        match self.verb:
            case "status":
                return host.status()
            case "stop":
                return host.stop(self.args["query"], self.args["timeout"])
            case "restart":
                return host.restart(self.args["query"])
            case "plan":
                return host.plan(self.args["query"])
            case _:
                return host.sql(self.args["text"], self.args["max_rows"], self.args["seconds"])


_REQUIRED = object()


@dataclass(frozen=True)
class _Argument:
    """What one argument of a verb may be."""

    types: tuple[type, ...]
    expected: str
    default: object = _REQUIRED
    least: float = 0.0
    most: float = math.inf

    def accepts(self, value: object) -> bool:
        if value is None:
            return self.default is None
        # In Python, `true` is an integer.
        if isinstance(value, bool) or not isinstance(value, self.types):
            return False
        return not isinstance(value, int | float) or self.least <= value <= self.most


_QUERY = _Argument((str,), "the name of a query")
_VERBS: Mapping[str, Mapping[str, _Argument]] = {
    "status": {},
    "stop": {
        "query": _Argument((str,), "the name of a query or null", None),
        "timeout": _Argument((int, float), "a number of seconds or null", None),
    },
    "restart": {"query": _QUERY},
    "plan": {"query": _QUERY},
    "sql": {
        "text": _Argument((str,), "a SQL query"),
        "max_rows": _Argument((int,), f"an integer from 1 to {MAX_ROWS:,}", 1_000, 1, MAX_ROWS),
        "seconds": _Argument(
            (int, float), f"a number from 0.1 to {MAX_SECONDS:,.0f}", 10.0, 0.1, MAX_SECONDS
        ),
    },
}


def _arguments(verb: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    known = _VERBS[verb]
    unknown = sorted({*given} - {*known})
    if unknown:
        _refuse(f"`{verb}` does not have the argument {quoted(unknown)}")
    found = {}
    for name, argument in known.items():
        value = given.get(name, argument.default)
        if value is _REQUIRED or not argument.accepts(value):
            _refuse(f"expected {argument.expected} as `{name}` of `{verb}`")
        found[name] = value
    return found


def _invalid_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _refuse(reason: str) -> NoReturn:
    raise UsageError(CONTROL_REQUEST_INVALID.at(None, reason=reason))


def refuse_version(run: object, client: object) -> NoReturn:
    """Raise UsageError: the run and the client do not use the same version of the protocol."""
    # Foreign text: as short as a version is.
    shown = {"run": str(run)[:20], "client": str(client)[:20]}
    raise UsageError(CONTROL_VERSION_UNSUPPORTED.at(None, **shown))


def success(result: Mapping[str, Any]) -> bytes:
    """The response with a result."""
    return _line({"version": VERSION, "ok": True, "result": result})


def failure(error: HeadwaterError) -> bytes:
    """The response with the problems of an error, and its class."""
    problems = [problem.to_json() for problem in error.problems]
    return _line({"version": VERSION, "ok": False, "error": type(error).__name__, "problems": problems})


def _line(value: object) -> bytes:
    return json.dumps(value, default=str).encode() + b"\n"
