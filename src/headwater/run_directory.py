"""The run directory: every path that a run uses.

    .headwater/
      pipeline.json          the pipeline that owns the directory
      checkpoints/<sink>/    Spark's checkpoint, one per query; a group of sinks has one under its name
      checkpoints/<sink>.lock
      checkpoints.lock       the run that uses the directory
      checkpoints.lock.epoch its number, which stays and grows
      control.json           how other processes reach the run, while it is active
      control.sock           its socket
      backups/<sink>/        checkpoints from before Headwater changed them
      quarantine/<name>/     quarantined rows of a source or table
      queries/<sink>.json    metadata of the query at its last start
      queries/<group>/<sink>.json    the same for each sink of a group
      kafka/<sink>.json      the IDs of the topics whose offsets the checkpoint contains
      kafka/starts/<source>.json    the offsets of `latest`, until every query of the source has started
      findings.json          the findings of the check before the last start
      history.sqlite         the events, batches and status of past runs
      spark_metrics/         Spark's own metrics, if they go to CSV files
      schemas/<source>.json  inferred at the first start
      registry/<source>/     which schema IDs were known or unknown when they first arrived
      validated_files/<source>/    which files of a source could be opened, if they are validated first
      static/<source>/       copies of a static source's files, while a run uses them
      prove/<tag>/           scratch copies of a proof, while it runs
      logs/                  the full text of failures

No other module builds these paths, so that the directory can be moved to a different store in one place.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Imported late: commands that only ask a run need the paths alone.
    from headwater.checkpoint import CheckpointState, Store

_PIPELINE = "pipeline.json"
_CHECKPOINTS = "checkpoints"
_BACKUPS = "backups"
_CONTROL, _SOCKET = "control.json", "control.sock"
_QUARANTINE, _ROWS, _REPLAY = "quarantine", "rows", "replayed"
_QUERIES = "queries"
_FINDINGS = "findings.json"
_HISTORY = "history.sqlite"
_SPARK_METRICS = "spark_metrics"
_SCHEMAS = "schemas"
_REGISTRY = "registry"
_VALIDATED_FILES = "validated_files"
_SNAPSHOTS = "static"
_PROOFS = "prove"
_LOGS, _SPARK_LOG, _FAILURES_LOG = "logs", "spark.log", "failures.log"


@dataclass(frozen=True)
class QuarantineDirectory:
    """The directory of the quarantined rows of one source or table."""

    name: str
    path: Path

    @property
    def rows(self) -> Path:
        """What the quarantine's query has committed; Spark's log in it lists the valid files."""
        return self.path / _ROWS

    @property
    def replay(self) -> Path:
        """Replayed rows, one file per replay."""
        return self.path / _REPLAY

    @property
    def lock(self) -> Path:
        """Held while rows are selected for a replay."""
        return self.path / ".replay.lock"

    @property
    def replayed(self) -> list[Path]:
        """The files of replayed rows, oldest first."""
        return sorted(self.replay.glob("*.parquet"))


@dataclass(frozen=True)
class SourceDirectory:
    """The part of the run directory for one source: the paths that its connector can use."""

    path: Path
    """The run directory itself."""
    name: str

    @property
    def schema(self) -> Path:
        """Its schema as inferred at the first start."""
        return self.path / _SCHEMAS / f"{self.name}.json"

    @property
    def registry(self) -> Path:
        """Which schema IDs were known or unknown when they first arrived."""
        return self.path / _REGISTRY / self.name

    @property
    def snapshots(self) -> Path:
        """The copies of its files if it is static: one directory per path."""
        return self.path / _SNAPSHOTS / self.name

    def admitted(self, number: int) -> Path:
        """The record of the validated files of its path with this number."""
        return self.path / _VALIDATED_FILES / self.name / str(number)

    def note(self, connector: str, *names: str) -> Path:
        """A file for the connector's own use, in a directory with the connector's name."""
        return self.path.joinpath(connector, *names)


def may_be_admitted(path: str) -> bool:
    """Whether a path that a query reads may be the record of validated files and not a user's directory."""
    return f"/{_VALIDATED_FILES}/" in path


@dataclass(frozen=True)
class RunDirectory:
    """Everything a run stores, by path."""

    path: Path

    @property
    def store(self) -> Store:
        """Reads and writes its small files."""
        from headwater.checkpoint import LocalStore

        return LocalStore(self.path)

    def write(self, file: Path, text: str) -> None:
        """Write one of its files; a reader sees the old text or the new one, never a part."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self.store.replace(file.relative_to(self.path).as_posix(), text.encode())

    @property
    def pipeline(self) -> Path:
        """The file that names its owner."""
        return self.path / _PIPELINE

    @property
    def checkpoints(self) -> Path:
        return self.path / _CHECKPOINTS

    def checkpoint(self, sink: str) -> Path:
        return self.checkpoints / sink

    def state(self, sink: str, *, in_process: bool = False) -> CheckpointState:
        """What the next start of a sink finds; state that is `in_process` was lost with the last run."""
        from headwater.checkpoint import Checkpoint, CheckpointState, LocalStore
        from headwater.checkpoint.edits import following_of

        if in_process:
            return CheckpointState.RESET_AT_START
        checkpoint, following = self.checkpoint(sink), following_of(self.checkpoint(sink))
        # A crash may have happened while one checkpoint was replaced by the other.
        replaced = following.exists() and not checkpoint.exists()
        return Checkpoint(LocalStore(following if replaced else checkpoint)).state

    def proof(self, tag: str) -> Path:
        """The scratch copies of one proof."""
        return self.path / _PROOFS / tag

    @property
    def in_use(self) -> bool:
        """Whether a run has its lock, or was killed and left it behind."""
        return self.checkpoints.with_name(f"{_CHECKPOINTS}.lock").exists()

    @property
    def control(self) -> Path:
        """How other processes reach the run."""
        return self.path / _CONTROL

    @property
    def control_socket(self) -> Path:
        """The socket of the run, unless its path is too long for a socket."""
        return self.path / _SOCKET

    def backup(self, sink: str, at: datetime) -> Path:
        """The backup of a checkpoint from before Headwater changed it."""
        return self.path / _BACKUPS / sink / f"{at:%Y%m%dT%H%M%S%f}"

    def facts(self, sink: str, group: str | None = None) -> Path:
        """The metadata of the query at its last start, or of a sink of a group at that of the group."""
        return self.path.joinpath(_QUERIES, *([group] if group else []), f"{sink}.json")

    def groups_of(self, sink: str) -> list[str]:
        """The groups whose query wrote a sink at its last start."""
        return sorted(file.parent.name for file in (self.path / _QUERIES).glob(f"*/{sink}.json"))

    def group_facts(self, group: str) -> list[Path]:
        """The metadata of the sinks of a group at its last start."""
        return sorted((self.path / _QUERIES / group).glob("*.json"))

    @property
    def findings(self) -> Path:
        """The findings of the check before the last start."""
        return self.path / _FINDINGS

    @property
    def history(self) -> Path:
        """The events, batches and status of past runs."""
        return self.path / _HISTORY

    @property
    def spark_metrics(self) -> Path:
        """Spark's own metrics, one file for each."""
        return self.path / _SPARK_METRICS

    @property
    def logs(self) -> Path:
        """Spark's full log, and the full text of every failure."""
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
        """Every existing quarantine, by name."""
        names = self.store.names(_QUARANTINE)
        return tuple(each for each in map(self.quarantine, names) if each.path.is_dir())
