"""The commands for runs in other processes, with their output. `FakeHost` stands for the runtime."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from rich.text import Text

from headwater.cli import control_views as views
from headwater.control.protocol import Endpoint
from headwater.control.registry import mark_ended, register
from headwater.events import QueryStatus
from headwater.events.kinds import Alert, EventsDropped, QueryTerminated
from tests.unit.cli.conftest import Headwater
from tests.unit.control.runs import AT, PROBLEM, finished, record, serving, started


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "run"


def running(run_dir: Path) -> str:
    return f"""\
orders: running since 2026-01-31T12:00:00Z (run r1, {run_dir})
  query   status   since                 batch  rows in  rows out  lag  restarts  health
  by_day  running  2026-01-31T12:00:00Z      0    1,204        10   30         0  ok
"""


ALERT = Alert(
    at=AT,
    query="by_day",
    alert="falling_behind",
    severity="critical",
    active=True,
    code="HW-FALLING-BEHIND",
    message="It is falling behind.",
    hint="Add cores.",
)


def test_the_status_of_a_run(headwater: Headwater, run_dir: Path) -> None:
    with serving(run_dir) as (host, _):
        answer = headwater("status", run_dir, "--check")
        assert (answer.code, answer.out, answer.err) == (0, running(run_dir), "")
        assert headwater("status", run_dir, "--json").json == host.view.to_json()


def test_the_status_says_which_events_are_missing(headwater: Headwater, run_dir: Path) -> None:
    with serving(run_dir) as (host, _):
        host.view.apply(EventsDropped(consumer="webhook", dropped=1))
        host.view.apply(EventsDropped(consumer="history", dropped=1_204))
        head, _, table = running(run_dir).partition("\n")
        answer = headwater("status", run_dir)
        assert answer.out == f"{head}\n  webhook: missed 1 event\n  history: missed 1,204 events\n{table}"
        assert headwater("status", run_dir, "--json").json["events_dropped"] == {
            "webhook": 1,
            "history": 1_204,
        }


def test_the_status_of_a_query(headwater: Headwater, run_dir: Path) -> None:
    with serving(run_dir) as (host, _):
        host.view.apply(QueryTerminated(at=AT, query="by_day", status=QueryStatus.FAILED, problem=PROBLEM))
        host.view.apply(ALERT)
        host.view.queries["by_day"].idle_inputs = ({"message": "Source `views` has no rows."},)
        host.view.queries["by_day"].held_back_by = ("views", "visits")
        host.view.queries["by_day"].waiting_files = {"/in": 2}
        answer = headwater("status", run_dir, "--query", "by_day")
        assert (answer.code, answer.err) == (0, "")
        assert (
            answer.out
            == f"""\
Query by_day of pipeline orders
  id            i1
  run id        q1
  status        failed since 2026-01-31T12:00:00Z
  health        critical
  sink          files, append mode, trigger every 10 seconds
  guarantee     exactly-once
  checkpoint
  restarts      0
  rows          1,204 in, 10 out, 3 late in deduplication
  last batch    0 at 2026-01-31T12:00:00Z, 412 ms, 1,204 rows in, 10 out
                addBatch 300 ms, queryPlanning 100 ms
  source        clicks: 1,204 rows in the last batch, lag 30 rows
                offset {{"clicks": {{"0": 70}}}}
  backlog       2 files in /in
  watermark     2026-01-31T11:50:00Z, held back by views, visits
                Source `views` has no rows.
  state         dedupe: 10 rows, 3.0 KiB
  last failure  2026-01-31T12:00:00Z HW-CONNECTION-FAILED {PROBLEM.message}
                {PROBLEM.hint}
  alert         critical HW-FALLING-BEHIND It is falling behind.
                Add cores.
