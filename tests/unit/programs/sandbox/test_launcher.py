"""Commands in each kind of sandbox: what they may write, how they end, and what is left of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.programs.sandbox.launcher import FILES, MOUNTS, Kind
from headwater.programs.script import _LAUNCH, _PACKAGES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kinds are those of Linux")
DAEMON = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 1000' & "


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    for name in (FILES, MOUNTS):
        (tmp_path / "scratch" / name).mkdir(parents=True)
    return tmp_path / "scratch"


def launched(scratch: Path, shell: str, *kinds: Kind) -> subprocess.Popen[str]:
    order = {
        "command": ["/bin/sh", "-c", shell, "sh"],
        "kinds": kinds,
        "scratch": str(scratch),
        "own": [str(scratch.parent)],
        "network": False,
        "parent": os.getpid(),
    }
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _LAUNCH, _PACKAGES, json.dumps(order)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=scratch.parent,
        env={**os.environ, "MARK": str(scratch)},
        start_new_session=True,
    )


def code_of(scratch: Path, shell: str, *kinds: Kind) -> int:
    with launched(scratch, shell, *kinds) as process:
        assert process.stdout
        process.stdout.read()
        return process.wait(60)


def left(scratch: Path) -> set[str]:
    """The commands that still run with the mark of this test."""
    found = set()
    for each in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MARK={scratch}".encode() in each.read_bytes().split(b"\0"):
                found.add((each.parent / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_in_namespaces_writes_succeed_and_are_discarded(scratch: Path) -> None:
    shell = f"echo x > written && cat written && test $1 = namespaces && echo y > {scratch / FILES}/kept"
    assert code_of(scratch, shell, *Kind) == 0
    assert not (scratch.parent / "written").exists()
    assert (scratch / FILES / "kept").read_text() == "y\n"
    assert list((scratch / MOUNTS).iterdir()) == []


def test_behind_landlock_writes_are_refused(scratch: Path) -> None:
    shell = f"touch written; rm -r {scratch / MOUNTS}; test $1 = landlock && touch {scratch / FILES}/kept"
    assert code_of(scratch, shell, Kind.LANDLOCK) == 0
    assert not (scratch.parent / "written").exists()
    assert (scratch / MOUNTS).is_dir()
    assert (scratch / FILES / "kept").exists()


@pytest.mark.parametrize("kind", Kind)
def test_when_the_command_ends_nothing_of_it_is_left(scratch: Path, kind: Kind) -> None:
    assert code_of(scratch, DAEMON + "exit 7", kind) == 7
    assert left(scratch) == set()


@pytest.mark.parametrize("kind", Kind)
def test_when_the_pipe_ends_so_does_the_command(scratch: Path, kind: Kind) -> None:
    with launched(scratch, DAEMON + "echo ready; wait", kind) as process:
        assert process.stdout
        assert process.stdin
        assert process.stdout.readline() == "ready\n"
        process.stdin.close()
        assert process.wait(60) == 128 + signal.SIGKILL
    assert left(scratch) == set()


def test_a_command_that_has_begun_never_runs_again_elsewhere(scratch: Path) -> None:
    counted = scratch / FILES / "runs"
    assert code_of(scratch, f"echo run >> {counted}; exit 97", *Kind) == 97
    assert counted.read_text() == "run\n"


def test_a_signal_has_the_exit_code_of_a_shell(scratch: Path) -> None:
    assert code_of(scratch, "kill -SEGV $$", *Kind) == 128 + signal.SIGSEGV


def test_a_killed_launcher_takes_the_namespace_along(scratch: Path) -> None:
    with launched(scratch, DAEMON + "echo ready; wait", Kind.NAMESPACES) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.kill()
        # Every process of the sandbox holds this pipe, so that its end is theirs.
        assert process.stdout.read() == ""
        assert process.wait(60) == -signal.SIGKILL
