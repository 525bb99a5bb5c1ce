"""The process of the JVM, played by a shell script: it listens, fails, or never answers."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from pathlib import Path

import pytest

from headwater.errors import SetupError
from headwater.spark.java import Java
from headwater.spark.launch import JvmProcess, jvm_environment, launch

LISTENS = r"""
printf '\000\000\004\322\000\000\000\006secret' > "$_PYSPARK_DRIVER_CONN_INFO_PATH.part"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.part" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
cat
"""


def launched(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> JvmProcess:
    submit = folder / "spark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text(f"#!/bin/sh\n{script}")
    submit.chmod(submit.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("SPARK_HOME", str(folder / "spark"))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    java = Java(folder / "java", folder / "java" / "bin" / "java", 17, "JAVA_HOME")
    return launch({"spark.a": "xyzzy"}, java=java, log_folder=folder / "logs", stdout=lambda line: None)


def test_the_jvm_says_where_it_listens_and_leaves_when_its_input_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = launched(tmp_path, LISTENS, monkeypatch)
    assert process.address() == (1234, "secret")
    assert not process._folder.exists()
    assert process.runs
    process.end(20)
    process.output.finish()
    assert process.popen.returncode == 0


def test_the_settings_are_in_a_file_of_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = launched(tmp_path, "exec cat", monkeypatch)
    file = process._folder / "spark.properties"
    assert "spark.a=xyzzy" in file.read_text()
    assert stat.S_IMODE(process._folder.stat().st_mode) == 0o700
    process.abandon()
    assert not file.exists()


def test_a_jvm_that_ends_early_is_a_failure_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = launched(tmp_path, "echo 'Error: no room for a heap' >&2; exit 0", monkeypatch)
    with pytest.raises(SetupError) as caught:
        process.address()
    (problem,) = caught.value.problems
    assert (problem.code, problem.params["reason"]) == ("HW-JVM-START-FAILED", "Error: no room for a heap")
    assert not process._folder.exists()


def test_a_spark_without_its_script_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "nothing"))
    java = Java(tmp_path, tmp_path / "java", 17, "JAVA_HOME")
    with pytest.raises(SetupError) as caught:
        launch({}, java=java, log_folder=tmp_path, stdout=lambda line: None)
    assert caught.value.problems[0].code == "HW-JVM-START-FAILED"


def test_nothing_is_left_of_a_start_that_is_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Spark's script runs a small JVM first; that one must end too.
    process = launched(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; wait", monkeypatch)
    child = tmp_path / "child"
    deadline = time.monotonic() + 20
    while not child.exists() or not child.read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.abandon()
    assert not process.runs
    number = int(child.read_text())
    while _runs(number):
        assert time.monotonic() < deadline, "the child runs on"
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    seen = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(seen.stdout.strip()) and not seen.stdout.strip().startswith("Z")


def test_our_own_environment_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    before = dict(os.environ)
    launched(tmp_path, "exec cat", monkeypatch).abandon()
    assert dict(os.environ) == {
        name: value for name, value in before.items() if name != "PYSPARK_SUBMIT_ARGS"
    }


def test_a_temporary_directory_that_cannot_be_made_is_a_failed_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(prefix: str) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headwater.spark.launch.tempfile.mkdtemp", full)
    with pytest.raises(SetupError) as caught:
        launched(tmp_path, LISTENS, monkeypatch)
    (problem,) = caught.value.problems
    assert (problem.code, problem.params["reason"]) == ("HW-JVM-START-FAILED", "No space left on device")


def test_the_user_may_choose_a_collector(tmp_path: Path) -> None:
    java = Java(tmp_path, tmp_path / "bin" / "java", 17, "JAVA_HOME")
    environ = jvm_environment({}, java, tmp_path, {"SPARK_LAUNCHER_OPTS": "-XX:+UseG1GC"})
    # Java does not start with two.
    assert environ["SPARK_LAUNCHER_OPTS"].count("-XX:+Use") == 1


@pytest.mark.parametrize(("home", "used"), [("spark", True), ("my spark", False)])
def test_the_launcher_finds_its_class_without_a_search_unless_the_shell_would_split_the_path(
    tmp_path: Path, home: str, used: bool
) -> None:
    jar = tmp_path / home / "jars" / "spark-launcher_2.13-4.1.4.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    java = Java(tmp_path, tmp_path / "bin" / "java", 17, "JAVA_HOME")
    options = jvm_environment({}, java, tmp_path / home, {})["SPARK_LAUNCHER_OPTS"]
    assert (f"-Xbootclasspath/a:{jar}" in options) is used
