"""The local PostgreSQL server with programs that stand for those of PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.dev import PostgresServer, postgres
from headwater.errors import SetupError

# `-D DIRECTORY` are their first arguments.
KILLED = 'mkdir "$2" && touch "$2/PG_VERSION" && kill -KILL $$'
COMPLETE = 'mkdir "$2" && echo 18 > "$2/PG_VERSION"'
READY = "printf '%s\\n\\n\\n\\n\\n\\n\\nready\\n' $$ > \"$2/postmaster.pid\" && exec sleep 60"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setattr(postgres, "binaries", lambda: folder)
    program(folder / "postgres", READY)
    return folder


def program(file: Path, script: str) -> None:
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def content(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def refusal(server: PostgresServer) -> tuple[str, dict[str, object]]:
    with pytest.raises(SetupError) as caught:
        server.start()
    (problem,) = caught.value.problems
    return problem.code, dict(problem.params)


def test_a_data_directory_that_was_not_completed_is_created_again(tmp_path: Path, programs: Path) -> None:
    server = PostgresServer(tmp_path / "server", password="p")
    program(programs / "initdb", KILLED)
    reason = {"reason": "the log is empty", "log": str(server.log)}
    assert refusal(server) == ("HW-POSTGRES-START-FAILED", reason)
    assert content(server.folder) == ["postgres.log"]
    # What is left if Headwater is killed too.
    left = server.folder / "initdb-left" / "data"
    left.mkdir(parents=True)
    (left / "PG_VERSION").touch()
    program(programs / "initdb", COMPLETE)
    with server:
        assert content(server.folder) == ["data", "postgres.log"]
        assert (server.folder / "data" / "PG_VERSION").read_text() == "18\n"
    # A later start keeps the data.
    program(programs / "initdb", KILLED)
    with server:
        assert content(server.folder) == ["data", "postgres.log"]


def test_another_directory_in_its_place_is_named(tmp_path: Path, programs: Path) -> None:
    program(programs / "initdb", COMPLETE)
    server = PostgresServer(tmp_path / "server")
    (server.folder / "data" / "other").mkdir(parents=True)
    params = {"folder": str(server.folder), "reason": "Directory not empty"}
    assert refusal(server) == ("HW-POSTGRES-DIR-UNWRITABLE", params)
    assert content(server.folder) == ["data", "postgres.log"]
