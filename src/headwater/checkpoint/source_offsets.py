"""Letting a query go on from elsewhere in one of its sources.

Where the next batch begins is what the newest committed batch read up to. So that is changed:

    offsets/N      N is committed: the source's line of this file alone
    offsets/N      N is planned and not committed: both lines, so that the batch, which runs again, reads
    offsets/N-1    nothing of what is changed; where N is the first batch, Kafka's own note of its start,
                   sources/S/0, stands for the file that is not there

Every file is in the backup before the first one is changed. After a crash halfway the same change is done
again, so it must not hang on what the lines said before.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.checkpoint.batches import NUMBER, DamagedFileError, content, json_value, lines_of, listed
from headwater.checkpoint.store import LocalStore, Store
from headwater.errors import CheckpointError
from headwater.errors.catalogue.checkpoints import ALIGNMENT_FAILED

Change = Callable[[Any], Any]


def change_source(store: Store, source: int, change: Change, backup: Path) -> bool:
    """Change what the checkpoint says of a source; False, and nothing done, where no batch was planned."""
    try:
        return _change(store, source, change, backup)
    except (OSError, DamagedFileError, ValueError, IndexError) as failure:
        reason = getattr(failure, "strerror", None) or str(failure)
        problem = ALIGNMENT_FAILED.at(folder=store.locate("offsets"), reason=reason)
        raise CheckpointError(problem) from failure


def _change(store: Store, source: int, change: Change, backup: Path) -> bool:
    planned, done = _ids(store, "offsets"), _ids(store, "commits")
    if not planned:
        return False
    newest = planned[-1]
    changed = {f"offsets/{newest}": _offsets}
    if not done or done[-1] < newest:
        before = f"offsets/{newest - 1}"
        earlier = {before: _offsets} if newest - 1 in planned else {f"sources/{source}/0": _noted}
        # What is begun from is changed first: the file that asks for it is the last one.
        changed = {**earlier, **changed}
    found = {name: data for name in changed if (data := content(store, name)) is not None}
    for name, data in found.items():
        # An earlier change may have kept it already, as it was before both.
        if not (backup / name).exists():
            (backup / name).parent.mkdir(parents=True, exist_ok=True)
            LocalStore(backup).replace(name, data)
    for name, data in found.items():
        folder, _, file = name.rpartition("/")
        new = changed[name](data, source, change)
        # Spark does not ask for a checksum that is not there, and takes a wrong one for damage.
        store.delete(f"{folder}/.{file}.crc")
        store.replace(name, new)
    return True


def _offsets(data: bytes, source: int, change: Change) -> bytes:
    version, settings, *lines = lines_of(data)
    prefix = ""
    if version.strip() != "v1":
        number, _, lines[source] = lines[source].partition(":")
        prefix = f"{number}:"
    if lines[source] != "-":
        lines[source] = _changed(lines[source], change)
    lines[source] = prefix + lines[source]
    return "\n".join((version, settings, *lines)).encode()


def _noted(data: bytes, source: int, change: Change) -> bytes:
    head, _, offsets = data.partition(b"\n")
    return head + b"\n" + _changed(offsets.decode(), change).encode()


def _changed(line: str, change: Change) -> str:
    return json.dumps(change(json_value(line)), separators=(",", ":"))


def _ids(store: Store, folder: str) -> list[int]:
    return sorted(int(name) for name in listed(store, folder) if NUMBER.fullmatch(name))
