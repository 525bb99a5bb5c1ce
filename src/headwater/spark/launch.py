"""Starts the process of Spark's JVM, in a separate session.

The JVM is a child in another session and process group, so a signal to ours (Ctrl-C in a terminal, SIGTERM
from a supervisor) reaches only Python, which then lets the current batch commit. In the other direction, a
pipe is used: the JVM reads its standard input and exits when Python is gone, for any reason.

The JVM never writes to the terminal directly: standard error (Spark's log) is appended to `spark.log`, and
standard output (the console sink) is passed to the caller line by line.

This module imports no PySpark: the JVM needs seconds to start, and Python loads PySpark meanwhile.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from headwater.errors import SetupError
from headwater.errors.catalogue import environment
from headwater.spark import class_data
from headwater.spark.class_data import ClassData
from headwater.spark.java import Java, find_java
from headwater.spark.jvm_log import find_reason, open_log, prepare_logging
from headwater.spark.local_files import class_path

# Reads the JVM's standard output, to which the console sink prints, without losing a line.

_DRAIN_SECONDS = 10.0


class OutputReader:
    """A pipe and the thread that reads it: to the log while the JVM starts, then to the caller.

    Output during the start (of shell scripts, of a JVM that cannot start) is not output of the pipeline.
    """

    def __init__(self, receive: Callable[[str], None], log: Path) -> None:
        self._receive = receive
        self._log = log
        self._started = threading.Event()
        reader, self.writer = os.pipe()
        self._thread = threading.Thread(
            target=self._read, args=(reader,), name="headwater-jvm-output", daemon=True
        )
        self._thread.start()

    def forward(self) -> None:
        """Give every further line to the caller; the JVM has its end of the pipe by now."""
        self._started.set()
        self._close_writer()

    def finish(self) -> None:
        """Read to the end, once the JVM has ended."""
        self._close_writer()
        self._thread.join(_DRAIN_SECONDS)

    def _close_writer(self) -> None:
        # While we hold this end open ourselves, the end of the output would never come.
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def _read(self, reader: int) -> None:
        with os.fdopen(reader, encoding="utf-8", errors="replace", newline="\n") as lines:
            for line in lines:
                self._pass_on(line.rstrip("\n"))

    def _pass_on(self, line: str) -> None:
        if self._started.is_set():
            self._receive(line)
            return
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"{line}\n")


# Below everything that the user sets, wherever it is set.
_DEFAULTS = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
LOOPBACK = "127.0.0.1"
_ANSWER = "connection"
_LOOK_SECONDS = 0.01


@dataclass(frozen=True)
class JvmProcess:
    """The JVM's process, the thread that reads its output, and its log from position `began` on."""

    popen: subprocess.Popen[bytes]
    output: OutputReader
    log: Path
    began: int
    _folder: Path
    """What the JVM reads and writes at its start: its settings, and where it listens."""

    @property
    def runs(self) -> bool:
        return self.popen.poll() is None

    def address(self) -> tuple[int, str]:
        """The port and the secret of the gateway, once the JVM listens; SetupError if it ends before."""
        answer = self._folder / _ANSWER
        try:
            while not answer.exists():
                if not self.runs:
                    raise self._failure()
                time.sleep(_LOOK_SECONDS)
            # The JVM renames the complete file: an integer, then the length of a text and the text.
            data = answer.read_bytes()
        except BaseException:
            self.end(0)
            self.output.finish()
            raise
        self._clean_up()
        self.output.forward()
        return struct.unpack_from("!i", data)[0], data[8:].decode()

    def end(self, timeout: float) -> None:
        """Let the JVM leave within the time, and kill it after."""
        # At the end of its input, the JVM runs its shutdown hooks and exits.
        if self.popen.stdin is not None:
            self.popen.stdin.close()
        try:
            self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self._kill()
        self._clean_up()

    def abandon(self) -> None:
        """End a JVM that nothing has used yet."""
        self.end(0)
        self.output.finish()

    def _kill(self) -> None:
        # The group: during the start, this process is a shell that waits for a small JVM.
        with suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def _clean_up(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _failure(self) -> SetupError:
        self.output.finish()
        reason, text = find_reason(self.log, self.began)
        reason = reason or f"the process ended with exit code {self.popen.returncode}"
        problem = environment.JVM_START_FAILED.at(reason=reason, log=str(self.log))
        return SetupError(replace(problem, detail=text))


def launch(
    settings: Mapping[str, str], *, java: Java, log_folder: Path, stdout: Callable[[str], None]
) -> JvmProcess:
    """Start the process; it is not known yet whether the JVM will run."""
    given = _given_arguments()
    log, began = open_log(log_folder)
    output = OutputReader(stdout, log)
    folder: Path | None = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="headwater-"))  # made with mode 0700
        properties = _write_properties(folder / "spark.properties", settings, given)
        home = spark_home()
        command = [str(home / "bin" / "spark-submit"), *_submit_arguments(given, properties)]
        environ = _child_environment(settings, java, home, log_folder)
        environ["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(folder / _ANSWER)
        with log.open("ab") as errors:
            popen = subprocess.Popen(
                command,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=output.writer,
                stderr=errors,
                start_new_session=True,
                preexec_fn=_ignore_interrupts,
            )
    except BaseException as error:
        output.finish()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            problem = environment.JVM_START_FAILED.at(reason=error.strerror or str(error), log=str(log))
            raise SetupError(problem) from error
        raise
    return JvmProcess(popen, output, log, began, folder)


def has_jvm() -> bool:
    """Whether this Python has a Spark already: the one of spark-submit, or one that other code started."""
    pyspark = sys.modules.get("pyspark")
    context = getattr(pyspark, "SparkContext", None)
    started = context is not None and (context._active_spark_context or context._gateway)
    return "PYSPARK_GATEWAY_PORT" in os.environ or bool(started)


def spark_home(environ: Mapping[str, str] = os.environ) -> Path:
    """The directory of the Spark that PySpark starts: SPARK_HOME, or the one in the package."""
    named, spec = environ.get("SPARK_HOME"), importlib.util.find_spec("pyspark")
    if named:
        return Path(named)
    package = Path(spec.origin).parent if spec is not None and spec.origin else None
    if package is not None and (package / "bin" / "spark-submit").is_file():
        return package
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())  # type: ignore[no-untyped-call]


