"""A checkpoint is made to fit the kind of trigger that goes on with it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from headwater.checkpoint import LocalStore, align, alignment
from headwater.runtime.run_folder import RunFolder
from headwater.spec import SinkSpec
from headwater.values import Continuous


def fit(folder: RunFolder, sink: SinkSpec, make_line: Callable[[], str]) -> str:
    """Do what the trigger asks for; what was done, in a sentence. Only the holder of the lock calls this."""
    checkpoint = folder.checkpoint(sink.name)
    if not checkpoint.is_dir():
        return ""
    store = LocalStore(checkpoint)
    continuous = isinstance(sink.trigger, Continuous)
    needed = alignment(store, continuous=continuous)
    if needed.routine or not needed.needed:
        align(store, needed, None, make_line)
        return ""
    backup = folder.backup(sink.name, datetime.now(UTC))
    align(store, needed, backup, make_line)
    following = "continuous epochs" if continuous else "batches"
    return f"{sink.name}: its checkpoint was made to go on with {following}; the old files are in {backup}"
