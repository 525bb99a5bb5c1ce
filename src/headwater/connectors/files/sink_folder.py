"""The folder of a files sink as it lies on the disk: its log's entries by their names there."""

from __future__ import annotations

from pathlib import Path

from headwater.checkpoint import LocalStore, SinkFile, SinkLog
from headwater.errors import CheckpointError
from headwater.errors.catalogue.files_sink import FILE_OUTSIDE_FOLDER
from headwater.spec.paths import local_path

KEPT = "_headwater"
"""What Headwater keeps in the folder; Spark and other readers pass over names that begin with `_`."""


def name_in(folder: Path, file: SinkFile) -> str:
    """A file of the log as a path relative to the folder, with `/` between its parts."""
    path = _path(file)
    if path.is_relative_to(folder):
        return path.relative_to(folder).as_posix()
    raise CheckpointError(FILE_OUTSIDE_FOLDER.at(None, file=str(path), folder=str(folder)))


def named_outside(folder: Path) -> str | None:
    """A file elsewhere that the folder's log names: Spark writes whole paths, which stay after a move."""
    paths = (_path(file) for file in SinkLog(LocalStore(folder)).files())
    return next((str(path) for path in paths if not _lies_in(path, folder)), None)


def _path(file: SinkFile) -> Path:
    return local_path(file.path) or Path(file.path)


def _lies_in(path: Path, folder: Path) -> bool:
    # The same folder may have been written through a link.
    return path.is_relative_to(folder) or path.resolve().is_relative_to(folder.resolve())
