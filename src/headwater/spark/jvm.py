"""Connects to Spark's JVM, makes the Spark context in it, and stops both."""

from __future__ import annotations

import logging
import os
import signal
import socketserver
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
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
from headwater.spark.jvm_log import LOG
from headwater.spark.launch import LOOPBACK, JvmProcess, is_local, launch
from headwater.spark.local_files import is_one_jvm, use_local_files
from headwater.spark.private import scala_object, stopped_in_jvm
from headwater.spark.session import prevent_search
from headwater.values.processes import is_alive, process_start_time

_STOP_SECONDS = 30.0
_PACKAGES = (
    "headwater.queries",
    "java.lang",
    "java.util",
    "org.apache.hadoop.conf",
    "org.apache.hadoop.fs",
    "org.apache.spark.api.python",
    "org.apache.spark.sql.catalyst.analysis",
    "org.apache.spark.sql.catalyst.expressions",
    "org.apache.spark.sql.catalyst.optimizer",
    "org.apache.spark.sql.catalyst.plans.logical",
    "org.apache.spark.sql.catalyst.plans.physical",
    "org.apache.spark.sql.catalyst.planning",
    "org.apache.spark.sql.catalyst.trees",
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
_SAMPLE = "SELECT a, count(*) AS n FROM t WHERE b > 1 GROUP BY a, window(c, '1 minute')"
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
    _connection: _Connection | None = field(default=None, repr=False)
    _made_context: bool = field(default=True, repr=False)

    @property
    def works(self) -> bool:
        """Whether our JVM runs, and Spark in it: a fatal error in one of its threads stops it."""
        if not (self.pid and self.start_time and is_alive(self.pid, self.start_time)):
            return False
        with suppress(Py4JError, OSError):
            return not stopped_in_jvm(self.context)
        return False

    def stop(self, timeout: float = _STOP_SECONDS) -> None:
        """Stop the context, then the JVM if it is ours; one that takes longer than `timeout` is killed."""
        if not self._made_context:
            return
        connection = self._connection
        stopping = _stop_context(self.context, reachable=connection is None or connection.process.runs)
        stopping.join(timeout)
        if connection is not None:
            connection.process.end(0 if stopping.is_alive() else timeout)
            stopping.join(timeout)
            connection.forget()

    def kill(self) -> None:
        """Kill the JVM immediately if it is ours; the current batch does not commit."""
        if self._connection is not None:
            self._connection.process.end(0)
            _stop_context(self.context, reachable=False).join(_STOP_SECONDS)
            self._connection.forget()


def start_context(
    settings: Mapping[str, str],
    *,
    java: Java,
    log_folder: Path,
    stdout: Callable[[str], None],
    launched: JvmProcess | None = None,
) -> Jvm:
    """A Spark context with these settings: in a new JVM, or in the one that is already there.

    Under spark-submit, or when this Python already has a context, that one is used and nothing is started.
    A JVM that the caller `launched` with these settings is used instead of a new one.
    """
    running = SparkContext._active_spark_context
    if launched is not None and (running is not None or SparkContext._gateway is not None):
        # Another thread was faster.
        launched.abandon()
    if running is not None:
        pid = _child_pid(SparkContext._gateway)
        start_time = process_start_time(pid) if pid else None
        return Jvm(running, owned=False, pid=pid, start_time=start_time, _made_context=False)
    log = log_folder / LOG
    if "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None:
        SparkContext._ensure_initialized()
        _name_packages(SparkContext._jvm)
        return Jvm(_make_context(SparkContext._gateway, settings, log, started=False), owned=False)
    process = launched or launch(settings, java=java, log_folder=log_folder, stdout=stdout)
    connection = _connect(process)
    _name_packages(connection.gateway.jvm)
    try:
        with _loaded_sql(connection.gateway):
            context = _make_context(connection.gateway, settings, log, started=True)
    except BaseException:
        process.end(0)
        connection.forget()
        raise
    pid = process.popen.pid
    return Jvm(context, owned=True, pid=pid, start_time=process_start_time(pid), _connection=connection)


def _child_pid(gateway: Any) -> int | None:
    """The JVM that this Python process started for any caller; it exits soon after Python."""
    process = getattr(gateway, "proc", None)
    return process.pid if process is not None else None


@dataclass(frozen=True)
class _Connection:
    """A JVM that this Python started, and the gateway to it."""

    process: JvmProcess
    gateway: Any

    def forget(self) -> None:
        """Leave nothing behind, so that a later start gets a JVM of its own."""
        self.process.output.finish()
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


def _connect(process: JvmProcess) -> _Connection:
    """The gateway of a JVM that was launched, once it listens; SetupError if it does not start."""
    port, secret = process.address()
    try:
        # With these PySpark connects to a JVM instead of starting one.
        with _environ({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
    except BaseException:
        process.abandon()
        raise
    gateway.proc = process.popen
    for name in _PY4J_LOGGERS:
        logging.getLogger(name).addFilter(_is_not_py4j)
    return _Connection(process, gateway)


@contextmanager
def _loaded_sql(gateway: Any) -> Iterator[None]:
    """Let the JVM load Spark's SQL classes while the block creates the context, which uses one core.

    They are loaded when the block ends: afterwards, another thread might initialize the same classes.
    """

    def load() -> None:
        # TypeError: this Spark has other names for them, and loads them when it needs them.
        with suppress(Py4JError, TypeError):
            load_sql(gateway.jvm)

    thread = threading.Thread(target=load, name="headwater-sql-classes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def load_sql(jvm: Any) -> str:
    """Load the functions and the parser of SQL, which takes half a second; returns the plan of a sample."""
    sql = jvm.org.apache.spark.sql
    scala_object(sql.catalyst.analysis, "FunctionRegistry")
    return str(sql.execution.SparkSqlParser().parsePlan(_SAMPLE).toString())


def _make_context(gateway: Any, settings: Mapping[str, str], log: Path, *, started: bool) -> SparkContext:
    conf = SparkConf(_jvm=gateway.jvm)
    for key, value in settings.items():
        conf.set(key, value)
    # Asked only now, since the master may also come from spark-submit or from spark-defaults.conf.
    master = conf.get("spark.master", "") or ""
    python = _use_this_machine(conf) if is_local(master) else {}
    if started and is_one_jvm(master):
        use_local_files(conf, gateway.jvm)
    try:
        with _environ(python), _kept_interrupt_handler():
            context = SparkContext(conf=conf, gateway=gateway)
            prevent_search(context)
    except (Py4JError, PySparkRuntimeError) as error:
        problem = environment.SPARK_START_FAILED.at(master=master, reason=_first_line(error), log=str(log))
        raise SetupError(replace(problem, detail=str(error))) from error
    expect_closed_connections(context._accumulatorServer)
    return context


def _name_packages(jvm: Any) -> None:
    """Tell py4j which names are packages.

    Otherwise, it asks the JVM about each part of a name at each use, and the JVM searches every jar for a class
    with that name.
    """
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


def _use_this_machine(conf: SparkConf) -> dict[str, str]:
    """Settings of a local master, which works without a network and with this very Python."""
    conf.setIfMissing("spark.driver.host", LOOPBACK)
    conf.setIfMissing("spark.driver.bindAddress", LOOPBACK)
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
