"""A real socket with clients of every kind; `FakeHost` stands for the runtime."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headwater.control.client import RunClient, RunNotActiveError
from headwater.control.protocol import Endpoint
from headwater.control.server import LONGEST_PATH, ControlServer, Limits, refuse_other_users
from headwater.errors import HeadwaterError, SetupError, UsageError
from headwater.values.processes import process_start_time
from tests.unit.control.runs import FakeHost, serving, started, view_of

QUICK = Limits(connections=2, line_bytes=1_000, read_seconds=0.2, write_seconds=0.2)


def within(seconds: float, condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def sent(server: ControlServer, data: bytes) -> dict[str, Any]:
    """The response to what a client sends."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(server.path))
        try:
            client.sendall(data)
        except OSError:
            assert len(data) > 1_000_000
        response = b""
        while not response.endswith(b"\n"):
            part = client.recv(65_536)
            assert part
            response += part
        found: dict[str, Any] = json.loads(response)
        return found


def request(verb: str, version: object = 1, **args: object) -> bytes:
    return json.dumps({"version": version, "verb": verb, "args": args}).encode() + b"\n"


def test_every_verb(tmp_path: Path) -> None:
    with serving(tmp_path) as (host, server):
        status = sent(server, request("status"))
        assert status == {"version": 1, "ok": True, "result": host.view.to_json()}
        assert sent(server, request("stop", query="by_day", timeout=1.5)) == {
            "version": 1,
            "ok": True,
            "result": {},
        }
        assert sent(server, request("stop"))["ok"]
        assert sent(server, request("restart", query="by_day"))["ok"]
        assert sent(server, request("plan", query="by_day"))["result"] == {"plan": "== Physical Plan =="}
        rows = sent(server, request("sql", text="SELECT 1", max_rows=1))["result"]
        assert rows == {
            "columns": [{"name": "shop", "type": "string"}, {"name": "total", "type": "double"}],
            "rows": [["north", 12.0]],
            "truncated": True,
        }
        assert host.asked == [
            ("stop", "by_day", 1.5),
            ("stop", None, None),
            ("restart", "by_day"),
            ("plan", "by_day"),
            ("sql", "SELECT 1", 1, 10.0),
        ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"\x00\xff\n", "not valid JSON"),
        (b"[" * 100_000 + b"\n", "not valid JSON"),
        (b"[1]\n", "expected a JSON object"),
        (
            request("kill"),
            "unknown verb; expected one of status, stop, restart, plan, sql",
        ),
        (b'{"version": 1, "verb": "status", "to": 1}\n', "unknown key `to`"),
        (b'{"version": 1, "verb": "status", "args": []}\n', "`args` is not an object"),
        (request("status", all=True), "`status` does not have the argument `all`"),
        (request("restart"), "expected the name of a query as `query` of `restart`"),
        (request("stop", query=7), "expected the name of a query or null as `query` of `stop`"),
        (request("stop", timeout=-1), "expected a number of seconds or null as `timeout` of `stop`"),
        (request("stop", timeout=float("nan")), "not valid JSON"),
        (
            request("sql", text="SELECT 1", max_rows=True),
            "expected an integer from 1 to 100,000 as `max_rows` of `sql`",
        ),
        (
            request("sql", text="SELECT 1", seconds=3_601),
            "expected a number from 0.1 to 3,600 as `seconds` of `sql`",
        ),
    ],
)
def test_an_invalid_request_is_a_problem(tmp_path: Path, line: bytes, reason: str) -> None:
    with serving(tmp_path) as (host, server):
        answer = sent(server, line)
        assert (answer["ok"], answer["error"]) == (False, "UsageError")
        (problem,) = answer["problems"]
        assert problem["code"] == "HW-CONTROL-REQUEST-INVALID"
        assert problem["message"] == f"Invalid request to the control socket: {reason}."
        assert host.asked == []


@pytest.mark.parametrize("version", [0, 2, "1", None, True])
def test_another_version_is_a_problem(tmp_path: Path, version: object) -> None:
    with serving(tmp_path) as (_, server):
        (problem,) = sent(server, request("status", version=version))["problems"]
        assert problem["code"] == "HW-CONTROL-VERSION-UNSUPPORTED"


