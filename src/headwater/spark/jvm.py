"""Starts Spark's JVM in a separate session, and stops it.

The JVM is a child in another session and process group, so a signal to ours (Ctrl-C in a terminal, SIGTERM
from a supervisor) reaches only Python, which then lets the current batch commit. In the other direction, a
pipe is used: the JVM reads its standard input and exits when Python is gone, for any reason.

The JVM never writes to the terminal directly: standard error (Spark's log) is appended to `spark.log`, and
standard output (the console sink) is passed to the caller line by line.
"""

from __future__ import annotations

import logging
import os
import shlex
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from headwater.errors import SetupError
from headwater.errors.catalogue import environment
from headwater.spark.java import Java
from headwater.spark.jvm_log import LOG, find_reason, open_log, prepare_logging
from headwater.spark.session import prevent_search
from headwater.values.processes import process_start_time

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
_LOOPBACK = "127.0.0.1"
_STOP_SECONDS = 30.0
_PACKAGES = (
    "java.lang",
    "java.util",
    "org.apache.spark.api.python",
    "org.apache.spark.sql.catalyst.analysis",
    "org.apache.spark.sql.catalyst.optimizer",
    "org.apache.spark.sql.catalyst.plans.logical",
    "org.apache.spark.sql.catalyst.plans.physical",
    "org.apache.spark.sql.catalyst.planning",
    "org.apache.spark.sql.classic",
    "org.apache.spark.sql.execution.datasources",
    "org.apache.spark.sql.execution.streaming",
    "org.apache.spark.sql.internal",
    "org.apache.spark.sql.streaming",
    "org.apache.spark.util",
    "py4j.reflection",
    "scala.collection.immutable",
    "scala.jdk.javaapi",
)
_PY4J_LOGGERS = ("", "py4j.clientserver", "py4j.java_gateway")


@dataclass(frozen=True)
class Jvm:
    """A running Spark context and the JVM behind it; `owned` says whether this run started that JVM.

    `pid` and `start_time` name the JVM's process for a lock file; both are None when this Python did not
    start it.
    """

    context: SparkContext
    owned: bool
    pid: int | None = None
    start_time: str | None = None
    _process: _Process | None = field(default=None, repr=False)
    _made_context: bool = field(default=True, repr=False)

    def stop(self, timeout: float = _STOP_SECONDS) -> None:
        """Stop the context, then the JVM if it is ours; one that takes longer than `timeout` is killed."""
        if not self._made_context:
            return
        stopping = _stop_context(self.context, reachable=self._process is None or self._process.runs)
        stopping.join(timeout)
        if self._process is not None:
            self._process.end(0 if stopping.is_alive() else timeout)
            stopping.join(timeout)
            self._process.forget()

    def kill(self) -> None:
        """Kill the JVM immediately if it is ours; the current batch does not commit."""
        if self._process is not None:
            self._process.end(0)
            _stop_context(self.context, reachable=False).join(_STOP_SECONDS)
            self._process.forget()


def start_context(
    settings: Mapping[str, str], *, java: Java, log_folder: Path, stdout: Callable[[str], None]
) -> Jvm:
    """A Spark context with these settings: in a new JVM, or in the one that is already there.

    Under spark-submit, or when this Python already has a context, that one is used and nothing is started.
    """
    running = SparkContext._active_spark_context
    if running is not None:
        pid = _child_pid(SparkContext._gateway)
        start_time = process_start_time(pid) if pid else None
        return Jvm(running, owned=False, pid=pid, start_time=start_time, _made_context=False)
    log = log_folder / LOG
    if "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None:
        SparkContext._ensure_initialized()
        return Jvm(_make_context(SparkContext._gateway, settings, log), owned=False)
    process = _launch(settings, java, log_folder, stdout)
    try:
        context = _make_context(process.gateway, settings, log)
    except BaseException:
        process.end(0)
        process.forget()
        raise
    pid = process.popen.pid
    return Jvm(context, owned=True, pid=pid, start_time=process_start_time(pid), _process=process)


