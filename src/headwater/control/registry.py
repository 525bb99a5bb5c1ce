"""The runs of this user on this machine: one small file for each run directory, written at the start of a run.

The file stays when the run ends, so that `headwater status` can list it. The command removes it, and reports that,
once the run directory no longer exists.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from headwater.events.kinds import now
from headwater.values.processes import is_alive, process_start_time

_LOG = logging.getLogger("headwater")
_VERSION = 1


@dataclass(frozen=True)
class RegisteredRun:
    """The last run of a run directory."""

    run_dir: str
    pipeline: str
    file: str
    """The pipeline file; empty if the pipeline was declared in a program."""
    run_id: str
    pid: int
    start_time: str
    started_at: str
    ended_at: str | None = None

    @property
    def active(self) -> bool:
        """Whether the run has not ended and its process is alive."""
        return self.ended_at is None and is_alive(self.pid, self.start_time)


def state_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Where Headwater stores which runs this user has started: `HEADWATER_STATE_DIR`, or the XDG directory."""
    if environ.get("HEADWATER_STATE_DIR"):
        return Path(environ["HEADWATER_STATE_DIR"])
    named = environ.get("XDG_STATE_HOME", "")
    # The XDG standard says to ignore a relative path here.
    base = Path(named) if os.path.isabs(named) else Path(environ.get("HOME") or Path.home()) / ".local/state"
    return base / "headwater"


def register(run_dir: Path, pipeline: str, run_id: str, file: str = "") -> None:
    """Record that this process has started a run. A run without a record works, but is not listed."""
    run = RegisteredRun(
        run_dir=os.path.abspath(run_dir),
        pipeline=pipeline,
        file=os.path.abspath(file) if file else "",
        run_id=run_id,
        pid=os.getpid(),
        start_time=process_start_time(os.getpid()) or "",
        started_at=now(),
    )
    _write(run)


def mark_ended(run_dir: Path, run_id: str) -> None:
    """Record that a run has ended; its process may live on."""
    found = find(run_dir)
    if found and found.run_id == run_id:
        _write(replace(found, ended_at=now()))


def find(run_dir: Path) -> RegisteredRun | None:
    """The last run of a run directory."""
    return _read(_file(os.path.abspath(run_dir)))


def registered_runs() -> tuple[RegisteredRun, ...]:
    """The last run of each existing run directory: active runs first, then the newest first."""
    existing = (run for _, run in _all() if Path(run.run_dir).is_dir())
    found = sorted(existing, key=lambda run: run.started_at, reverse=True)
    return tuple(sorted(found, key=lambda run: not run.active))


def drop_deleted() -> tuple[RegisteredRun, ...]:
    """Forget the runs whose run directory no longer exists, and return them."""
    deleted = []
    for file, run in _all():
        if not Path(run.run_dir).is_dir():
            with suppress(OSError):
                file.unlink(missing_ok=True)
                deleted.append(run)
    return tuple(deleted)


def _all() -> Iterator[tuple[Path, RegisteredRun]]:
    """Every run that is recorded, with its file."""
    with suppress(OSError):
        for file in sorted((state_directory() / "runs").glob("*.json")):
            run = _read(file)
            if run:
                yield file, run


def _file(run_dir: str) -> Path:
    name = hashlib.sha256(os.fsencode(run_dir)).hexdigest()[:16]
    return state_directory() / "runs" / f"{name}.json"


def _read(file: Path) -> RegisteredRun | None:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if found.pop("version") != _VERSION:
            return None
        return RegisteredRun(**found)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        # A newer version of Headwater wrote it, or it is damaged: the run is not listed.
        return None


def _write(run: RegisteredRun) -> None:
    # Imported late: commands that only read do not need it.
    from headwater.checkpoint import LocalStore

    file = _file(run.run_dir)
    text = json.dumps({"version": _VERSION, **asdict(run)}, indent=1) + "\n"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        LocalStore(file.parent).replace(file.name, text.encode())
    except OSError as error:
        _LOG.warning("could not record the run in %s: %s", file, error)
