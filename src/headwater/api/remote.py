"""The handles of a run in another process, or of a past run: `hw.connect`, and `headwater status` and its relatives.

They have what the handles of `p.start()` have, in so far as it works from outside; a test compares them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from headwater.api.run_status import (
    ACTIVE,
    DEFAULT_DIR,
    KILLED,
    ended,
    is_run_directory,
    latest_status,
    query_has_ended,
    run_directory_of,
    stored_status,
)
from headwater.control.client import RunClient, RunNotActiveError
from headwater.control.logs import LogLine
from headwater.control.logs import follow as followed
from headwater.control.registry import registered_runs
from headwater.errors import (
    HeadwaterError,
    Problem,
    QueryFailedError,
    QueryNotFoundError,
    UsageError,
)
from headwater.errors.catalogue.control import (
    RUN_AMBIGUOUS,
    RUN_CONNECTION_LOST,
    RUN_NOT_ACTIVE,
    RUN_NOT_SELECTED,
    RUN_OWN_PROCESS_ONLY,
)
from headwater.errors.catalogue.programs import QUERY_NOT_FOUND
from headwater.events.counts import SourceCounts, TableCounts
from headwater.events.stored import problem_from_json
from headwater.history.reader import History
from headwater.run_directory import RunDirectory
from headwater.values import did_you_mean, quoted

_TICK_SECONDS = 0.2
_EXIT_SECONDS = 10.0
_KEPT = 100
_OWN_PROCESS = {
    "kill": "Call `stop(timeout=0)`, which interrupts the current batches.",
    "is_stuck": "Call `stop` of the query, which fails with HW-QUERY-STUCK.",
    "notify": "Report the notice in the process of the run.",
    "reason_to_end": "Call `wait_idle()`.",
    "stop_when_idle": "Call `wait_idle()`, then `stop()`.",
}
"""What only the handle of `p.start()` has, and what to do instead."""


@dataclass(frozen=True)
class SqlResult:
    """The rows of a query, as far as the limits allow."""

    columns: tuple[tuple[str, str], ...]
    """Name and type of each column."""
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool
    """Whether the query has more rows."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries, by column name."""
        names = [name for name, _ in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def to_json(self) -> dict[str, Any]:
        columns = [{"name": name, "type": type_} for name, type_ in self.columns]
        return {"columns": columns, "rows": [list(row) for row in self.rows], "truncated": self.truncated}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_dicts())

    def __len__(self) -> int:
        return len(self.rows)


