"""Exchanging files in the log of a file sink: the same rows in other files, in one step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.checkpoint.batches import Batches, content, json_object, text_field
from headwater.checkpoint.file_logs import SINK_LOG
from headwater.checkpoint.store import Store
from headwater.errors.catalogue import checkpoints as catalogue


@dataclass(frozen=True)
class NewFile:
    """A file that takes the place of others; `like` is one of them, in whose folder it lies."""

    name: str
    size: int
    modified_ms: int
    like: str


def exchange(output: Store, batch_id: int, new: Mapping[NewFile, frozenset[str]]) -> bool:
    """Put new files into `_spark_metadata/<batch_id>.compact` in the place of old ones, all at once.

    Old files are named as the log names them. False, and nothing changed, if one of them is not listed there.

    Spark reads the newest compact file and the batches after it, and says `add` only: an entry can't be taken
    back by a later one. So the newest compact file itself is replaced, by one rename; its name, from which
    Spark works out where the next one is due, stays. Its checksum goes first: a file without one is not
    verified, while one that does not fit makes the log unreadable. Spark writes the next compact file from
    this one. Should it be doing that in this very moment, it may have read the old lines, and its file then
    names the old files again: at every moment the log names the old ones or the new ones, never both.
    """
    name = f"{batch_id}.compact"
    log = Batches(output, SINK_LOG, 1, catalogue.FILE_LOG_DAMAGED, _entries)
    data = content(output, f"{SINK_LOG}/{name}")
    entries = log.decode(batch_id, name, data) if data is not None else {}
    gone = frozenset().union(*new.values())
    if not gone <= entries.keys():
        return False
    made = [_entry(file, entries[file.like]) for file in new]
    kept = [entry for path, entry in entries.items() if path not in gone]
    lines = [json.dumps(entry, separators=(",", ":")) for entry in (*made, *kept)]
    output.delete(f"{SINK_LOG}/.{name}.crc")
    output.replace(f"{SINK_LOG}/{name}", "\n".join(["v1", *lines]).encode())
    return True


def _entries(batch_id: int, version: int, lines: list[str]) -> dict[str, dict[str, Any]]:
    return {text_field(entry, "path"): entry for entry in map(json_object, lines)}


def _entry(file: NewFile, like: Mapping[str, Any]) -> dict[str, Any]:
    path = f"{str(like['path']).rpartition('/')[0]}/{file.name}"
    return {**like, "path": path, "size": file.size, "modificationTime": file.modified_ms}