"""
        )
        assert headwater("status", run_dir, "--query", "by_day", "--json").json["query"] == "by_day"


def test_the_runs_on_this_machine(headwater: Headwater, tmp_path: Path, run_dir: Path) -> None:
    assert headwater("status").out == "No runs are recorded on this machine.\n"
    ended = tmp_path / "ended"
    record(ended, started(ended, "r0") + finished("r0", QueryStatus.FAILED))
    register(ended, "orders", "r0")
    mark_ended(ended, "r0")
    with serving(run_dir):
        register(run_dir, "orders", "r1")
        answer = headwater("status")
        assert answer.out == (
            running(run_dir)
            + f"""
orders: failed at 2026-01-31T12:00:00Z (run r0, {ended})
  query   status  since                 batch  rows in  rows out  lag  restarts  health
  by_day  failed  2026-01-31T12:00:00Z      0    1,204        10   30         0  critical
  by_day: HW-CONNECTION-FAILED {PROBLEM.message}
"""
        )
        found = headwater("status", "--json").json
        assert (found["version"], [run["run_id"] for run in found["runs"]]) == (1, ["r1", "r0"])
        assert headwater("status", "--check").code == 1
        assert headwater("status", run_dir, "--check").code == 0


def test_check_fails_for_a_critical_alert_and_a_killed_run(headwater: Headwater, run_dir: Path) -> None:
    with serving(run_dir) as (host, _):
        host.view.apply(ALERT)
        answer = headwater("status", run_dir, "--check")
        assert answer.code == 1
        assert answer.out.splitlines()[-1] == ("  by_day: critical HW-FALLING-BEHIND It is falling behind.")
        assert headwater("status", run_dir, "--query", "by_day", "--check").code == 1
        assert headwater("status", run_dir).code == 0
    record(run_dir, started(run_dir))
    answer = headwater("status", run_dir, "--check")
    assert answer.code == 1
    assert (
        answer.out
        == f"""\
orders: killed (run r1, {run_dir})
  HW-RUN-KILLED Run r1 in {run_dir} ended without recording its end: its process was killed, or the machine stopped.
  {KILLED_HINT.format(run_dir=run_dir)}
  query   status  since                 batch  rows in  rows out  lag  restarts  health
  by_day  killed  2026-01-31T12:00:00Z      0    1,204        10   30         0  critical
"""
    )


KILLED_HINT = (
    "Start it again; every query that has a checkpoint resumes from it. To find the cause, run "
    "`headwater logs {run_dir}` and check the log of the system for a lack of memory."
)


@pytest.mark.parametrize(
    "command",
    [
        ("stop",),
        ("stop", "by_day"),
        ("restart", "by_day"),
        ("sql", "SELECT 1"),
    ],
)
def test_a_killed_run_cannot_be_controlled(
    headwater: Headwater, run_dir: Path, command: tuple[str, ...]
) -> None:
    record(run_dir, started(run_dir))
    # As `kill -9` leaves it: a socket on which nothing listens.
    (run_dir / "control.json").write_text(Endpoint("control.sock", 2**22 + 1, "", "r1").to_text())
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(run_dir / "control.sock"))
    name, *arguments = command
    answer = headwater(name, run_dir, *arguments, "--json")
    (problem,) = answer.json["problems"]
    assert (answer.code, problem["code"]) == (2, "HW-RUN-KILLED")
    assert problem["hint"] == KILLED_HINT.format(run_dir=run_dir)
    for target in ((), ("by_day",)):
        waited = headwater("wait", run_dir, *target, "--json")
        assert (waited.code, waited.json["status"]) == (1, "killed")


DIES = """
import os, signal, sys, threading
from pathlib import Path
from headwater.control.registry import register
from headwater.control.server import ControlServer
from tests.unit.control.runs import FakeHost, record, started, view_of
class Dies(FakeHost):
    def stop(self, query, timeout):
        os.kill(os.getpid(), signal.SIGKILL)
