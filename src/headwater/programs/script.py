"""Runs a plain script in a sandbox to collect its queries, and then ends all of its processes.

This module does not import PySpark; only the other process needs it.
"""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

from headwater.errors import Entry, Problem
from headwater.errors.catalogue import programs
from headwater.plan import QueryFacts
from headwater.programs.sandbox.launcher import FILES, MOUNTS, Kind
from headwater.spark.java import find_java
from headwater.values import Duration, Position
from headwater.values.secrets import hide

# The messages from the process of a checked script to its parent: lines of JSON.


@dataclass(frozen=True)
class Order:
    """The task of the process."""

    file: str
    arguments: tuple[str, ...]
    seconds: float
    scratch: str
    """The only directory in which its writes persist."""
    network: bool
    """Whether it can use the network."""
    settings: Mapping[str, str]


@dataclass(frozen=True)
class CapturedQuery:
    """A query that the script would have started."""

    facts: QueryFacts
    place: Position | None
    problems: tuple[Problem, ...] = ()
    doubts: tuple[Problem, ...] = ()
    """Problems that do not prevent the start but are most likely mistakes."""

    def to_json(self) -> dict[str, Any]:
        return {
            "facts": json.loads(self.facts.to_json()),
            "place": asdict(self.place) if self.place else None,
            "problems": [problem_to_json(problem) for problem in self.problems],
            "doubts": [problem_to_json(problem) for problem in self.doubts],
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> CapturedQuery:
        return cls(
            QueryFacts.from_json(json.dumps(told["facts"])),
            Position(**told["place"]) if told["place"] else None,
            tuple(map(problem_from_json, told["problems"])),
            tuple(map(problem_from_json, told["doubts"])),
        )


class Teller:
    """The script's end of the pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._turn = threading.Lock()

    def tell(self, **message: Any) -> None:
        """Send one complete message."""
        line = json.dumps(message, default=str).encode() + b"\n"
        # Several threads can send messages, and a long message is written in pieces.
        with self._turn:
            while line:
                line = line[os.write(self._descriptor, line) :]


def problem_to_json(problem: Problem) -> dict[str, Any]:
    """A problem with its template and parameters; `Problem.to_json` has only the final text."""
    place = problem.place
    return {
        "entry": asdict(problem.entry),
        "params": {
            key: value if isinstance(value, str | int | float | None) else str(value)
            for key, value in problem.params.items()
        },
        "place": {"file": place.file, "line": place.line, "column": place.column} if place else None,
        "detail": problem.detail,
    }


def problem_from_json(told: Mapping[str, Any]) -> Problem:
    place = Position(**told["place"]) if told["place"] else None
    return Problem(Entry(**told["entry"]), told["params"], place, told["detail"])


# The time limit of a checked script. The start of Spark and the analysis of queries do not count.

STANDSTILL_SECONDS = 600.0
"""The longest pause of the clock, in case Spark never starts or responds."""


class Clock:
    """A clock that can be paused, and is paused at first; `heard` is called on each change."""

    def __init__(
        self,
        seconds: float,
        heard: Callable[[bool], None] = lambda runs: None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._left, self._heard, self._now = seconds, heard, now
        self._changed = threading.Condition()
        self._holds, self._since = 1, now()

    @property
    def runs(self) -> bool:
        """Whether the time of the script is running."""
        return not self._holds

    def run(self) -> None:
        """Release one hold; the clock runs when there are none."""
        self._hold(-1)

    def stand(self) -> None:
        """Pause the clock until `run` has been called as often."""
        self._hold(1)

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Pause the clock in a block; several threads can do so."""
        self.stand()
        try:
            yield
        finally:
            self.run()

    def left(self) -> float:
        """The remaining seconds, if the clock keeps its current state."""
        with self._changed:
            allowed = STANDSTILL_SECONDS if self._holds else self._left
            return allowed - (self._now() - self._since)

    def wait_until_over(self) -> None:
        """Wait until no time is left."""
        with self._changed:
            while (left := self.left()) > 0:
                self._changed.wait(left)

    def _hold(self, change: int) -> None:
        with self._changed:
            before, self._holds = self._holds, self._holds + change
            if bool(before) == bool(self._holds):
                return
            if not before:
                self._left -= self._now() - self._since
            self._since = self._now()
            self._heard(not self._holds)
            self._changed.notify_all()


KINDS = tuple(Kind) if sys.platform == "linux" else (Kind.NONE,)
"""The sandboxes to try, strongest first."""
_PACKAGES = str(Path(__file__).parents[2])
_LAUNCH = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from headwater.programs.sandbox.launcher import main; main()"
)
_START = "from headwater.programs.child import main; main()"
# After the timeout: the time to report the line reached, and to exit gracefully.
_GRACE_SECONDS = 5.0
# The launcher needs milliseconds to kill all processes, longer if the kernel cannot end one immediately.
_KILL_SECONDS = 30.0
_MOST_OUTPUT = 20_000
_WAREHOUSE = "spark-warehouse"
_LOOPBACK = "127.0.0.1"
_CUT_OFF = re.compile(
    r".*(UnknownHostException|ConnectException|NoRouteToHostException|Connection refused"
    r"|Network is unreachable|Name or service not known|name resolution|unresolved dependency"
    r"|Max retries exceeded).*"
)
_NOT_PREVENTED = {
    Kind.LANDLOCK: (
        "with Landlock only",
        "network connections of its JVM, its Python workers and other processes that it started, or (before "
        "Linux 6.12) signals to other processes",
    ),
    Kind.NONE: (
        "without an operating-system sandbox",
        "writes and network connections of its JVM, its Python workers and other processes that it started, "
        "signals to other processes, or (on macOS) daemons that outlive the check",
    ),
}
_NO_GATEWAY = "JAVA_GATEWAY_EXITED"
_BY_SIGNAL = 128