class RemoteQuery:
    """One query of a run in another process; every property asks the run, or reads its history."""

    def __init__(self, run: RemoteRun, name: str) -> None:
        self._run = run
        self._name = name

    def to_json(self) -> dict[str, Any]:
        """Everything that is known of the query, as `headwater status --query --json` prints it."""
        found = self._run.to_json()["queries"]
        return next((each for each in found if each["query"] == self._name), {})

    @property
    def name(self) -> str:
        return self._name

    @property
    def id(self) -> str:
        """The query ID. It stays the same after each restart."""
        return str(self.to_json()["id"])

    @property
    def run_id(self) -> str:
        """The run ID. It changes at each start."""
        return str(self.to_json()["run_id"])

    @property
    def status(self) -> str:
        """The status, such as `running`; `killed` if the process of the run no longer exists."""
        return str(self.to_json()["status"])

    @property
    def progress(self) -> Mapping[str, Any] | None:
        """The last batch: its number, rows, rates, and duration by phase."""
        found: Mapping[str, Any] | None = self.to_json()["last_batch"]
        return found

    @property
    def recent_progress(self) -> tuple[Mapping[str, Any], ...]:
        """The progress of the last batches, oldest first, with every field that Spark reports.

        It comes from the history, which has a batch about a second after its commit.
        """
        with History(self._run.directory.history) as history:
            batches = history.batches(self._name, _KEPT)
            own = [each.batch_id for each in reversed(batches) if each.run_id == self._run.id]
            reports = (history.batch(self._name, batch) for batch in own)
            return tuple(report for report in reports if report is not None)

    @property
    def rows_in(self) -> int:
        """Rows read since the start; 0 for a continuous query, because Spark does not count its rows."""
        return int(self.to_json()["rows_in"])

    @property
    def rows_out(self) -> int:
        """Rows sent to the sink since the start; 0 for a continuous query."""
        return int(self.to_json()["rows_out"])

    @property
    def late_rows(self) -> Mapping[str, int]:
        """Rows dropped as late (behind the watermark) since the start, by operator."""
        return dict(self.to_json()["late_rows"])

    @property
    def sources(self) -> Mapping[str, SourceCounts]:
        """Rows read, good and bad since the start, for each source that detects bad rows."""
        found = self.to_json()["rows_by_source"]
        return {name: SourceCounts(counts["read"], counts["bad"]) for name, counts in found.items()}

    @property
    def expectations(self) -> Mapping[str, TableCounts]:
        """Rows checked and rows failed since the start, for each table with expectations."""
        found = self.to_json()["expectations"]
        return {name: TableCounts(counts["rows"], counts["failed"]) for name, counts in found.items()}

    @property
    def epoch(self) -> int | None:
        """The newest epoch that a continuous query has committed."""
        found = self.to_json()
        epoch: int | None = found["batch"] if found["last_batch"] is None else None
        return epoch

    @property
    def idle_inputs(self) -> tuple[str, ...]:
        """The idle sources that block the watermark: they deliver no rows while other sources do."""
        found = (name for idle in self.to_json()["idle_inputs"] for name in idle["sources"])
        return tuple(dict.fromkeys(found))

    @property
    def restarts(self) -> int:
        """How often the query was restarted since the start of the run."""
        return int(self.to_json()["restarts"])

    @property
    def problem(self) -> Problem | None:
        """The last failure, also of a query that was restarted, or None."""
        found = self.to_json()["problem"]
        return problem_from_json(found) if found else None

    @property
    def exception(self) -> QueryFailedError | None:
        """The last failure as an exception."""
        problem = self.problem
        return QueryFailedError(problem) if problem else None

    def plan(self) -> str:
        """Spark's plan of the last batch; RunNotActiveError if the run has ended."""
        with self._run._active() as client:
            return client.plan(self._name)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until this query has terminated. Return False if it still runs after `timeout` seconds."""
        return self._run.wait_until(
            lambda view: any(
                each["query"] == self._name and query_has_ended(each) for each in view["queries"]
            ),
            timeout,
        )

    def stop(self, timeout: float | None = None) -> None:
        """Let the current batch commit, then stop this query only."""
        with self._run._active() as client:
            client.stop(self._name, timeout)

    def restart(self) -> None:
        """Restart the query, also one that has failed or was stopped."""
        with self._run._active() as client:
            client.restart(self._name)

    def __repr__(self) -> str:
        return f"<RemoteQuery {self.name}: {self.status}>"


class RemoteQueries(dict[str, RemoteQuery]):
    """The queries of a run by name. For an unknown name, the error lists the known ones."""

    def __missing__(self, name: str) -> RemoteQuery:
        hint = did_you_mean(name, self, "Check the spelling.")
        raise QueryNotFoundError(
            QUERY_NOT_FOUND.at(None, name=name, known=", ".join(self) or "none", hint=hint)
        )


class RemoteRun:
    """A run in another process, or a past run. `hw.connect` returns it."""

    def __init__(self, run_dir: str | Path) -> None:
        self._directory = RunDirectory(Path(os.path.abspath(run_dir)))
        self._client = RunClient(self._directory.path)
        self._id = str(latest_status(self._client, self._directory)["run_id"])

    @property
    def id(self) -> str:
        return self._id

    @property
    def name(self) -> str:
        """The name of the pipeline."""
        return str(self.to_json()["pipeline"])

    @property
    def directory(self) -> RunDirectory:
        """The run directory."""
        return self._directory

    @contextmanager
    def _active(self) -> Iterator[RunClient]:
        """The client of this run; RunNotActiveError if it has ended, even if a new run has started."""
        try:
            endpoint = self._client.endpoint
            if endpoint is None or endpoint.run_id != self._id:
                raise RunNotActiveError(RUN_NOT_ACTIVE.at(None, directory=str(self._directory.path)))
            yield self._client
        except RunNotActiveError:
            self._refuse_if_killed()
            raise

    def _refuse_if_killed(self) -> None:
        """RunNotActiveError if the run did not record its end."""
        found = self.to_json()
        if found["status"] == KILLED:
            raise RunNotActiveError(problem_from_json(found["problem"])) from None

    def to_json(self) -> dict[str, Any]:
        """Everything that is known of the run, as `headwater status --json` prints it."""
        found = latest_status(self._client, self._directory)
        if found["run_id"] == self._id:
            return found
        return ended(stored_status(self._directory, self._id) or {**found, "run_id": self._id})

    @property
    def status(self) -> str:
        """`starting`, `running`, `finished`, `stopped`, `failed`, or `killed` if its process no longer exists."""
        return str(self.to_json()["status"])

    @property
    def queries(self) -> Mapping[str, RemoteQuery]:
        """The queries by sink name."""
        names = [each["query"] for each in self.to_json()["queries"]]
        return RemoteQueries({name: RemoteQuery(self, name) for name in names})

    def query(self, name_or_id: str) -> RemoteQuery:
        """A query by its name or ID."""
        found = self.to_json()["queries"]
        for each in found:
            if name_or_id in (each["query"], each["id"]):
                return RemoteQuery(self, each["query"])
        return self.queries[name_or_id]

    @property
    def is_active(self) -> bool:
        """Whether the run has not ended."""
        return self.status in ACTIVE

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended, or its process no longer exists."""
        return not self.is_active

    @property
    def is_idle(self) -> bool:
        """Whether every query found no data at its last poll, or has terminated."""
        return _is_idle(self.to_json())

    @property
    def summary(self) -> Mapping[str, Mapping[str, Any]]:
        """What is known of each query, by sink name."""
        return {each["query"]: each for each in self.to_json()["queries"]}

    @property
    def exit_code(self) -> int | None:
        """The exit code of the run, 1 if it was killed; None during the run."""
        found = self.to_json()
        if found["status"] == KILLED:
            return 1
        code: int | None = found["exit_code"]
        return code

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all queries have terminated. Return False if some still run after `timeout` seconds."""
        return self.wait_until(lambda view: False, timeout)

    def wait_any(self, timeout: float | None = None) -> bool:
        """Wait until any query has terminated. Return False if all still run after `timeout` seconds."""
        return self.wait_until(lambda view: any(map(query_has_ended, view["queries"])), timeout)

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until every query is idle or the run has ended. Return False after `timeout` seconds.

        A query with a continuous or real-time trigger never becomes idle.
        """
        return self.wait_until(_is_idle, timeout)

    def wait_until(self, condition: Callable[[dict[str, Any]], bool], timeout: float | None = None) -> bool:
        """Wait until the status meets a condition or the run has ended; False after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            # A run that is suspended, or is just exiting, may answer the next time.
            with suppress_retryable():
                view = self.to_json()
                if view["status"] not in ACTIVE or condition(view):
                    return True
            left = _TICK_SECONDS if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, _TICK_SECONDS))

    def stop(self, timeout: float | None = None) -> None:
        """Let the current batches commit, then stop. The next start resumes from there.

        A batch that takes longer than `timeout` seconds is interrupted. By default, the limit is that of the run.
        """
        try:
            with self._active() as client:
                client.stop(None, timeout)
        except HeadwaterError as error:
            # The process may exit before it has answered.
            if error.problems[0].code != RUN_CONNECTION_LOST.code or not self.wait(_EXIT_SECONDS):
                raise
            self._refuse_if_killed()

    def sql(self, query: str, *, max_rows: int = 1_000, timeout: float = 10.0) -> SqlResult:
        """The first rows of a SQL query over the tables of `memory` sinks, and of sinks that can be read back.

        Iterate over the result to get each row as a dictionary.
        """
        with self._active() as client:
            found = client.sql(query, max_rows, timeout)
        columns = tuple((str(each["name"]), str(each["type"])) for each in found["columns"])
        return SqlResult(columns, tuple(map(tuple, found["rows"])), bool(found["truncated"]))

    def events(
        self,
        *,
        since: datetime | None = None,
        query: str | None = None,
        follow: threading.Event | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The stored events of this run, or those of every run `since` a time, oldest first; no batches.

        With `follow`, later events are added as they are stored, until that is set.
        """
        ms = None if since is None else int(since.timestamp() * 1_000)
        with History(self._directory.history) as history:
            run_id = self._id if since is None else None
            newest = history.newest_seq()
            for each in history.events(upto=newest, since=ms, query=query, run_id=run_id):
                yield each.to_json()
            if follow is not None:
                for each in history.follow(follow, newest, query=query):
                    yield each.to_json()

    def logs(
        self, names: Iterable[str] = (), *, lines: int = 100, follow: threading.Event | None = None
    ) -> Iterator[LogLine]:
        """The last lines of the log files, or of those with these names, such as `spark.log`.

        With `follow`, later lines are added until that is set.
        """
        files = (self._directory.spark_log, self._directory.failures_log)
        wanted = tuple(names) or tuple(file.name for file in files)
        stop = follow or threading.Event()
        if follow is None:
            stop.set()
        return followed([file for file in files if file.name in wanted], lines, stop)

    def raise_for_failure(self) -> None:
        """Raise QueryFailedError if a query failed."""
        failed = [each["problem"] for each in self.to_json()["queries"] if each["status"] == "failed"]
        problems = [problem_from_json(each) for each in failed if each]
        if problems:
            raise QueryFailedError.of(problems)

    def __getattr__(self, name: str) -> Any:
        if name in _OWN_PROCESS:
            raise NotRemoteError(RUN_OWN_PROCESS_ONLY.at(None, name=name, hint=_OWN_PROCESS[name]))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        found = self.to_json()
        queries = ", ".join(f"{each['query']}: {each['status']}" for each in found["queries"])
        return f"<RemoteRun {self.id}, {found['status']}: {queries}>"