def find_class_data(settings: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> ClassData | None:
    """The archive of classes for a start with these settings on this machine."""
    java, home = find_java(environ), spark_home(environ)
    return class_data.find(java, home, settings, jvm_environment(settings, java, home, environ))


def is_local(master: str) -> bool:
    """Whether a master does all its work on this machine."""
    # `local-cluster[…]` starts workers on this machine too.
    return master == "local" or master.startswith(("local[", "local-cluster["))


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def jvm_environment(
    settings: Mapping[str, str], java: Java, home: Path, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The environment in which the JVM starts, without its options."""
    changes = {
        "JAVA_HOME": str(java.home),
        # Otherwise, Spark's script starts a Python to find it.
        "SPARK_HOME": str(home),
        "SPARK_LAUNCHER_OPTS": f"{_launcher_options(home)} {environ.get('SPARK_LAUNCHER_OPTS', '')}".strip(),
        "SPARK_CONNECT_MODE": "0",
        # Spark runs small Python programs next to the driver, in client mode on this machine. Users often
        # set this to `jupyter`.
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **class_path(environ),
    }
    if is_local(settings.get("spark.master", "")):
        # Without this Spark looks the machine's own name up, which fails on some laptops when offline.
        changes["SPARK_LOCAL_IP"] = environ.get("SPARK_LOCAL_IP", LOOPBACK)
    return {**environ, **changes}


def _launcher_options(home: Path) -> str:
    """Options for the small JVM in which Spark's shell script computes the command line of the real one.

    No collector: Java does not start with two, and JAVA_TOOL_OPTIONS may name one. With its jar on the boot class
    path, this JVM does not search all of Spark's jars. The shell splits the options at spaces.
    """
    (jar, *_) = (*(home / "jars").glob("spark-launcher_*.jar"), None)
    boot = [f"-Xbootclasspath/a:{jar}"] if jar is not None and not re.search(r"\s", str(jar)) else []
    return " ".join(["-XX:TieredStopAtLevel=1", *boot])


def _child_environment(
    settings: Mapping[str, str], java: Java, home: Path, log_folder: Path
) -> dict[str, str]:
    environ = jvm_environment(settings, java, home)
    archive = class_data.find(java, home, settings, environ)
    if archive is not None and not archive.is_complete:
        class_data.note_missing(archive, settings)
        archive = None
    return {**environ, "SPARK_SUBMIT_OPTS": _java_options(log_folder, archive)}


def _java_options(log_folder: Path, archive: ClassData | None) -> str:
    # By default, Java writes its own warnings and fatal errors to standard output, among the rows of the
    # console sink. Whatever the user sets comes later on the command line and wins. Java
    # ignores an archive of classes that does not match, so it need not warn about it.
    ours = [
        f"-Dlog4j.configurationFile={prepare_logging(log_folder)}",
        "-XX:+DisplayVMOutputToStderr",
        "-Xlog:disable",
        "-Xlog:all=warning,cds*=off,class+path=off:stderr",
        "-Dstdout.encoding=UTF-8",
        "-Dsun.stdout.encoding=UTF-8",
    ]
    if archive is not None:
        ours.append(f'"-XX:SharedArchiveFile={archive.use()}"')
    return " ".join([*ours, os.environ.get("SPARK_SUBMIT_OPTS", "")]).strip()


def _given_arguments() -> list[str]:
    text = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    try:
        return shlex.split(text)
    except ValueError as error:
        problem = environment.SUBMIT_ARGS_INVALID.at(text=text, reason=str(error))
        raise SetupError(problem) from error


def _submit_arguments(given: list[str], properties: Path) -> list[str]:
    # The word `pyspark-shell` ends the options; of two properties files Spark reads the last.
    end = given.index("pyspark-shell") if "pyspark-shell" in given else len(given)
    ours = ["--properties-file", str(properties), "--load-spark-defaults", "pyspark-shell"]
    return [*given[:end], *ours, *given[end + 1 :]]


def _write_properties(file: Path, settings: Mapping[str, str], given: list[str]) -> Path:
    """The settings as a file that only we can read, there until the JVM has read it.

    Not as `--conf` arguments: those can be seen by every user of the machine for as long as the JVM runs, and
    a list of jars can be longer than one argument may be. A later line wins over an earlier one.
    """
    named = _named_file(given)
    lines = [
        *(_property(key, value) for key, value in _DEFAULTS.items()),
        *([named.read_text(encoding="utf-8"), ""] if named else []),
        *(_property(key, value) for key, value in settings.items()),
    ]
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return file


def _named_file(given: list[str]) -> Path | None:
    """The properties file that PYSPARK_SUBMIT_ARGS names."""
    named = None
    for word, following in pairwise([*given, ""]):
        if word == "--properties-file":
            named = Path(following)
        elif word.startswith("--properties-file="):
            named = Path(word.partition("=")[2])
    return named


def _property(key: str, value: str) -> str:
    """One line in the format of Java's properties files."""
    return f"{_escaped(key)}={_escaped(value)}"


def _escaped(text: str) -> str:
    special = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    return "".join(
        special.get(character, f"\\{character}" if character in " =:#!" else character) for character in text
    )