@dataclass
class ScriptRun:
    """The result of a script: the queries it would have started, and why it ended early, if it did."""

    queries: list[CapturedQuery] = field(default_factory=list)
    problem: Problem | None = None
    weakness: Problem | None = None
    """What the sandbox of this machine could not prevent."""
    notes: list[Problem] = field(default_factory=list)
    """Other side effects that the script would have had."""
    declares: bool = False
    """Whether it created a Headwater pipeline."""
    spark: bool = False
    """Whether it used Spark."""
    ended: bool = False
    output: str = ""
    """The output of the script and its Spark."""


def run_script(
    file: str,
    arguments: tuple[str, ...],
    seconds: float,
    settings: Mapping[str, str],
    network: bool = False,
) -> ScriptRun:
    """Run a script with all starts and writes intercepted; it is ended after the timeout."""
    run = ScriptRun()
    with tempfile.TemporaryDirectory(prefix="headwater-script-", ignore_cleanup_errors=True) as scratch:
        # Mounts are identified by their real paths.
        base = Path(scratch).resolve()
        for name in (FILES, MOUNTS):
            (base / name).mkdir()
        # With only loopback, Spark must be configured to use no other address.
        alone = {} if network else {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
        order = Order(file, arguments, seconds, str(base / FILES), network, {**alone, **settings})
        with (base / "output").open("w+b") as printed:
            with _process(order, base, printed) as (process, pipe):
                _listen(run, process, pipe, Clock(seconds))
            run.output = _tail(printed)
        _conclude(run, process.returncode, order)
    return run


@contextmanager
def _process(order: Order, base: Path, printed: BinaryIO) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The launcher of the sandbox; when its standard input closes, it ends all processes of the script."""
    ours, theirs = os.pipe()
    # -P: do not import modules from the current directory.
    command = [sys.executable, "-P", "-c", _START, str(theirs), json.dumps(asdict(order))]
    sandbox = {
        "command": command,
        "kinds": KINDS,
        "scratch": str(base),
        "own": sorted({os.getcwd(), os.path.dirname(os.path.realpath(order.file)), os.path.expanduser("~")}),
        "network": order.network,
        "parent": os.getpid(),
    }
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LAUNCH, _PACKAGES, json.dumps(sandbox)],
            stdin=subprocess.PIPE,
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
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment(order: Order) -> dict[str, str]:
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    # Spark creates its warehouse directory on first use: not in the user's directory, unless it exists there.
    ours = {} if os.path.exists(_WAREHOUSE) else {"spark.sql.warehouse.dir": f"{order.scratch}/{_WAREHOUSE}"}
    settings = {"spark.ui.showConsoleProgress": "false", **ours, **order.settings}
    conf = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    # A process started by spark-submit has the address of its own JVM, which the script must not use.
    outside = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_GATEWAY_")}
    java = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Djava.io.tmpdir={shlex.quote(order.scratch)}".strip()
    return {
        **outside,
        **({} if order.network else {"SPARK_LOCAL_IP": _LOOPBACK, "SPARK_LOCAL_HOSTNAME": "localhost"}),
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_SUBMIT_ARGS": f"{shlex.join(conf)} {given}".strip(),
        "PYTHONUNBUFFERED": "1",
        "SPARK_LOCAL_DIRS": order.scratch,
        "SPARK_SUBMIT_OPTS": java,
        "TMPDIR": order.scratch,
    }


def _tail(printed: BinaryIO) -> str:
    """The end of the output."""
    end = printed.seek(0, os.SEEK_END)
    printed.seek(max(0, end - 4 * _MOST_OUTPUT))
    return printed.read().decode("utf-8", errors="replace")[-_MOST_OUTPUT:]


def _listen(run: ScriptRun, process: subprocess.Popen[bytes], pipe: int, clock: Clock) -> None:
    """Receive the messages of the script until it ends or times out; the clock follows the script's clock."""
    held = b""
    while not run.ended:
        ready, _, _ = select.select([pipe], [], [], max(0.0, clock.left() + _GRACE_SECONDS))
        told = os.read(pipe, 65536) if ready else b""
        if not told:
            return
        *lines, held = (held + told).split(b"\n")
        for line in lines:
            # A script that finds the pipe could write anything to it.
            with suppress(ValueError, KeyError, TypeError):
                _take(run, json.loads(line), clock)
    # Exit handlers belong to the script, so wait for them if there is time.
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, min(clock.left(), _GRACE_SECONDS)))


