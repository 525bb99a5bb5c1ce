"""A run from another process: active, ended, killed or hanging. `FakeHost` stands for the runtime."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

import headwater as hw
from headwater.api.remote import RemoteRun, connect, select
from headwater.api.run_status import list_runs
from headwater.control.client import RunNotActiveError
from headwater.control.protocol import Endpoint
from headwater.control.registry import mark_ended, register
from headwater.errors import HeadwaterError, PipelineError, QueryFailedError, QueryNotFoundError, UsageError
from headwater.events import QueryStatus
from headwater.events.kinds import QueryTerminated
from tests.unit.control.runs import AT, finished, record, serving, started

PIPELINE = """
name: orders
sources: {clicks: {connector: rate}}
sinks: {by_day: {reads: clicks, connector: noop}}
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "run"


def code_of(error: pytest.ExceptionInfo[HeadwaterError]) -> str:
    return error.value.problems[0].code


def test_an_active_run(run_dir: Path) -> None:
    with serving(run_dir) as (host, _):
        run = hw.connect(run_dir)
        query = run.query("i1")
        assert (run.id, run.status, run.is_active, run.exit_code) == ("r1", "running", True, None)
        assert list(run.queries) == list(run.summary) == ["by_day"]
        assert (query.name, query.id, query.run_id, query.status) == ("by_day", "i1", "q1", "running")
        assert (query.rows_in, query.rows_out, query.restarts) == (1204, 10, 0)
        assert query.late_rows == {"deduplication": 3}
        assert query.progress is not None
        assert query.progress["phases_ms"]["addBatch"] == 300
        assert (query.problem, query.exception) == (None, None)
        query.restart()
        assert query.restarts == 1
        query.stop(2.0)
        assert (query.status, query.wait(0), run.wait_any(0), run.wait(0)) == ("stopped", True, True, False)
        assert host.asked == [("restart", "by_day"), ("stop", "by_day", 2.0)]
        assert repr(run) == "<RemoteRun r1, running: by_day: stopped>"
        run.stop()
        assert (run.status, run.exit_code, run.wait()) == ("stopped", 0, True)


def test_sql(run_dir: Path) -> None:
    with serving(run_dir) as (host, _):
        rows = connect(run_dir).sql("SELECT shop", max_rows=1, timeout=2.5)
        assert list(rows) == [{"shop": "north", "total": 12.0}]
        assert (len(rows), rows.truncated) == (1, True)
        assert rows.columns == (("shop", "string"), ("total", "double"))
        assert host.asked == [("sql", "SELECT shop", 1, 2.5)]


def test_an_unknown_query(run_dir: Path) -> None:
    with serving(run_dir), pytest.raises(QueryNotFoundError) as raised:
        connect(run_dir).query("by_dya")
    assert raised.value.problems[0].hint == "Did you mean `by_day`? Queries of this run: by_day."


def test_wait_returns_when_the_run_ends(run_dir: Path) -> None:
    with serving(run_dir) as (host, _), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(connect(run_dir).wait, 20)
        host.stop(None, None)
        assert waiting.result(20)


@pytest.mark.parametrize(
    ("status", "shown", "code"),
    [
        (QueryStatus.STOPPED, "stopped", 0),
        (QueryStatus.FINISHED, "finished", 0),
        (QueryStatus.FAILED, "failed", 1),
    ],
)
def test_a_run_that_has_ended(run_dir: Path, status: QueryStatus, shown: str, code: int) -> None:
    record(run_dir, started(run_dir) + finished(status=status))
    run = connect(run_dir)
    assert (run.status, run.exit_code, run.is_active) == (shown, code, False)
    assert (run.wait(), run.query("by_day").rows_in) == (True, 1204)
    if code:
        assert run.query("by_day").problem is not None
        assert isinstance(run.query("by_day").exception, QueryFailedError)
        with pytest.raises(QueryFailedError):
            run.raise_for_failure()
    else:
        run.raise_for_failure()
    with pytest.raises(RunNotActiveError):
        run.stop()
    with pytest.raises(RunNotActiveError):
        run.sql("SELECT 1")


def test_a_run_without_an_end_was_killed(run_dir: Path) -> None:
    stopped = QueryTerminated(at=AT, query="other", status=QueryStatus.STOPPED)
    record(run_dir, [*started(run_dir), stopped])
    (run_dir / "control.json").write_text(Endpoint("control.sock", 2**22 + 1, "", "r1").to_text())
    run = connect(run_dir)
    assert (run.status, run.exit_code, run.wait()) == ("killed", 1, True)
    assert {name: each["status"] for name, each in run.summary.items()} == {
        "by_day": "killed",
        "other": "stopped",
    }
    assert run.to_json()["health"] == "critical"
    assert run.to_json()["problem"]["code"] == "HW-RUN-KILLED"
    with pytest.raises(RunNotActiveError) as raised:
        run.stop()
    assert code_of(raised) == "HW-RUN-KILLED"


def test_a_run_that_was_killed_before_it_had_a_history(run_dir: Path) -> None:
    run_dir.mkdir()
    (run_dir / "pipeline.json").write_text("{}")
    program = "import sys; from pathlib import Path; from headwater.control.registry import register; "
    program += "register(Path(sys.argv[1]), 'orders', 'r1')"
    subprocess.run([sys.executable, "-c", program, str(run_dir)], check=True)
    run = connect(run_dir)
    assert (run.status, run.exit_code, run.wait()) == ("killed", 1, True)
    assert run.to_json()["problem"]["code"] == "HW-RUN-KILLED"


def test_a_run_that_is_about_to_exit_is_not_killed(run_dir: Path) -> None:
    record(run_dir, started(run_dir))
    register(run_dir, "orders", "r1")
    assert connect(run_dir).status == "running"
    mark_ended(run_dir, "r1")
    assert connect(run_dir).status == "killed"


