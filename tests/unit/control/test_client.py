"""What a client makes of a run that is absent, of another version, or exits while it answers."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.control.client import RunClient, RunNotActiveError
from headwater.control.protocol import Endpoint
from headwater.errors import HeadwaterError, UsageError


@contextmanager
def answering(run_dir: Path, response: bytes) -> Iterator[None]:
    """A run that answers one request with this."""
    endpoint = Endpoint("control.sock", os.getpid(), "", "r1")
    (run_dir / "control.json").write_text(endpoint.to_text())
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(run_dir / "control.sock"))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(response)

        thread = threading.Thread(target=answer)
        thread.start()
        yield
        thread.join(20)


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"version": 1}'])
def test_no_run_is_active(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "control.json").write_text(text)
    with pytest.raises(RunNotActiveError) as raised:
        RunClient(tmp_path).status()
    assert raised.value.exit_code == 2
    assert raised.value.problems[0].message == f"No run is active in {tmp_path}."


def test_a_run_of_another_version(tmp_path: Path) -> None:
    (tmp_path / "control.json").write_text(json.dumps({"version": 2, "socket": "s"}))
    with pytest.raises(UsageError) as raised:
        RunClient(tmp_path).status()
    assert raised.value.problems[0].message == (
        "The run uses version 2 of the control protocol, but the client uses version 1."
    )


def test_a_response_of_another_version(tmp_path: Path) -> None:
    with answering(tmp_path, b'{"version": 2, "ok": true}\n'), pytest.raises(UsageError) as raised:
        RunClient(tmp_path).status()
    assert raised.value.problems[0].code == "HW-CONTROL-VERSION-UNSUPPORTED"


@pytest.mark.parametrize("response", [b"", b'{"version": 1, "ok": tr', b'{"version": 1}\n', b"7\n"])
def test_a_run_that_exits_while_it_answers(tmp_path: Path, response: bytes) -> None:
    with answering(tmp_path, response), pytest.raises(HeadwaterError) as raised:
        RunClient(tmp_path).status()
    assert (raised.value.problems[0].code, raised.value.retryable) == ("HW-RUN-CONNECTION-LOST", True)


def test_an_error_of_an_unknown_class(tmp_path: Path) -> None:
    problem = {"code": "HW-NEW", "message": "A {new} one.", "hint": "", "retryable": True, "file": "p.yml"}
    response = {"version": 1, "ok": False, "error": "NewError", "problems": [{**problem, "line": 3}]}
    with (
        answering(tmp_path, json.dumps(response).encode() + b"\n"),
        pytest.raises(HeadwaterError) as raised,
    ):
        RunClient(tmp_path).status()
    (found,) = raised.value.problems
    assert type(raised.value) is HeadwaterError
    assert (found.code, found.message, found.location) == ("HW-NEW", "A {new} one.", "p.yml:3:1")


def test_a_socket_that_cannot_be_reached(tmp_path: Path) -> None:
    (tmp_path / "control.json").write_text(Endpoint("x" * 200, 1, "", "r1").to_text())
    with pytest.raises(HeadwaterError) as raised:
        RunClient(tmp_path).status()
    assert raised.value.problems[0].message == (
        f"Could not connect to the run in {tmp_path}: AF_UNIX path too long."
    )