def _take(run: ScriptRun, message: Mapping[str, Any], clock: Clock) -> None:
    match message["kind"]:
        case "clock" if message["runs"]:
            clock.run()
        case "clock":
            clock.stand()
        case "sandbox" if (kind := Kind(message["sandbox"])) in _NOT_PREVENTED:
            sandbox, effects = _NOT_PREVENTED[kind]
            run.weakness = programs.SCRIPT_WEAK_SANDBOX.at(None, sandbox=sandbox, effects=effects)
        case "hide":
            hide(*message["values"])
        case "query":
            run.queries.append(CapturedQuery.from_json(message["query"]))
        case "note":
            problem = problem_from_json(message["problem"])
            if problem not in run.notes:
                run.notes.append(problem)
        case "failed" | "late":
            run.problem = problem_from_json(message["problem"])
            run.ended = message["kind"] == "late"
        case "done":
            run.declares, run.spark, run.ended = message["declares"], message["spark"], True


def _conclude(run: ScriptRun, code: int, order: Order) -> None:
    """Explain why a process ended without a final message, and attach the output to the problem."""
    if run.problem is None and not run.ended and code != 0:
        run.problem = _gone(run, code, order)
    if run.problem is not None:
        problem = run.problem if order.network else _cut_off(run.problem, run.output)
        if problem.entry == programs.SCRIPT_EXIT and not problem.params["says"]:
            problem = replace(problem, params={**problem.params, "says": _complaint(run.output)})
        run.problem = replace(problem, detail=f"{problem.detail}\n{run.output}".strip())


def _cut_off(problem: Problem, output: str) -> Problem:
    """Replace a failure caused by the blocked network with one whose hint allows it."""
    told = f"{problem.detail}\n{output}" if _NO_GATEWAY in problem.detail else problem.detail
    found = _CUT_OFF.search(told) if problem.entry == programs.SCRIPT_FAILED else None
    if found is None:
        return problem
    return replace(
        programs.SCRIPT_NETWORK.at(problem.place, error=found[0].strip(" .:")), detail=problem.detail
    )


def _gone(run: ScriptRun, code: int, order: Order) -> Problem:
    number = abs(code) if code < 0 else code - _BY_SIGNAL
    if number == signal.SIGKILL:
        time, reached = str(Duration(int(order.seconds * 1000))), "the line that it had reached is unknown"
        return programs.SCRIPT_TIMEOUT.at(None, seconds=time, file=order.file, reached=reached)
    signals = {int(each): each.name for each in signal.Signals}
    how = f"was killed by {signals[number]}" if number in signals else f"exited with code {code}"
    lines = [line.strip() for line in run.output.splitlines() if line.strip()]
    says = f": {lines[-1].rstrip('.')}" if lines else ""
    return programs.SCRIPT_DIED.at(None, how=how, says=says)


def _complaint(output: str) -> str:
    """The last error that argparse printed before it exited."""
    found = [line for line in output.splitlines() if "error: " in line]
    return f": {found[-1].partition('error: ')[2].rstrip('.')}" if found else ""
