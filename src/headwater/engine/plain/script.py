"""A plain script, run for its queries: in a process of its own, which can be ended with its Spark.

Nothing of PySpark is loaded here; only the other process needs it.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from headwater.engine.java import find_java
from headwater.engine.plain.clock import Clock
from headwater.engine.plain.messages import Caught, Order, problem_from_json
from headwater.errors import Problem
from headwater.errors.catalogue import programs
from headwater.values import Duration
from headwater.values.secrets import hide

_START = "from headwater.engine.plain.child import main; main()"
# Beyond the deadline: the time to tell the line that was reached, and to leave in good order.
_GRACE_SECONDS = 5.0
_MOST_OUTPUT = 20_000
_WAREHOUSE = "spark-warehouse"


@dataclass
class ScriptRun:
    """What a script did: the queries it would have started, and why it ended early if it did."""

    queries: list[Caught] = field(default_factory=list)
    problem: Problem | None = None
    declares: bool = False
    """Whether it has made a pipeline of Headwater's after all."""
    spark: bool = False
    """Whether it has used Spark at all."""
    ended: bool = False
    output: str = ""
    """What it and its Spark have printed."""


def run_script(
    file: str, arguments: tuple[str, ...], seconds: float, settings: Mapping[str, str]
) -> ScriptRun:
    """Run a script with everything caught that starts or writes; after the deadline it is ended."""
    run = ScriptRun()
    with tempfile.TemporaryDirectory(prefix="headwater-script-") as scratch:
        order = Order(file, arguments, seconds, scratch, settings)
        output = Path(scratch) / "output"
        with output.open("wb") as printed, _process(order, printed) as (process, pipe):
            _listen(run, process, pipe, Clock(seconds))
        run.output = output.read_text(encoding="utf-8", errors="replace")[-_MOST_OUTPUT:]
        _conclude(run, process.returncode, order)
    return run


@contextmanager
def _process(order: Order, printed: Any) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The script's process as the leader of a group, which its JVM joins; all of it is ended at last."""
    ours, theirs = os.pipe()
    try:
        process = subprocess.Popen(
            # -P: the folder from which the command was typed is none from which modules are taken.
            [sys.executable, "-P", "-c", _START, str(theirs), json.dumps(asdict(order))],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs,),
            start_new_session=True,
            env=_environment(order),
        )
    finally:
        os.close(theirs)
    try:
        yield process, ours
    finally:
        os.close(ours)
        _end(process)


def _environment(order: Order) -> dict[str, str]:
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    # Spark makes the folder of its tables when it is asked for any; not in the user's folder, if not there.
    ours = {} if os.path.exists(_WAREHOUSE) else {"spark.sql.warehouse.dir": f"{order.scratch}/{_WAREHOUSE}"}
    settings = {"spark.ui.showConsoleProgress": "false", **ours, **order.settings}
    conf = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    # A process that spark-submit has started holds the way to its own JVM, which is not for the script.
    outside = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_GATEWAY_")}
    return {
        **outside,
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_SUBMIT_ARGS": f"{shlex.join(conf)} {given}".strip(),
        "PYTHONUNBUFFERED": "1",
    }


def _listen(run: ScriptRun, process: subprocess.Popen[bytes], pipe: int, clock: Clock) -> None:
    """Take in what the script's process tells, up to its end or the deadline; the clock follows its own."""
    held = b""
    while not run.ended:
        ready, _, _ = select.select([pipe], [], [], max(0.0, clock.left() + _GRACE_SECONDS))
        told = os.read(pipe, 65536) if ready else b""
        if not told:
            return
        *lines, held = (held + told).split(b"\n")
        for line in lines:
            _take(run, json.loads(line), clock)
    # What a script leaves to do at its exit belongs to it, as far as there is time.
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, min(clock.left() + _GRACE_SECONDS, _GRACE_SECONDS)))


def _take(run: ScriptRun, message: Mapping[str, Any], clock: Clock) -> None:
    match message["kind"]:
        case "clock" if message["runs"]:
            clock.run()
        case "clock":
            clock.stand()
        case "hide":
            hide(*message["values"])
        case "query":
            run.queries.append(Caught.from_json(message["query"]))
        case "failed" | "late":
            run.problem = problem_from_json(message["problem"])
            run.ended = message["kind"] == "late"
        case "done":
            run.declares, run.spark, run.ended = message["declares"], message["spark"], True


def _conclude(run: ScriptRun, code: int, order: Order) -> None:
    """Say why a process is gone that has not told its end; all that was printed is behind a problem."""
    if run.problem is None and not run.ended and code != 0:
        run.problem = _gone(run, code, order)
    if run.problem is not None:
        problem = run.problem
        if problem.entry == programs.SCRIPT_EXIT and not problem.params["says"]:
            problem = replace(problem, params={**problem.params, "says": _complaint(run.output)})
        run.problem = replace(problem, detail=f"{problem.detail}\n{run.output}".strip())


def _gone(run: ScriptRun, code: int, order: Order) -> Problem:
    if code == -signal.SIGKILL:
        time = str(Duration(int(order.seconds * 1000)))
        return programs.SCRIPT_DEADLINE_NOWHERE.at(None, seconds=time, file=order.file)
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    lines = [line.strip() for line in run.output.splitlines() if line.strip()]
    says = f": {lines[-1].rstrip('.')}" if lines else ""
    return programs.SCRIPT_DIED.at(None, how=how, says=says)


def _complaint(output: str) -> str:
    """What argparse, which ends a program by itself, has printed last."""
    found = [line for line in output.splitlines() if "error: " in line]
    return f": {found[-1].partition('error: ')[2].rstrip('.')}" if found else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the script, its JVM and whatever else is in their group."""
    # A JVM whose Python is gone leaves by itself and takes its passing files along.
    _signal(process.pid, signal.SIGTERM if process.poll() is None else 0)
    until = monotonic() + _GRACE_SECONDS
    while monotonic() < until and _signal(process.pid, 0):
        process.poll()
        sleep(0.02)
    _signal(process.pid, signal.SIGKILL)
    process.wait()


def _signal(group: int, number: int) -> bool:
    """Whether there was anybody to get the signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
