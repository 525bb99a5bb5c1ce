"""A frozen copy of the files of a source: hard links, so that no data is copied and times stay the same."""

from __future__ import annotations

import os
import shutil
from math import ceil
from pathlib import Path

from headwater.checkpoint import SINK_LOG
from headwater.connectors.files.options import FilesSource
from headwater.spec.paths import escaped, is_uri, split_fixed


def frozen(options: FilesSource, directory: Path, batches: int) -> FilesSource:
    """The same source over links in the directory. Paths on other file systems stay as they are.

    A directory that exists is used as it is, so that several processes read the same files.
    """
    paths: list[str] = []
    count = 0
    for number, pattern in enumerate(options.globs):
        if is_uri(pattern):
            paths.append(pattern)
            continue
        fixed, rest = split_fixed(pattern.rstrip("/"))
        copy = directory / str(number)
        if not copy.exists():
            _link_all(Path(fixed or "/"), copy)
        found = copy / Path(fixed).name if Path(fixed).is_file() else copy
        count += sum(len(files) for _, _, files in os.walk(copy))
        paths.append("/".join(filter(None, (escaped(str(found)), rest.lstrip("/")))))
    # Processed files are not removed: the links are a copy.
    changed: dict[str, object] = {"path": tuple(paths), "clean_up": None, "archive_dir": None}
    if count and options.max_files_per_batch is None and options.max_bytes_per_batch is None:
        changed["max_files_per_batch"] = max(1, ceil(count / batches))
    return options.model_copy(update=changed)


def _link_all(original: Path, copy: Path) -> None:
    """Link a file, or all files of a directory, into a new directory."""
    copy.mkdir(parents=True)
    if original.is_file():
        _link(original, copy / original.name)
        return
    for folder, names, files in os.walk(original):
        here = Path(folder)
        # The run directory, with this copy, can be inside.
        names[:] = [
            name for name in names if not name.startswith(".") and not copy.is_relative_to(here / name)
        ]
        names[:] = [name for name in names if not name.startswith("_") or name == SINK_LOG or "=" in name]
        target = copy / here.relative_to(original)
        target.mkdir(exist_ok=True)
        for name in files:
            if not name.startswith("."):
                _link(here / name, target / name)


def _link(original: Path, copy: Path) -> None:
    try:
        os.link(original, copy)
    except OSError:
        # Another file system, or one without links.
        shutil.copy2(original, copy)