def test_a_line_of_ten_megabytes(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, server):
        (problem,) = sent(server, b"x" * 10_000_000)["problems"]
        assert problem["message"] == (
            "Invalid request to the control socket: the line exceeds 1,000,000 bytes or the time limit."
        )
        assert RunClient(tmp_path).status()["run_id"] == "r1"


def test_a_client_reads_the_problem_of_a_request_that_is_too_long(tmp_path: Path) -> None:
    with serving(tmp_path), pytest.raises(UsageError) as raised:
        RunClient(tmp_path).sql("x" * 10_000_000)
    assert raised.value.problems[0].code == "HW-CONTROL-REQUEST-INVALID"


def test_fifty_clients_at_the_same_time(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, server), ThreadPoolExecutor(50) as pool:
        ready = threading.Barrier(50)

        def ask(_: int) -> str:
            ready.wait(20)
            return str(sent(server, request("status"))["result"]["run_id"])

        assert list(pool.map(ask, range(50))) == ["r1"] * 50


def test_a_request_that_waits_delays_no_other(tmp_path: Path) -> None:
    with serving(tmp_path) as (host, _), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(RunClient(tmp_path).sql, "wait")
        within(20, lambda: bool(host.asked))
        assert RunClient(tmp_path).status()["run_id"] == "r1"
        host.release.set()
        assert waiting.result(20)["truncated"] is False


def test_too_many_connections_are_rejected_until_one_ends(tmp_path: Path) -> None:
    limits = Limits(connections=2, read_seconds=20)
    with serving(tmp_path, limits=limits) as (_, server):
        idle = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for client in idle:
            client.connect(str(server.path))
        with pytest.raises(HeadwaterError) as raised:
            RunClient(tmp_path).status()
        assert (raised.value.problems[0].code, raised.value.retryable) == ("HW-CONTROL-BUSY", True)
        for client in idle:
            client.close()

        def is_free() -> bool:
            try:
                return bool(RunClient(tmp_path).status())
            except HeadwaterError:
                return False

        within(20, is_free)


def test_an_idle_client_and_one_that_sends_byte_by_byte_are_disconnected(tmp_path: Path) -> None:
    with serving(tmp_path, limits=QUICK) as (_, server):
        with socket.socket(socket.AF_UNIX) as idle:
            idle.settimeout(20)
            idle.connect(str(server.path))
            assert idle.recv(1) == b""
        with socket.socket(socket.AF_UNIX) as slow:
            slow.settimeout(0.01)
            slow.connect(str(server.path))
            deadline, answer = time.monotonic() + 20, None
            while answer is None and time.monotonic() < deadline:
                try:
                    slow.sendall(b"x")
                    answer = slow.recv(65_536)
                except TimeoutError:
                    continue
                except OSError:
                    answer = b""
            assert answer is not None
        assert RunClient(tmp_path).status()["run_id"] == "r1"


def test_a_client_that_never_reads_is_disconnected(tmp_path: Path) -> None:
    with serving(tmp_path, limits=QUICK) as (host, server):
        # More than the buffers of a socket take.
        host.view.spark_version = "x" * 10_000_000
        clients = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for client in clients:
            client.connect(str(server.path))
            client.sendall(request("status"))

        def is_free() -> bool:
            try:
                return bool(RunClient(tmp_path).sql("SELECT 1"))
            except HeadwaterError:
                return False

        within(20, is_free)
        for client in clients:
            client.close()


def test_an_error_of_the_host_keeps_its_class_and_code(tmp_path: Path) -> None:
    with serving(tmp_path), pytest.raises(KeyError) as raised:
        RunClient(tmp_path).restart("by_dya")
    assert isinstance(raised.value, UsageError)
    assert raised.value.problems[0].code == "HW-QUERY-NOT-FOUND"
    assert raised.value.problems[0].message == "This run has no query `by_dya`."


