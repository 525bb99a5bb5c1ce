"""A package of compiled modules as a zip, and the way it takes to the executors."""

from __future__ import annotations

import atexit
import importlib.util
import marshal
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Protocol

# Version 2 writes the same bytes for the same code; later ones depend on what else the process holds. From
# version 5 on code may hold values that older ones can't write.
_MARSHAL = 2 if marshal.version < 5 else marshal.version
PLAIN = "_plain"
"""How the names of archives end whose modules have plain names, in no package of the archive's own."""
_UNCHECKED_HASH = (1).to_bytes(4, "little")


class PyFileTaker(Protocol):
    """What shipping needs of a SparkContext."""

    @property
    def listFiles(self) -> list[str]: ...  # noqa: N802

    def addPyFile(self, path: str) -> None: ...  # noqa: N802


def write_archive(
    folder: Path, name: str, modules: Iterable[tuple[str, CodeType]], package: str | None = None
) -> Path:
    """Write `name.zip`; the same modules always give the same bytes.

    The modules stand in a package of the archive's name, or in the one given; an empty one is none at all.
    """
    prefix = f"{name}/" if package is None else f"{package}/".lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.zip"
    handle, draft = tempfile.mkstemp(suffix=".zip", dir=folder)
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        for path, code in modules:
            # The constructor's date is fixed, and nothing is compressed: no clock, no zlib version.
            archive.writestr(zipfile.ZipInfo(f"{prefix}{path}.pyc"), _pyc(code))
    os.replace(draft, target)
    return target


def _pyc(code: CodeType) -> bytes:
    """Bytecode that is never compared with a source: executors have none."""
    body = marshal.dumps(code, _MARSHAL)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + importlib.util.source_hash(body) + body


def ship_archive(context: PyFileTaker, name: str, write: Callable[[Path], Path]) -> None:
    """Hand the archive to Spark once per context."""
    if any(path.endswith(f"/{name}.zip") for path in context.listFiles):
        return
    archive = write(_shipping_folder())
    if not name.endswith(PLAIN):
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(_unpacked())
    context.addPyFile(str(archive))


def driver_path() -> tuple[str, ...]:
    """Where a Python process on the driver to which Spark hands no files finds all that was shipped.

    Packages have names of their own and stand in one folder, so that this path, by which Spark tells its
    Python workers apart, is the same for all projects.
    """
    plain = sorted(_shipping_folder().glob(f"*{PLAIN}.zip"))
    return (str(_unpacked()), *map(str, plain))


def _unpacked() -> Path:
    return _shipping_folder() / "unpacked"


@cache
def _shipping_folder() -> Path:
    """Spark serves the file from here to executors that start later, so it lives as long as the process."""
    folder = tempfile.mkdtemp(prefix="headwater-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
