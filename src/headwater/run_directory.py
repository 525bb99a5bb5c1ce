"""The run directory: every path of what a run keeps.

    .headwater/
      pipeline.json          whose directory it is
      checkpoints/<sink>/    Spark's record of steps, one per query
      checkpoints/<sink>.lock
      checkpoints.lock       which run uses the directory
      checkpoints.lock.epoch its number, which stays and grows
      backups/<sink>/        checkpoints from before Headwater changed them
      quarantine/<name>/     rows that a source or table has quarantined
      facts/<sink>.json      what the query was at its last start
      kafka/<sink>.json      the ids of the topics whose offsets the checkpoint holds
      kafka/starts/<source>.json    what `latest` was, until every query of the source has begun
      findings.json          what the check before the last start found
      schemas/<source>.json  inferred at the first start
      registry/<source>/     which numbers of schemas were known or unknown when they first came
      admitted/<source>/     which files of a source could be opened, where that is tried first
      static/<source>/       copies of a static source's files, while a run uses them
      logs/                  the full text of what went wrong

Nothing else joins these names to a path, so that the directory can be moved to another store in one place.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from headwater.checkpoint import Checkpoint, CheckpointState, LocalStore, Store
from headwater.checkpoint.edits import following_of

_PIPELINE = "pipeline.json"
_CHECKPOINTS = "checkpoints"
_BACKUPS = "backups"
_QUARANTINE, _ROWS, _REPLAY = "quarantine", "rows", "again"
_FACTS = "facts"
_FINDINGS = "findings.json"
_SCHEMAS = "schemas"
_REGISTRY = "registry"
_ADMITTED = "admitted"
_SNAPSHOTS = "static"
_LOGS, _SPARK_LOG, _FAILURES_LOG = "logs", "spark.log", "failures.log"


@dataclass(frozen=True)
class QuarantineDirectory:
    """Where the rows of one source or table are that were quarantined."""

    name: str
    path: Path

    @property
    def rows(self) -> Path:
        """What the quarantine's query has committed; Spark's log in it says which files count."""
        return self.path / _ROWS

    @property
    def replay(self) -> Path:
        """Rows that are replayed, a file for each time."""
        return self.path / _REPLAY

    @property
    def lock(self) -> Path:
        """Held by who picks rows to replay."""
        return self.path / ".feeding"

    @property
    def replayed(self) -> list[Path]:
        """The files of rows that were replayed, oldest first."""
        return sorted(self.replay.glob("*.parquet"))


@dataclass(frozen=True)
class SourceDirectory:
    """What the run directory holds for one source: the paths that its connector may use."""

    path: Path
    """The run directory itself."""
    name: str

    @property
    def schema(self) -> Path:
        """Its schema as it was inferred at the first start."""
        return self.path / _SCHEMAS / f"{self.name}.json"

    @property
    def registry(self) -> Path:
        """Which numbers of schemas were known or unknown when they first came."""
        return self.path / _REGISTRY / self.name

    @property
    def snapshots(self) -> Path:
        """The copies of its files, where it is static: a directory for each of its paths."""
        return self.path / _SNAPSHOTS / self.name

    def admitted(self, number: int) -> Path:
        """The record of the files of its path of this number."""
        return self.path / _ADMITTED / self.name / str(number)

    def note(self, connector: str, *names: str) -> Path:
        """A file that a connector keeps for itself, in a directory of its name."""
        return self.path.joinpath(connector, *names)


def may_be_admitted(path: str) -> bool:
    """Whether a path that a query reads may be the record of admitted files and not a user's directory."""
    return f"/{_ADMITTED}/" in path


@dataclass(frozen=True)
class RunDirectory:
    """Everything a run stores, by path."""

    path: Path

    @property
    def store(self) -> Store:
        """Through which its own small files are read and written."""
        return LocalStore(self.path)

    def write(self, file: Path, text: str) -> None:
        """Write one of its files; a reader sees the old text or the new one, never half of it."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self.store.replace(file.relative_to(self.path).as_posix(), text.encode())

    @property
    def pipeline(self) -> Path:
        """Whose directory it is."""
        return self.path / _PIPELINE

    @property
    def checkpoints(self) -> Path:
        return self.path / _CHECKPOINTS

    def checkpoint(self, sink: str) -> Path:
        return self.checkpoints / sink

    def state(self, sink: str, *, in_process: bool = False) -> CheckpointState:
        """What the next start of a sink finds; what is `in_process` ended with the last run."""
        if in_process:
            return CheckpointState.RESET_AT_START
        checkpoint, following = self.checkpoint(sink), following_of(self.checkpoint(sink))
        # A crash may have come just when one checkpoint was to take the place of the other.
        replaced = following.exists() and not checkpoint.exists()
        return Checkpoint(LocalStore(following if replaced else checkpoint)).state

    @property
    def in_use(self) -> bool:
        """Whether a run has its lock, or was killed and has left it behind."""
        return self.checkpoints.with_name(f"{_CHECKPOINTS}.lock").exists()

    def backup(self, sink: str, at: datetime) -> Path:
        """Where a checkpoint is kept from before Headwater changed it."""
        return self.path / _BACKUPS / sink / f"{at:%Y%m%dT%H%M%S%f}"

    def facts(self, sink: str) -> Path:
        """What the query was at its last start."""
        return self.path / _FACTS / f"{sink}.json"

    @property
    def findings(self) -> Path:
        """What the check before the last start found."""
        return self.path / _FINDINGS

    @property
    def logs(self) -> Path:
        """The full text of what Spark says, and of every failure."""
        return self.path / _LOGS

    @property
    def spark_log(self) -> Path:
        return self.logs / _SPARK_LOG

    @property
    def failures_log(self) -> Path:
        return self.logs / _FAILURES_LOG

    def source(self, name: str) -> SourceDirectory:
        return SourceDirectory(self.path, name)

    def quarantine(self, name: str) -> QuarantineDirectory:
        return QuarantineDirectory(name, self.path / _QUARANTINE / name)

    def quarantines(self) -> tuple[QuarantineDirectory, ...]:
        """Every quarantine that there is, by name."""
        names = self.store.names(_QUARANTINE)
        return tuple(each for each in map(self.quarantine, names) if each.path.is_dir())
