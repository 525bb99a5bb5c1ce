"""What the JVM says: the line that names the reason, and output that reaches the caller whole."""

from __future__ import annotations

import errno
import os
import shutil
import time
from pathlib import Path

import pytest

from headwater.errors import SetupError
from headwater.spark import jvm_log
from headwater.spark.jvm_log import LOG, find_reason, keep_small, open_log, prepare_logging
from headwater.spark.launch import OutputReader

STACK = "\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)\n\t... 9 more\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "Improperly specified VM option 'X=many'\nError: Could not create the Java Virtual Machine.\n"
            "Error: A fatal exception has occurred. Program will exit.\n",
            "Improperly specified VM option 'X=many'",
        ),
        (
            "Error occurred during initialization of VM\nCould not reserve enough space for object heap\n",
            "Could not reserve enough space for object heap",
        ),
        (
            "WARNING: Using incubator modules: jdk.incubator.vector\n"
            f'Exception in thread "main" java.lang.RuntimeException: [not found]\n{STACK}',
            'Exception in thread "main" java.lang.RuntimeException: [not found]',
        ),
        (
            "Error: Unrecognized option: --no\n\nUsage: submit\n  --name NAME  A name\n",
            "Error: Unrecognized option: --no",
        ),
        (
            "spark-class: line 71: gone/bin/java: No such file or directory\n"
            "spark-class: line 97: CMD: bad array subscript\n",
            "spark-class: line 71: gone/bin/java: No such file or directory",
        ),
        ("It was full.\n\n", "It was full"),
        ("", ""),
    ],
)
def test_the_telling_line_is_found(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / LOG).write_text(f"Error: of an earlier start\n{text}")
    began = len("Error: of an earlier start\n")
    assert find_reason(tmp_path / LOG, began) == (reason, text)


def test_the_log_is_appended_to(tmp_path: Path) -> None:
    log, began = open_log(tmp_path / "a" / "b")
    assert (log, began, log.exists()) == (tmp_path / "a" / "b" / LOG, 0, True)
    log.write_text("12345")
    assert open_log(log.parent) == (log, 5)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm_log, "LARGEST", 5)


def logs(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in sorted(folder.iterdir())}


@pytest.mark.usefixtures("small")
def test_a_large_log_makes_room_and_three_are_kept(tmp_path: Path) -> None:
    log = tmp_path / LOG
    for text in ("first.", "second", "third.", "fourth", "12345"):
        log.write_text(text)
        assert open_log(tmp_path) == (log, 5 if text == "12345" else 0)
    assert logs(tmp_path) == {
        LOG: "12345",
        f"{LOG}.1": "fourth",
        f"{LOG}.2": "third.",
        f"{LOG}.3": "second",
    }


@pytest.mark.usefixtures("small")
def test_a_jvm_goes_on_in_the_same_file(tmp_path: Path) -> None:
    with (tmp_path / LOG).open("ab", buffering=0) as jvm:
        jvm.write(b"before")
        keep_small(tmp_path)
        jvm.write(b"after")
    assert logs(tmp_path) == {LOG: "after", f"{LOG}.1": "before"}


@pytest.mark.usefixtures("small")
def test_a_log_that_is_not_there_or_can_not_be_moved_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_small(tmp_path)
    assert logs(tmp_path) == {}

    def full(_: Path, copy: Path) -> None:
        copy.write_text("as much as there was room for")
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(shutil, "copyfile", full)
    (tmp_path / LOG).write_text("text of a full disk")
    assert open_log(tmp_path) == (tmp_path / LOG, len("text of a full disk"))
    assert logs(tmp_path) == {LOG: "text of a full disk"}


def test_a_log_of_ten_megabytes_is_large() -> None:
    assert (jvm_log.LARGEST, jvm_log.KEPT) == (10_000_000, 3)


def test_a_log_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError) as caught:
        open_log(tmp_path / "file")
    assert caught.value.problems[0].code == "HW-RUN-DIR-UNWRITABLE"


def test_the_address_of_the_setup_has_no_character_that_java_would_split_at(tmp_path: Path) -> None:
    folder = tmp_path / "my, folder"
    folder.mkdir()
    address = prepare_logging(folder)
    assert address == f"{tmp_path.as_uri()}/my%2C%20folder/log4j2.properties"
    assert (folder / "log4j2.properties").is_file()


def wait_for_text(file: Path) -> None:
    deadline = time.monotonic() + 10
    while not file.exists() or not file.read_text():
        assert time.monotonic() < deadline


def test_lines_go_to_the_log_until_the_start_is_over(tmp_path: Path) -> None:
    lines: list[str] = []
    reader = OutputReader(lines.append, tmp_path / LOG)
    child = os.dup(reader.writer)
    os.write(child, b"one\n")
    wait_for_text(tmp_path / LOG)
    reader.forward()
    os.write(child, "two ü\n\n| x|\nno end of line".encode())
    os.close(child)
    reader.finish()
    assert (tmp_path / LOG).read_text() == "one\n"
    assert lines == ["two ü", "", "| x|", "no end of line"]


def test_a_start_that_fails_leaves_its_output_in_the_log(tmp_path: Path) -> None:
    lines: list[str] = []
    reader = OutputReader(lines.append, tmp_path / LOG)
    os.write(reader.writer, b"# no memory\n")
    reader.finish()
    assert (tmp_path / LOG).read_text() == "# no memory\n"
    assert lines == []
