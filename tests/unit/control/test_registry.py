"""The runs on this machine: which are listed, in which order, and which are active."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.control import registry
from headwater.control.registry import (
    drop_deleted,
    find,
    mark_ended,
    register,
    registered_runs,
    state_directory,
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("HEADWATER_STATE_DIR", str(folder))
    return folder


def registered_at(monkeypatch: pytest.MonkeyPatch, run_dir: Path, at: str) -> None:
    run_dir.mkdir()
    monkeypatch.setattr(registry, "now", lambda: at)
    register(run_dir, f"p_{run_dir.name}", f"r_{run_dir.name}", file=f"{run_dir}.yml")


def test_active_runs_are_first_then_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, name in enumerate("abcd"):
        registered_at(monkeypatch, tmp_path / name, f"2026-01-31T12:00:0{number}.000Z")
    mark_ended(tmp_path / "b", "r_b")
    mark_ended(tmp_path / "d", "r_d")
    mark_ended(tmp_path / "a", "another run")
    assert [(run.pipeline, run.active) for run in registered_runs()] == [
        ("p_c", True),
        ("p_a", True),
        ("p_d", False),
        ("p_b", False),
    ]


def test_the_last_run_replaces_the_one_before(tmp_path: Path) -> None:
    for run_id in ("r1", "r2"):
        register(tmp_path, "p", run_id)
    assert [run.run_id for run in registered_runs()] == ["r2"]


def test_a_run_whose_directory_is_gone_is_dropped(tmp_path: Path, state: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    register(run_dir, "p", "r1")
    assert drop_deleted() == ()
    run_dir.rmdir()
    assert registered_runs() == ()
    # It is dropped only where someone is told.
    assert [run.run_id for run in drop_deleted()] == ["r1"]
    assert drop_deleted() == ()
    assert list((state / "runs").iterdir()) == []


REGISTER = """
import sys
from pathlib import Path
from headwater.control.registry import register
register(Path(sys.argv[1]), "p", "r1")
"""


def test_a_run_whose_process_is_gone_is_not_active(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", REGISTER, str(tmp_path)], check=True)
    run = find(tmp_path)
    assert run is not None
    assert (run.run_id, run.ended_at, run.active) == ("r1", None, False)


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2}', '{"version": 1, "pid": 1}'])
def test_a_file_that_is_not_known_is_not_listed(tmp_path: Path, state: Path, text: str) -> None:
    register(tmp_path, "p", "r1")
    (file,) = (state / "runs").iterdir()
    assert json.loads(file.read_text())["version"] == 1
    file.write_text(text)
    assert registered_runs() == ()
    assert file.exists()


def test_a_directory_that_cannot_be_written_stops_no_run(
    tmp_path: Path, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state.write_text("a file")
    with caplog.at_level(logging.WARNING):
        register(tmp_path, "p", "r1")
    assert [message.startswith("could not record the run in") for message in caplog.messages] == [True]
    assert registered_runs() == ()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HEADWATER_STATE_DIR": "/s", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/s"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/headwater"),
        ({"XDG_STATE_HOME": "x", "HOME": "/h"}, "/h/.local/state/headwater"),
        ({"HOME": "/h"}, "/h/.local/state/headwater"),
    ],
)
def test_where_runs_are_recorded(environ: dict[str, str], expected: str) -> None:
    assert state_directory(environ) == Path(expected)