run_dir = Path(sys.argv[1])
record(run_dir, started(run_dir))
ControlServer(Dies(view_of(started(run_dir))), run_dir, "r1").start()
register(run_dir, "orders", "r1")
print("ready", flush=True)
threading.Event().wait()
"""


def test_a_run_that_is_killed_while_it_stops(headwater: Headwater, run_dir: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", DIES, str(run_dir)], stdout=subprocess.PIPE, cwd=root
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        answer = headwater("stop", run_dir, "--json")
        assert (answer.code, [each["code"] for each in answer.json["problems"]]) == (2, ["HW-RUN-KILLED"])
        assert process.wait(20) == -signal.SIGKILL
    assert headwater("wait", run_dir).code == 1


def test_a_run_whose_directory_was_deleted_is_dropped_from_the_list(
    headwater: Headwater, tmp_path: Path, run_dir: Path
) -> None:
    for run in (run_dir, tmp_path / "other"):
        run.mkdir()
        register(run, "orders", "r1")
        run.rmdir()
        if run == run_dir:
            assert headwater("status").out == (
                "No runs are recorded on this machine.\n\n"
                f"Dropped orders (run r1) from the list: its run directory {run} no longer exists.\n"
            )
        else:
            dropped = {"run_id": "r1", "pipeline": "orders", "run_dir": str(run)}
            assert headwater("status", "--json").json == {"version": 1, "runs": [], "dropped": [dropped]}
    assert headwater("status", "--json").json == {"version": 1, "runs": [], "dropped": []}


def test_stop_and_restart(headwater: Headwater, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir.mkdir()
    monkeypatch.chdir(run_dir.parent)
    here = run_dir.parent / ".headwater"
    with serving(here) as (host, _):
        assert headwater("restart", "by_day").out == "Restarted query by_day.\n"
        assert headwater("stop", "by_day", "--timeout", "2s").out == "Stopped query by_day.\n"
        assert headwater("stop", "./.headwater", "i1", "--json").json["status"] == "stopped"
        assert headwater("stop", ".headwater").out == "Stopped all queries of orders.\n"
        assert headwater("stop", "--json").json["status"] == "stopped"
        assert host.asked == [
            ("restart", "by_day"),
            ("stop", "by_day", 2.0),
            ("stop", "by_day", None),
            ("stop", None, None),
            ("stop", None, None),
        ]


def test_the_query_of_a_quarantine_is_named_like_any_other(headwater: Headwater, tmp_path: Path) -> None:
    name = "quarantine.orders"
    with serving(tmp_path / ".headwater") as (host, _):
        missing = headwater("restart", name, "--json").json["problems"][0]
        assert missing["code"] == "HW-QUERY-NOT-FOUND"
        host.view.queries[name] = replace(host.view.queries["by_day"], name=name, id="i2")
        assert headwater("restart", name).out == f"Restarted query {name}.\n"
        assert headwater("stop", name).out == f"Stopped query {name}.\n"
        assert headwater("stop", ".headwater", name, "--json").json["query"] == name
        assert host.asked == [("restart", name), ("stop", name, None), ("stop", name, None)]
        assert headwater("wait", name).code == 0
        # Every name that an error lists is one that the commands accept.
        hint = headwater("stop", "quarantine.order", "--json").json["problems"][0]["hint"]
        assert hint == f"Did you mean `{name}`? Queries of this run: by_day, {name}."


def test_an_existing_run_directory_needs_no_slash(
    headwater: Headwater, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert headwater("wait", "runs", "--json").json["problems"][0]["code"] == "HW-RUN-NOT-SELECTED"
    record(tmp_path / "runs", started(tmp_path / "runs") + finished())
    assert headwater("wait", "runs", "--json").json["pipeline"] == "orders"


def test_a_command_without_a_run_or_a_query(headwater: Headwater, tmp_path: Path) -> None:
    for command in (("stop",), ("wait",), ("events",), ("logs",), ("restart", "q"), ("sql", "SELECT 1")):
        answer = headwater(*command, "--json")
        assert (answer.code, answer.json["problems"][0]["code"]) == (2, "HW-RUN-NOT-SELECTED")
    assert headwater("restart").code == headwater("sql").code == 2
    with serving(tmp_path / ".headwater"):
        answer = headwater("stop", "by_dya", "--json")
        assert (answer.code, answer.json["problems"][0]["code"]) == (2, "HW-QUERY-NOT-FOUND")


@pytest.mark.parametrize(("status", "code"), [(QueryStatus.STOPPED, 0), (QueryStatus.FAILED, 1)])
def test_wait(headwater: Headwater, run_dir: Path, status: QueryStatus, code: int) -> None:
    with serving(run_dir) as (host, _):
        late = headwater("wait", run_dir, "--timeout", "10ms")
        assert (late.code, late.out, late.err) == (124, running(run_dir), "Not terminated after 10ms.\n")
        host.view.apply(finished(status=status)[0])
        assert headwater("wait", run_dir, "--any").code == code
        assert headwater("wait", run_dir, "by_day").code == code
        assert headwater("wait", run_dir, "--timeout", "10ms").code == 124
    record(run_dir, started(run_dir) + finished(status=status))
    answer = headwater("wait", run_dir, "--json")
    assert (answer.code, answer.json["exit_code"]) == (code, code)
    assert headwater("wait", run_dir, "by_day", "--any").code == 2


def test_logs(headwater: Headwater, run_dir: Path) -> None:
    record(run_dir, started(run_dir) + finished())
    (run_dir / "logs").mkdir()
    (run_dir / "logs" / "spark.log").write_text("a\nb\n")
    (run_dir / "logs" / "failures.log").write_text("c\n")
    answer = headwater("logs", run_dir)
    assert (answer.code, answer.out) == (0, "==> spark.log <==\na\nb\n\n==> failures.log <==\nc\n")
    assert headwater("logs", run_dir, "--file", "spark", "-n", 1).out == "==> spark.log <==\nb\n"
    assert headwater("logs", run_dir, "--file", "failures", "--json").json == {
        "file": "failures.log",
        "line": "c",
    }
    assert headwater("logs", run_dir, "--file", "java").code == 2


def test_events(headwater: Headwater, run_dir: Path) -> None:
    record(run_dir, [*started(run_dir), ALERT, *finished(status=QueryStatus.FAILED)])
    answer = headwater("events", run_dir, "--query", "by_day")
    assert (answer.code, answer.err) == (0, "")
    alert = answer.out.splitlines()[1]
    assert answer.out.splitlines()[::2] == [
        f"{AT} by_day: started (id i1)",
        f"{AT} by_day: failed: HW-CONNECTION-FAILED {PROBLEM.message}",
    ]
    assert alert.startswith(f"{AT} by_day: ")
    assert "HW-FALLING-BEHIND It is falling behind." in alert
    plain = {"event": "query_idle", "at": AT, "query": "by_day"}
    assert [views._plain(each) for each in (plain, {"event": "new_kind"}, {**plain, "code": "A"})] == [
        "by_day: idle",
        "new kind",
        "by_day: idle: A",
    ]
    lines = headwater("events", run_dir, "--json").out.splitlines()
    assert [json.loads(line)["event"] for line in lines] == [
        "run_started",
        "query_started",
        "alert",
        "query_terminated",
        "run_finished",
    ]


@pytest.mark.parametrize(
    ("since", "count"), [("2026-01-31T12:00:00Z", 4), ("2026-01-31T12:00:01", 0), ("1 second", 0)]
)
def test_events_since_a_time(headwater: Headwater, run_dir: Path, since: str, count: int) -> None:
    record(run_dir, started(run_dir) + finished())
    answer = headwater("events", run_dir, "--since", since, "--json")
    assert (answer.code, len(answer.out.splitlines())) == (0, count)


def test_an_invalid_time(headwater: Headwater, run_dir: Path) -> None:
    answer = headwater("events", run_dir, "--since", "yesterday", "--json")
    assert (answer.code, answer.json["problems"][0]["code"]) == (2, "HW-SINCE-INVALID")


def test_sql(headwater: Headwater, run_dir: Path) -> None:
    with serving(run_dir) as (host, _):
        answer = headwater("sql", run_dir, "SELECT 1")
        assert (answer.code, answer.out) == (
            0,
            "shop   total\nnorth   12.0\na\\nb    NULL\n(2 rows)\n",
        )
        first = headwater("sql", run_dir, "SELECT 1", "--max-rows", 1, "--timeout", "2s")
        assert first.out == "shop   total\nnorth   12.0\n(1 row)\n"
        assert first.err == "Showing the first 1 row; set --max-rows for more.\n"
        assert headwater("sql", run_dir, "SELECT 1", "--csv").out == ('shop,total\nnorth,12.0\n"a\nb",\n')
        found = headwater("sql", run_dir, "SELECT 1", "--json").json
        assert (found["rows"], found["truncated"]) == ([["north", 12.0], ["a\nb", None]], False)
        assert host.asked[1] == ("sql", "SELECT 1", 1, 2.0)
        assert headwater("sql", run_dir, "SELECT 1", "--csv", "--json").code == 2


def test_a_status_that_is_refreshed(headwater: Headwater, run_dir: Path) -> None:
    """Elsewhere than on a terminal, each status follows the one before, until Ctrl-C."""
    program = "from headwater.cli.main import main; main()"
    with serving(run_dir) as (host, _):
        command = [sys.executable, "-c", program, "status", str(run_dir), "--watch", "--check"]
        environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
        ) as process:
            assert process.stdout
            assert process.stderr
            expected = [*running(run_dir).splitlines(), ""]
            for _ in range(2):
                found = [process.stdout.readline().decode().rstrip("\n") for _ in expected]
                assert found == expected
            host.view.apply(ALERT)
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 1
            assert process.stderr.read() == b""


class Screen:
    """Stands for rich's display: it records what is shown, one text after the other."""

    shown: list[str] = []

    def __init__(self, text: Text, **_: bool) -> None:
        self.shown.append(text.plain)

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to restore."""

    def update(self, text: Text, *, refresh: bool) -> None:
        assert refresh
        self.shown.append(text.plain)


class Ticks(threading.Event):
    """Is set at the third wait."""

    waits = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        return self.waits == 3


def test_a_terminal_continues_to_show_which_runs_were_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Screen, "shown", [])
    monkeypatch.setattr("rich.live.Live", Screen)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    first, second = ({"run_id": run, "pipeline": "orders", "run_dir": f"/{run}"} for run in ("r1", "r2"))
    statuses = iter([views.RunsShown([], [first]), views.RunsShown([]), views.RunsShown([], [second])])
    views.watch(lambda: next(statuses), Ticks(), 1.0, as_json=False)
    one = """\
No runs are recorded on this machine.

Dropped orders (run r1) from the list: its run directory /r1 no longer exists."""
    two = one + "\nDropped orders (run r2) from the list: its run directory /r2 no longer exists."
    assert Screen.shown == [one, one, two]


def test_the_size_of_state() -> None:
    sizes = (0, 1_023, 1_024, 1_572_864, 5 * 1_024**4)
    assert [views._size(size) for size in sizes] == ["0 B", "1,023 B", "1.0 KiB", "1.5 MiB", "5.0 TiB"]


def test_a_command_that_asks_a_run_imports_little() -> None:
    """Each of these imports would be a tenth of a second or more of every `headwater status` and `headwater sql`."""
    program = (
        "import sys; import headwater.cli.main, headwater.api.remote, headwater.cli.control_views; "
        "print(*sorted({'pyspark', 'sqlglot', 'pydantic.main', 'headwater.checks', 'headwater.checkpoint', "
        "'headwater.connectors', 'headwater.loaders', 'headwater.spec'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
