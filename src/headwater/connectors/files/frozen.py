"""A frozen copy of the files of a source: hard links, so that no data is copied and times stay the same."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
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
    else:
        _link_folder(original, copy, os.path.realpath(copy), ())


def _link_folder(folder: Path, target: Path, copy: str, above: tuple[str, ...]) -> None:
    real = os.path.realpath(folder)
    # The run directory, with this copy, can be inside; and a symbolic link can lead to a directory above.
    if real in above or copy == real:
        return
    target.mkdir(exist_ok=True)
    for name in _names(folder):
        each = folder / name
        if not each.is_dir():
            _link(each, target / name)
        elif _is_read(name) and not Path(copy).is_relative_to(os.path.realpath(each)):
            _link_folder(each, target / name, copy, (*above, real))


def _names(folder: Path) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        # It does not exist, or no longer.
        return []
    return [name for name in names if not name.startswith(".")]


def _is_read(folder: str) -> bool:
    """Whether Spark reads files of a directory of this name."""
    return not folder.startswith("_") or folder == SINK_LOG or "=" in folder


def _link(original: Path, copy: Path) -> None:
    # A link to a symbolic link would not lead to the same file.
    real = os.path.realpath(original)
    with suppress(FileNotFoundError):
        # It can disappear meanwhile.
        try:
            os.link(real, copy)
        except FileNotFoundError:
            raise
        except OSError:
            # Another file system, or one without links.
            shutil.copy2(real, copy)
