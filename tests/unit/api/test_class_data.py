"""Creating the archive of Spark's classes: one writer, never an error, and not without room."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from headwater.api import class_data as making
from headwater.errors import SetupError
from headwater.errors.catalogue.environment import JAVA_MISSING
from headwater.spark import class_data
from headwater.spark.class_data import Attempts, ClassData


@pytest.fixture
def archive(tmp_path: Path) -> ClassData:
    return ClassData(tmp_path / "class-data", "k")


def written(folder: Path, settings: Mapping[str, str]) -> None:
    """What the JVM leaves behind."""
    option = next(each for each in settings["spark.driver.extraJavaOptions"].split('"') if "AtExit" in each)
    Path(option.partition("=")[2]).write_bytes(b"classes")


def test_an_archive_appears_complete_and_nothing_else_stays(
    archive: ClassData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "_run", written)
    left = archive.folder / ".part-k-killed"
    left.mkdir(parents=True)
    assert making.make(archive) == ""
    assert archive.is_complete
    assert sorted(file.name for file in archive.folder.iterdir()) == ["k.jsa", "k.json", "k.lock"]


def test_an_archive_that_exists_is_not_made_again(
    archive: ClassData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "_run", written)
    making.make(archive)
    monkeypatch.setattr(making, "_run", lambda *_: pytest.fail("made again"))
    assert making.make(archive) == ""


def test_a_truncated_archive_is_replaced(archive: ClassData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "_run", written)
    making.make(archive)
    archive.archive.write_bytes(b"")
    assert not archive.is_complete
    assert making.make(archive) == ""
    assert archive.archive.read_bytes() == b"classes"


def test_only_one_process_writes(archive: ClassData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "_run", lambda *_: pytest.fail("a second writer"))
    archive.folder.mkdir()
    with archive.lock.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert making.make(archive) == "another process is creating it"
    assert archive.attempts() == Attempts()


def test_a_java_that_writes_none_is_asked_once(archive: ClassData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "_run", lambda *_: None)
    assert making.make(archive) == "Java wrote no archive"
    assert archive.attempts() == Attempts(1, "Java wrote no archive")


def test_a_spark_that_does_not_start_is_the_reason(
    archive: ClassData, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise SetupError(JAVA_MISSING.at())

    monkeypatch.setattr(making, "_run", fails)
    reason = making.make(archive)
    assert reason
    assert archive.attempts().reason == reason


def test_a_killed_attempt_counts(archive: ClassData, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(making, "_run", killed)
    with pytest.raises(KeyboardInterrupt):
        making.make(archive)
    assert archive.attempts() == Attempts(1)


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    archive = ClassData(tmp_path / "file" / "class-data", "k")
    assert "file/class-data" in making.make(archive)
    assert not making._has_room(archive)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: commands.append(command))
    monkeypatch.setattr(class_data, "_missing", [])
    return commands


def test_a_command_starts_the_process_only_if_its_jvm_missed_the_archive(
    archive: ClassData, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "read_memory", lambda: (8 * 1024**3, None))
    making.start_making()
    assert started == []
    class_data.note_missing(archive, {"spark.driver.extraClassPath": "/my.jar"})
    making.start_making()
    assert [command[1:] for command in started] == [["-m", "headwater.api.class_data", "k", "/my.jar"]]


def test_processes_that_never_begin_count_as_attempts(
    archive: ClassData, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "read_memory", lambda: (8 * 1024**3, None))
    class_data.note_missing(archive, {})
    for _ in range(5):
        making.start_making()
    assert len(started) == 3
    assert archive.attempts() == Attempts(3)


def test_no_attempt_starts_or_counts_while_another_process_writes_or_after_it(
    archive: ClassData, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "read_memory", lambda: (8 * 1024**3, None))
    class_data.note_missing(archive, {})
    archive.folder.mkdir()
    with archive.writing(wait=False):
        making.start_making()
        archive.archive.write_bytes(b"classes")
        archive.complete()
    making.start_making()
    assert started == []
    assert archive.attempts() == Attempts()


def test_a_machine_without_memory_and_an_archive_that_failed_start_nothing(
    archive: ClassData, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    class_data.note_missing(archive, {})
    monkeypatch.setattr(making, "read_memory", lambda: (8 * 1024**3, 1024**3))
    making.start_making()
    monkeypatch.setattr(making, "read_memory", lambda: (8 * 1024**3, 6 * 1024**3))
    archive.note(Attempts(1, "Java wrote no archive"))
    making.start_making()
    assert started == []


def test_the_process_does_not_count_its_attempt_again(
    archive: ClassData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(making, "find_class_data", lambda settings: archive)
    monkeypatch.setattr(making, "_run", lambda *_: None)
    archive.folder.mkdir()
    archive.note(Attempts(2))
    assert making.main(["k", ""]) == 0
    assert archive.attempts() == Attempts(2, "Java wrote no archive")


def no_java(settings: Mapping[str, str]) -> ClassData:
    raise SetupError(JAVA_MISSING.at())


@pytest.mark.parametrize(
    "find", [lambda settings: ClassData(Path(), "another"), lambda settings: None, no_java]
)
def test_the_process_stops_with_a_reason_if_its_class_path_is_another(
    archive: ClassData, monkeypatch: pytest.MonkeyPatch, find: Callable[[Mapping[str, str]], ClassData | None]
) -> None:
    archive.folder.mkdir()
    archive.note(Attempts(1))
    monkeypatch.chdir(archive.folder)
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(making, "find_class_data", find)
    monkeypatch.setattr(making, "make", lambda *_, **__: pytest.fail("made for another class path"))
    assert making.main(["k", ""]) == 0
    reason = "the process that creates it found another Java or class path"
    assert archive.attempts() == Attempts(1, reason)
    assert archive.attempts().exhausted


def test_who_asks_for_an_archive_waits_for_another_process(
    archive: ClassData, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.folder.mkdir()
    monkeypatch.setattr(making, "find_class_data", lambda settings: archive)
    monkeypatch.setattr(making, "_run", lambda *_: pytest.fail("made again"))
    with archive.writing(wait=False) as alone:
        assert alone
        assert archive.is_being_made
        waiting = threading.Thread(target=lambda: reasons.append(making.make_now()))
        reasons: list[str] = []
        waiting.start()
        archive.archive.write_bytes(b"classes")
        archive.complete()
        assert reasons == []
    waiting.join(60)
    assert reasons == [""]
    assert not archive.is_being_made


def test_a_switch_that_is_off_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_CLASS_DATA", "no")
    monkeypatch.setattr(making, "find_class_data", lambda settings: None)
    assert making.make_now() == "HEADWATER_CLASS_DATA is no"