def _child_pid(gateway: Any) -> int | None:
    """The JVM that this Python process started for any caller; it exits soon after Python."""
    process = getattr(gateway, "proc", None)
    return process.pid if process is not None else None


@dataclass(frozen=True)
class _Process:
    """The JVM's process with its gateway and the thread that reads its output."""

    gateway: Any
    popen: subprocess.Popen[bytes]
    output: OutputReader

    @property
    def runs(self) -> bool:
        return self.popen.poll() is None

    def end(self, timeout: float) -> None:
        """Let the JVM leave within the time, and kill it after."""
        # End of its input is the JVM's sign to leave; it still runs its shutdown hooks then.
        if self.popen.stdin is not None:
            self.popen.stdin.close()
        try:
            self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()

    def forget(self) -> None:
        """Leave nothing behind, so that a later start gets a JVM of its own."""
        self.output.finish()
        self.gateway.close()
        logging.getLogger().removeFilter(_is_not_py4j)
        with SparkContext._lock:
            if SparkContext._gateway is self.gateway:
                SparkContext._gateway = None
                SparkContext._jvm = None


def _is_not_py4j(record: logging.LogRecord) -> bool:
    # When the JVM is gone Py4J writes a traceback to the root logger, and so onto the terminal, before it
    # raises the error that says the same. What user code raises, it writes to a logger of its own; threads
    # that still run such code when the JVM is forgotten do that too, so only the root logger is given back.
    return Path(record.pathname).parent.name != "py4j"


def _launch(
    settings: Mapping[str, str], java: Java, log_folder: Path, stdout: Callable[[str], None]
) -> _Process:
    log, began = open_log(log_folder)
    output = OutputReader(stdout, log)
    try:
        with log.open("ab") as errors, _child_environment(settings, java, log_folder):
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                popen_kwargs={"start_new_session": True, "stdout": output.writer, "stderr": errors}
            )
    except (PySparkRuntimeError, OSError) as error:
        output.finish()
        reason, text = find_reason(log, began)
        problem = environment.JVM_START_FAILED.at(reason=reason or _first_line(error), log=str(log))
        raise SetupError(replace(problem, detail=text)) from error
    except BaseException:
        output.finish()
        raise
    output.forward()
    for name in _PY4J_LOGGERS:
        logging.getLogger(name).addFilter(_is_not_py4j)
    return _Process(gateway, gateway.proc, output)


