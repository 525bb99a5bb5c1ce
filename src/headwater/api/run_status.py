"""The runs of this machine: where they are, and their status.

An active run answers through its control socket. The status of any other run comes from its history.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwater.control.client import RunClient, RunNotActiveError
from headwater.control.registry import RegisteredRun, drop_deleted, find, registered_runs
from headwater.errors import HeadwaterError, PipelineError, UsageError
from headwater.errors.catalogue.control import RUN_DIR_NOT_FOUND, RUN_KILLED, RUN_NOT_FOUND, RUN_UNRESPONSIVE
from headwater.events.status import ENDED, RunView
from headwater.history.reader import History
from headwater.run_directory import RunDirectory

DEFAULT_DIR = ".headwater"
KILLED, UNRESPONSIVE = "killed", "unresponsive"
ACTIVE = ("starting", "running", UNRESPONSIVE)
_ENDED = (*(status.value for status in ENDED), KILLED)
_LIST_SECONDS = 2.0


def run_directory_of(run: str | Path) -> Path:
    """The run directory of a pipeline file, or the given run directory or the one in a directory."""
    path = Path(run)
    if path.is_dir():
        found = next(filter(is_run_directory, (path, path / DEFAULT_DIR)), None)
    else:
        found = _directory_of_file(str(run))
    if found is None:
        raise UsageError(RUN_DIR_NOT_FOUND.at(None, path=str(run)))
    return found


def _directory_of_file(run: str) -> Path | None:
    file = run.rpartition(":")[0] if ".py:" in run else run
    if Path(file).suffix not in (".yml", ".yaml", ".py"):
        return None
    # Loading a file takes a moment that `status` without a file does not need.
    from headwater.engine.pipeline_file import load

    try:
        return load(run, reads=False).run_dir
    except PipelineError:
        # The file was changed or deleted since the start, or this terminal lacks its variables.
        file = os.path.abspath(file)
        registered = next((each for each in registered_runs() if each.file == file), None)
        if registered is None:
            raise
        return Path(registered.run_dir)


def is_run_directory(path: Path) -> bool:
    run = RunDirectory(path)
    return any(file.is_file() for file in (run.pipeline, run.control, run.history))


def list_runs() -> list[dict[str, Any]]:
    """The status of the last run of each run directory that this user has used: active runs first."""
    return [_listed(each) for each in registered_runs()]


def drop_deleted_runs() -> list[dict[str, Any]]:
    """Remove the runs whose run directory was deleted from the list, and return them."""
    return [
        {"run_id": each.run_id, "pipeline": each.pipeline, "run_dir": each.run_dir} for each in drop_deleted()
    ]


def is_critical(view: Mapping[str, Any]) -> bool:
    """Whether a run needs attention: a query failed, an alert is critical, or the run died or hangs."""
    return view["health"] == "critical" or view["status"] in (KILLED, UNRESPONSIVE, "failed")


def latest_status(client: RunClient, directory: RunDirectory) -> dict[str, Any]:
    """The status of the active run, or of the last one."""
    with suppress(RunNotActiveError):
        return client.status()
    registered, stored = find(directory.path), stored_status(directory)
    endpoint = client.endpoint
    if registered and (stored is None or (registered.active and registered.run_id != stored["run_id"])):
        # It has no history yet, or none at all.
        view = _empty(registered, "starting" if registered.active else "failed")
        return view if registered.active else ended(view)
    if stored is None:
        raise UsageError(RUN_NOT_FOUND.at(None, directory=str(directory.path)))
    # Its socket may be gone for a moment while it exits.
    alive = bool(endpoint and endpoint.run_id == stored["run_id"] and endpoint.alive)
    return stored if alive or (registered and registered.active) else ended(stored)


def stored_status(directory: RunDirectory, run_id: str | None = None) -> dict[str, Any] | None:
    if not directory.history.exists():
        return None
    with History(directory.history) as history:
        return history.status(run_id)


def ended(view: dict[str, Any]) -> dict[str, Any]:
    """The status of a run that is not active: it was killed if it did not record its end."""
    if view["ended_at"] is not None:
        return view
    queries = [
        each if query_has_ended(each) else {**each, "status": KILLED, "health": "critical"}
        for each in view["queries"]
    ]
    killed = RUN_KILLED.at(None, run=view["run_id"], directory=view["run_dir"]).to_json()
    problem = view["problem"] or killed
    return {**view, "status": KILLED, "health": "critical", "problem": problem, "queries": queries}


def query_has_ended(query: Mapping[str, Any]) -> bool:
    return query["status"] in _ENDED


def _empty(run: RegisteredRun, status: str) -> dict[str, Any]:
    """The status of a run without a history."""
    view = RunView()
    view.run_id, view.pipeline, view.run_dir = run.run_id, run.pipeline, run.run_dir
    view.started_at, view.ended_at = run.started_at, run.ended_at
    health = "ok" if status == "starting" else "critical"
    return {**view.to_json(), "status": status, "health": health}


def _listed(run: RegisteredRun) -> dict[str, Any]:
    directory = RunDirectory(Path(run.run_dir))
    try:
        return latest_status(RunClient(directory.path, _LIST_SECONDS), directory)
    except HeadwaterError as error:
        # One run that hangs must not hide the others.
        known = stored_status(directory) or _empty(run, UNRESPONSIVE)
        status = UNRESPONSIVE if error.problems[0].code == RUN_UNRESPONSIVE.code else known["status"]
        return {**known, "status": status, "health": "critical"}