def test_a_handle_stays_with_its_run(run_dir: Path) -> None:
    record(run_dir, started(run_dir) + finished())
    before = connect(run_dir)
    with serving(run_dir, "r2") as (host, _):
        now = connect(run_dir)
        assert (before.id, before.status) == ("r1", "stopped")
        assert (now.id, now.status) == ("r2", "running")
        with pytest.raises(RunNotActiveError):
            before.stop()
        assert host.asked == []


def test_a_run_that_starts_has_no_history_yet(run_dir: Path) -> None:
    record(run_dir, started(run_dir) + finished())
    register(run_dir, "orders", "r2")
    run = connect(run_dir)
    assert (run.id, run.status, run.is_active, list(run.queries)) == ("r2", "starting", True, [])
    assert run.wait(0) is False


def test_no_run(tmp_path: Path, run_dir: Path) -> None:
    with pytest.raises(UsageError) as raised:
        connect(run_dir)
    assert code_of(raised) == "HW-RUN-DIR-NOT-FOUND"
    with pytest.raises(UsageError) as raised:
        connect(tmp_path)
    assert code_of(raised) == "HW-RUN-DIR-NOT-FOUND"
    run_dir.mkdir()
    (run_dir / "pipeline.json").write_text("{}")
    with pytest.raises(UsageError) as raised:
        connect(run_dir)
    assert code_of(raised) == "HW-RUN-NOT-FOUND"


def test_the_run_of_a_pipeline_file(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yml"
    file.write_text(PIPELINE)
    record(tmp_path / ".headwater", started(tmp_path / ".headwater") + finished())
    for target in (file, "pipeline.yml", tmp_path, ".headwater"):
        assert connect(target).id == "r1"


def test_a_pipeline_file_that_this_terminal_cannot_load(tmp_path: Path, run_dir: Path) -> None:
    file = tmp_path / "pipeline.yml"
    file.write_text(PIPELINE + "run_dir: ${RUN_DIR}\n")
    with pytest.raises(PipelineError) as raised:
        connect(file)
    assert code_of(raised) == "HW-VARIABLE-MISSING"
    record(run_dir, started(run_dir) + finished())
    register(run_dir, "orders", "r1", file="pipeline.yml")
    assert connect(file).directory.path == run_dir


def test_select(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError) as raised:
        select()
    assert code_of(raised) == "HW-RUN-NOT-SELECTED"
    one, two = tmp_path / "one", tmp_path / "two"
    for run_dir in (one, two):
        record(run_dir, started(run_dir, run_dir.name))
        register(run_dir, "orders", run_dir.name)
    with pytest.raises(UsageError) as raised:
        select()
    assert code_of(raised) == "HW-RUN-AMBIGUOUS"
    assert set(str(raised.value.problems[0].params["runs"]).split(", ")) == {f"`{one}`", f"`{two}`"}
    assert select(str(one)).id == "one"
    mark_ended(one, "one")
    assert select().id == "two"
    record(tmp_path / ".headwater", started(tmp_path, "here"))
    assert select().id == "here"


HANGS = """
import sys, threading
from pathlib import Path
from headwater.control.registry import register
from headwater.control.server import ControlServer
from tests.unit.control.runs import FakeHost, started, view_of
run_dir = Path(sys.argv[1])
ControlServer(FakeHost(view_of(started(run_dir))), run_dir, "r1").start()
register(run_dir, "orders", "r1")
print("ready", flush=True)
threading.Event().wait()
"""


def test_the_runs_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list_runs() == []
    ended, hanging = tmp_path / "ended", tmp_path / "hanging"
    record(ended, started(ended) + finished())
    register(ended, "orders", "r1")
    mark_ended(ended, "r1")
    monkeypatch.setattr("headwater.api.run_status._LIST_SECONDS", 0.3)
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", HANGS, str(hanging)], stdout=subprocess.PIPE, cwd=root
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        assert [run["status"] for run in list_runs()] == ["running", "stopped"]
        process.send_signal(signal.SIGSTOP)
        try:
            assert [run["status"] for run in list_runs()] == ["unresponsive", "stopped"]
        finally:
            process.kill()
    assert [run["status"] for run in list_runs()] == ["killed", "stopped"]


def test_events_and_logs(run_dir: Path) -> None:
    record(run_dir, started(run_dir, "r1") + finished("r1"))
    record(run_dir, started(run_dir, "r2") + finished("r2"))
    run = connect(run_dir)
    kinds = ["run_started", "query_started", "query_terminated", "run_finished"]
    assert [each["event"] for each in run.events()] == kinds
    assert [each["event"] for each in run.events(query="by_day")] == kinds[1:3]
    assert [each["event"] for each in run.events(since=datetime(2026, 1, 31, tzinfo=UTC))] == [*kinds, *kinds]
    assert list(run.events(since=datetime(2026, 2, 1, tzinfo=UTC))) == []
    run.directory.logs.mkdir()
    run.directory.spark_log.write_text("a\nb\n")
    run.directory.failures_log.write_text("c\n")
    assert list(run.logs(lines=1)) == [("spark.log", "b"), ("failures.log", "c")]
    assert list(run.logs(["failures.log"])) == [("failures.log", "c")]


def test_new_events_are_followed(run_dir: Path) -> None:
    record(run_dir, started(run_dir))
    stop = threading.Event()
    found = RemoteRun(run_dir).events(follow=stop)
    assert [next(found)["event"] for _ in range(2)] == ["run_started", "query_started"]
    record(run_dir, finished())
    assert [next(found)["event"] for _ in range(2)] == ["query_terminated", "run_finished"]
    stop.set()
    assert list(found) == []