@contextmanager
def _child_environment(settings: Mapping[str, str], java: Java, log_folder: Path) -> Iterator[None]:
    """The environment in which the JVM starts; ours is as before when it has started."""
    given = _given_arguments()
    with _properties_file(settings, given) as properties:
        changes = {
            "JAVA_HOME": str(java.home),
            "PYSPARK_SUBMIT_ARGS": shlex.join(_submit_arguments(given, properties)),
            "SPARK_SUBMIT_OPTS": _java_options(log_folder),
            # Spark runs small Python programs next to the driver, in client mode on this machine. Users often
            # set this to `jupyter`.
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        if is_local(settings.get("spark.master", "")):
            # Without this Spark looks the machine's own name up, which fails on some laptops when offline.
            changes["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", _LOOPBACK)
        with _environ(changes):
            yield


def _java_options(log_folder: Path) -> str:
    # What the machine itself has to say (warnings, fatal errors) would go to standard output, among the
    # console sink's rows. Whatever the user sets comes later on the command line and wins.
    ours = [
        f"-Dlog4j.configurationFile={prepare_logging(log_folder)}",
        "-XX:+DisplayVMOutputToStderr",
        "-Xlog:disable",
        "-Xlog:all=warning:stderr",
        "-Dstdout.encoding=UTF-8",
        "-Dsun.stdout.encoding=UTF-8",
    ]
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


@contextmanager
def _properties_file(settings: Mapping[str, str], given: list[str]) -> Iterator[Path]:
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
    handle, name = tempfile.mkstemp(prefix="headwater-", suffix=".properties")  # made with mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("\n".join([*lines, ""]))
        yield Path(name)
    finally:
        os.unlink(name)


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


def _make_context(gateway: Any, settings: Mapping[str, str], log: Path) -> SparkContext:
    conf = SparkConf(_jvm=gateway.jvm)
    for key, value in settings.items():
        conf.set(key, value)
    # Asked only now, since the master may also come from spark-submit or from spark-defaults.conf.
    master = conf.get("spark.master", "") or ""
    python = _use_this_machine(conf) if is_local(master) else {}
    try:
        with _environ(python), _kept_interrupt_handler():
            context = SparkContext(conf=conf, gateway=gateway)
            _name_packages(context._jvm)
            prevent_search(context)
    except (Py4JError, PySparkRuntimeError) as error:
        problem = environment.SPARK_START_FAILED.at(master=master, reason=_first_line(error), log=str(log))
        raise SetupError(replace(problem, detail=str(error))) from error
    expect_closed_connections(context._accumulatorServer)
    return context


def _name_packages(jvm: Any) -> None:
    """Tell py4j what is a package. It asks for each part of a name, each time that the name is used, and the
    JVM then looks into every jar for a class that is called so."""
    for name in _PACKAGES:
        parent, path = jvm, ""
        for part in name.split("."):
            path = f"{path}.{part}" if path else part
            parent = vars(parent).setdefault(part, JavaPackage(path, jvm._gateway_client, jvm._id))


def expect_closed_connections(server: socketserver.BaseServer) -> None:
    """Make PySpark's accumulator server treat a closed connection as the exit of the JVM.

    Otherwise, it prints a traceback to standard error whenever the JVM stops, is killed or dies.
    """
    report = server.handle_error

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            report(request, client_address)

    server.handle_error = handle_error  # type: ignore[method-assign]


def is_local(master: str) -> bool:
    """Whether a master does all its work on this machine."""
    # `local-cluster[…]` starts workers on this machine too.
    return master == "local" or master.startswith(("local[", "local-cluster["))


def _use_this_machine(conf: SparkConf) -> dict[str, str]:
    """Settings of a local master, which works without a network and with this very Python."""
    conf.setIfMissing("spark.driver.host", _LOOPBACK)
    conf.setIfMissing("spark.driver.bindAddress", _LOOPBACK)
    conf.set("spark.pyspark.python", sys.executable)
    return {"PYSPARK_PYTHON": sys.executable}


@contextmanager
def _kept_interrupt_handler() -> Iterator[None]:
    """Undo PySpark's own handler of SIGINT, which cancels every job: stopping is for the caller to order."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        # Only the main thread can have had it changed, and only there can it be set.
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def _environ(changes: Mapping[str, str]) -> Iterator[None]:
    # PySpark copies our environment for the JVM and has no parameter for it.
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _stop_context(context: SparkContext, reachable: bool) -> threading.Thread:
    """Stop it in a thread, since a JVM that hangs must not hang us."""
    if not reachable:
        # Without its Java half only what the context holds in this process is left to be stopped.
        context._jsc = None

    def stop() -> None:
        with warnings.catch_warnings():
            # PySpark warns when the JVM is gone meanwhile; that is no news here.
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                context.stop()
            except (Py4JError, OSError):
                # The JVM died while it was asked. The context has let go of it by now; what it holds in
                # this process is still to be stopped, or the next start would take it for a running one.
                context.stop()

    thread = threading.Thread(target=stop, name="headwater-stop-spark", daemon=True)
    thread.start()
    return thread


def _first_line(error: Exception) -> str:
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    return text.strip().partition("\n")[0].rstrip(".")