def _is_idle(view: Mapping[str, Any]) -> bool:
    return bool(view["queries"]) and all(
        each["status"] == "idle" or query_has_ended(each) for each in view["queries"]
    )


class NotRemoteError(UsageError, AttributeError):
    """Only the handle of `p.start()` can do this."""


class suppress_retryable(suppress):  # noqa: N801 - used like `contextlib.suppress`
    """Ignore a HeadwaterError if a retry can succeed."""

    def __init__(self) -> None:
        super().__init__(HeadwaterError)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        return isinstance(error, HeadwaterError) and error.retryable


def connect(run: str | Path) -> RemoteRun:
    """The last run of a pipeline file (`pipeline.yml`, `pipeline.py:name`) or of a run directory.

    It may run in any process of this machine, or have ended: its status then comes from its history. UsageError
    if there is no such run.
    """
    return RemoteRun(run_directory_of(run))


def select(run: str | None = None) -> RemoteRun:
    """The given run; without one, that of `./.headwater` or the only active run on this machine."""
    if run is not None:
        return connect(run)
    if is_run_directory(Path(DEFAULT_DIR)):
        return RemoteRun(DEFAULT_DIR)
    active = [each for each in registered_runs() if each.active]
    if not active:
        raise UsageError(RUN_NOT_SELECTED.at(None))
    if len(active) > 1:
        directories = [each.run_dir for each in active]
        raise UsageError(RUN_AMBIGUOUS.at(None, runs=quoted(directories), first=directories[0]))
    return RemoteRun(active[0].run_dir)
