"""Sinks whose rows ended with their process: their queries begin anew at each start."""

from __future__ import annotations

import shutil
from pathlib import Path

from headwater.connectors import sink_side
from headwater.errors import CheckpointError
from headwater.errors.catalogue.memory import CHECKPOINT_NOT_REMOVED, SINK_KIND_CHANGED
from headwater.runtime.run_folder import RunFolder
from headwater.spec import SinkSpec

# It holds the id of the query, which stays the same.
_KEPT = ("metadata", ".metadata.crc")


def begin_anew(folder: RunFolder, sink: SinkSpec) -> str:
    """Take the old checkpoint away where the rows went with the last process; what was there, in a sentence.

    A table in memory holds the whole result of what its query has read. A checkpoint that stands at batch N
    beside an empty table would make it hold the rows from N on. Only the holder of the lock calls this, and
    after a crash halfway the next start takes the rest away.
    """
    checkpoint = folder.checkpoint(sink.name)
    if not sink_side(sink.connector).in_process or not checkpoint.is_dir():
        return ""
    done = [int(file.name) for file in checkpoint.glob("commits/*") if file.name.isdigit()]
    if done and folder.stored_facts(sink.name) is None:
        says = "each start of it would remove the checkpoint"
        problem = SINK_KIND_CHANGED.at(
            sink.position, sink=sink.name, old="unknown", new=sink.connector, says=says
        )
        raise CheckpointError(problem)
    try:
        for path in checkpoint.iterdir():
            _remove(path)
    except OSError as error:
        reason = error.strerror or str(error)
        problem = CHECKPOINT_NOT_REMOVED.at(
            sink.position, sink=sink.name, path=str(checkpoint), reason=reason
        )
        raise CheckpointError(problem) from error
    count = max(done, default=-1) + 1
    gone = "1 batch" if count == 1 else f"{count} batches"
    return (
        f"{sink.name}: a table in memory begins empty; the {gone} of the run before went with its process, "
        "and the sources are read from their start again"
    )


def _remove(path: Path) -> None:
    if path.name in _KEPT:
        return
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