def test_a_bug_in_the_host_is_a_problem(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(tmp_path), pytest.raises(HeadwaterError) as raised:
        RunClient(tmp_path).sql("bug")
    assert raised.value.problems[0].code == "HW-CONTROL-FAILED"
    assert raised.value.problems[0].message == (
        "The run could not execute `sql`: ZeroDivisionError: division by zero."
    )
    assert caplog.messages == ["the control request sql failed"]


def test_only_the_user_can_open_the_socket(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, server):
        mode = server.path.stat().st_mode
        assert (stat.S_ISSOCK(mode), stat.S_IMODE(mode)) == (True, 0o600)
        assert server.path == tmp_path / "control.sock"
        endpoint = json.loads((tmp_path / "control.json").read_text())
        assert endpoint == {
            "version": 1,
            "socket": "control.sock",
            "pid": os.getpid(),
            "start_time": process_start_time(os.getpid()),
            "run_id": "r1",
        }
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system does not tell the user")
def test_other_users_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    user, owner = os.getuid(), os.getuid()
    if user == 0:
        # Root may control every run, so the client has to be another user. The system asks for the effective one
        # when the socket is made.
        user = 65_534
        os.seteuid(user)
    else:
        owner += 1
    try:
        one, other = socket.socketpair()
    finally:
        os.seteuid(os.getuid())
    with one, other:
        monkeypatch.setattr(os, "getuid", lambda: user)
        refuse_other_users(one)
        monkeypatch.setattr(os, "getuid", lambda: owner)
        with pytest.raises(UsageError) as raised:
            refuse_other_users(one)
        (problem,) = raised.value.problems
        assert (problem.code, problem.params) == ("HW-CONTROL-FORBIDDEN", {"owner": owner, "user": user})


@pytest.mark.skipif(os.getuid() != 0, reason="only root can connect as root")
def test_root_may_control_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    with one, other:
        monkeypatch.setattr(os, "getuid", lambda: 1)
        refuse_other_users(one)


def test_a_long_path_has_its_socket_elsewhere(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    with serving(deep) as (_, server):
        private = server.path.parent
        assert len(os.fsencode(deep)) > LONGEST_PATH
        assert private.parent == Path(tempfile.gettempdir())
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert stat.S_IMODE(server.path.stat().st_mode) == 0o600
        assert RunClient(deep).status()["run_id"] == "r1"
    assert not private.exists()
    assert list(deep.iterdir()) == []


def test_no_socket_anywhere_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    server = ControlServer(FakeHost(view_of(started(deep))), deep, "r1")
    with pytest.raises(SetupError) as raised:
        server.start()
    assert raised.value.problems[0].code == "HW-CONTROL-SOCKET-FAILED"


KILLED = """
import sys, threading
from pathlib import Path
from tests.unit.control.runs import FakeHost, started, view_of
from headwater.control.server import ControlServer
run_dir = Path(sys.argv[1])
ControlServer(FakeHost(view_of(started(run_dir))), run_dir, "killed").start()
print("ready", flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("depth", [0, 120])
def test_the_socket_of_a_killed_run_is_replaced(tmp_path: Path, depth: int) -> None:
    run_dir = tmp_path / ("d" * depth) if depth else tmp_path
    with subprocess.Popen([sys.executable, "-c", KILLED, str(run_dir)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        client = RunClient(run_dir)
        assert client.status()["run_id"] == "r1"
        endpoint = client.endpoint
        assert isinstance(endpoint, Endpoint)
        assert (endpoint.pid, endpoint.alive) == (process.pid, True)
        process.send_signal(signal.SIGKILL)
    left = run_dir / endpoint.socket
    assert left.exists()
    assert not endpoint.alive
    with pytest.raises(RunNotActiveError):
        client.status()
    with serving(run_dir, "r2") as (_, server):
        assert client.status()["run_id"] == "r2"
        assert left == server.path or not left.parent.exists()


def test_a_suspended_run_is_unresponsive(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(HeadwaterError) as raised:
                RunClient(tmp_path, answer_seconds=0.2).status()
        finally:
            process.kill()
    assert (raised.value.problems[0].code, raised.value.retryable) == ("HW-RUN-UNRESPONSIVE", True)
    assert raised.value.problems[0].message == (
        f"The run in {tmp_path} (process {process.pid}) did not answer within 0.2 s."
    )


def test_close_lets_an_open_request_end(tmp_path: Path) -> None:
    with serving(tmp_path) as (host, server), ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(RunClient(tmp_path).sql, "wait")
        within(20, lambda: bool(host.asked))
        closing = pool.submit(server.close, 20)
        within(20, lambda: not server.path.exists())
        host.release.set()
        assert waiting.result(20)["rows"] == [["north", 12.0], ["a\nb", None]]
        closing.result(20)
        with pytest.raises(RunNotActiveError):
            RunClient(tmp_path).status()
