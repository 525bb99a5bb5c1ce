"""Scripts that do their worst under `headwater check`: no effect outside, and no process afterwards."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.api.check import check
from headwater.programs import script
from headwater.programs.sandbox.launcher import Kind
from tests import short_lives
from tests.checker import hostile

SECONDS = 240.0
linux = pytest.mark.skipif(sys.platform != "linux", reason="namespaces are those of Linux")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's directory, in which the command is typed."""
    for key, value in short_lives.environment().items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def servers(folder: Path) -> Iterator[tuple[dict[str, str], list[bytes]]]:
    """A server on loopback and one on a file, and what both have heard."""
    heard: list[bytes] = []
    by_port, by_file = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
    by_file.bind(str(folder / "s"))
    by_file.listen()

    def serve(server: socket.socket) -> None:
        while True:
            try:
                heard.append(server.accept()[0].recv(100))
            except OSError:
                return

    threads = [threading.Thread(target=serve, args=(each,)) for each in (by_port, by_file)]
    for each in threads:
        each.start()
    try:
        yield {"SERVER": str(by_port.getsockname()[1]), "SOCKET": str(folder / "s")}, heard
    finally:
        for server in (by_port, by_file):
            server.shutdown(socket.SHUT_RDWR)
            server.close()
        for each in threads:
            each.join()


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(each.relative_to(folder)): each.read_bytes() if each.is_file() else b""
        for each in folder.rglob("*")
    }


@linux
@pytest.mark.feature("L1", part="a hostile script")
def test_a_hostile_script_has_no_effect(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = hostile.make(folder)
    with sqlite3.connect(folder / "rows.db") as rows:
        rows.execute("CREATE TABLE given (number INTEGER)")
    with servers(folder) as (addresses, heard):
        for key, value in {**environment, **addresses}.items():
            monkeypatch.setenv(key, value)
        before = contents(folder)
        result = check("job.py", timeout=SECONDS)
        assert hostile.marked_processes(folder) == set()
        assert contents(folder) == before
        assert heard == []
    line = line_of(folder, 'format("no_such_format").start')
    name = f"job.py:{line}"
    assert [sink["name"] for sink in result.to_json()["sinks"]] == [name, "judged"]
    assert [(each.problem.code, each.sink) for each in result.errors] == [
        ("HW-SCRIPT-SOURCE-NOT-FOUND", name)
    ]
    lines = (folder / "job.py").read_text().splitlines()
    skipped = [number for number, line in enumerate(lines, start=1) if line.endswith("# process")]
    notes = [each.problem for each in result.findings if each.problem.code == "HW-SCRIPT-PROCESS"]
    assert [note.place.line for note in notes if note.place] == skipped


def line_of(folder: Path, text: str) -> int:
    lines = (folder / "job.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


STAYS = """
import ctypes, os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
libc = ctypes.CDLL(None)
if libc.fork() == 0:
    os.setsid()
    if libc.fork():
        os._exit(0)
    time.sleep(1000)
while True:
    time.sleep(0.1)
"""


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()


@linux
@pytest.mark.feature("L1", part="the deadline")
def test_after_the_deadline_no_process_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(hostile.MARK, str(folder))
    (folder / "job.py").write_text(STAYS.lstrip("\n"), encoding="utf-8")
    (finding,) = check("job.py", timeout=1).findings
    assert hostile.marked_processes(folder) == set()
    assert finding.problem.code == "HW-SCRIPT-TIMEOUT"
    assert finding.problem.place is not None
    assert finding.problem.place.line == line_of(folder, "time.sleep(0.1)")
    assert finding.problem.params == {
        "seconds": "1 second",
        "file": "job.py",
        "reached": "it had reached this line",
    }


@linux
@pytest.mark.feature("L1", part="a killed check")
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.soak)])
def test_a_check_that_is_killed_leaves_nothing(folder: Path, number: signal.Signals) -> None:
    (folder / "job.py").write_text(STAYS.lstrip("\n"), encoding="utf-8")
    (folder / "passing").mkdir()
    process = subprocess.Popen(
        [Path(sys.executable).with_name("headwater"), "check", "job.py", "--timeout", "10 minutes"],
        env={**os.environ, hostile.MARK: str(folder), "TMPDIR": str(folder / "passing")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        # The check, its launcher, the two processes of the sandbox, the script and its daemon.
        assert wait_for(lambda: len(hostile.marked_processes(folder)) == 6)
        process.send_signal(number)
        process.wait(SECONDS)
        assert wait_for(lambda: not hostile.marked_processes(folder))
        assert list((folder / "passing").iterdir()) == []
    finally:
        process.kill()


NETWORK = """
import socket
try:
    socket.create_connection(("127.0.0.1", {port}))
except OSError:
    pass
except Exception as error:
    print(error)
socket.create_connection(("127.0.0.1", {port}))
"""


@linux
@pytest.mark.feature("L1", part="the network")
def test_a_script_gets_the_network_only_when_it_is_allowed(folder: Path) -> None:
    with servers(folder) as (addresses, heard):
        (folder / "job.py").write_text(NETWORK.format(port=addresses["SERVER"]), encoding="utf-8")
        (finding,) = check("job.py").findings
        assert heard == []
        assert finding.problem.code == "HW-SCRIPT-NETWORK"
        assert finding.problem.place is not None
        assert finding.problem.place.line == 9
        (finding,) = check("job.py", network=True).findings
        assert finding.problem.code == "HW-SCRIPT-QUERY-MISSING"
        assert len(heard) == 2


WEAK = """
import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
for attempt in (
    lambda: open("written", "w"),
    lambda: sqlite3.connect("written"),
    lambda: shutil.rmtree("kept"),
    lambda: socket.create_connection(("127.0.0.1", {port})),
):
    try:
        attempt()
    except Exception as error:
        print(error)
with tempfile.TemporaryDirectory() as allowed:
    open(os.path.join(allowed, "file"), "w").write("x")
subprocess.run(["touch", "written"], check=True)
open("written", "w")
"""


@linux
@pytest.mark.feature("L1", part="a weak sandbox")
def test_without_namespaces_writes_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "KINDS", (Kind.NONE,))
    (folder / "kept").mkdir()
    with servers(folder) as (addresses, heard):
        (folder / "job.py").write_text(WEAK.format(port=addresses["SERVER"]).lstrip("\n"), encoding="utf-8")
        findings = check("job.py").findings
        assert heard == []
    found = sorted((each.problem.code, each.problem.place and each.problem.place.line) for each in findings)
    assert found == [
        ("HW-SCRIPT-NETWORK", 11),
        ("HW-SCRIPT-PROCESS", 19),
        ("HW-SCRIPT-WEAK-SANDBOX", None),
        ("HW-SCRIPT-WRITES", 8),
        ("HW-SCRIPT-WRITES", 9),
        ("HW-SCRIPT-WRITES", 10),
        ("HW-SCRIPT-WRITES", 20),
    ]
    assert (folder / "kept").is_dir()
    assert not (folder / "written").exists()
