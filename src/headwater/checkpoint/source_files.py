"""Letting a planned batch of a file source read other files than those that were planned.

    sources/S/L            the files that source S has handed out in its own batch L, a line each
    sources/S/L.compact    the same for all batches up to L

Only lines of batches that no committed batch of the query has read are changed, so that nothing is read
twice or left out. Every file is in the backup before it is changed, and a change that a crash cut short is
done again by the next start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from headwater.checkpoint.batches import content, json_value, lines_of, listed
from headwater.checkpoint.file_logs import SourceFile, source_files
from headwater.checkpoint.logs import Checkpoint
from headwater.checkpoint.store import LocalStore, Store

_LOG = re.compile(r"(\d+)(\.compact)?", re.ASCII)


def uncommitted(store: Store, source: int) -> tuple[SourceFile, ...]:
    """The files that a source has handed out and no committed batch has read."""
    return source_files(store, source, _committed(store, source))


def change_files(store: Store, source: int, changes: Mapping[str, str], backup: Path) -> None:
    """Put other files, by their addresses, in the place of those that no committed batch has read."""
    after, folder = _committed(store, source), f"sources/{source}"
    for name in listed(store, folder):
        number = _LOG.fullmatch(name)
        data = content(store, f"{folder}/{name}") if number and int(number[1]) > after else None
        if data is None:
            continue
        changed = "\n".join([_changed(line, changes, after) for line in lines_of(data)]).encode()
        if changed != data:
            (backup / folder).mkdir(parents=True, exist_ok=True)
            LocalStore(backup).replace(f"{folder}/{name}", data)
            # Spark does not ask for a checksum that is not there, and takes a wrong one for damage.
            store.delete(f"{folder}/.{name}.crc")
            store.replace(f"{folder}/{name}", changed)


def _changed(line: str, changes: Mapping[str, str], after: int) -> str:
    if not line.startswith("{"):
        return line
    entry = json_value(line)
    if entry["batchId"] <= after or entry["path"] not in changes:
        return line
    return json.dumps({**entry, "path": changes[entry["path"]]}, separators=(",", ":"), ensure_ascii=False)


def _committed(store: Store, source: int) -> int:
    """The newest batch of a source's own that a committed batch of the query has read; -1 for none."""
    checkpoint = Checkpoint(store)
    commit = checkpoint.last_commit
    planned = checkpoint.offset(commit.batch_id) if commit else None
    reached = planned.sources.get(str(source)) if planned else None
    return int(reached.get("logOffset", -1)) if isinstance(reached, dict) else -1
