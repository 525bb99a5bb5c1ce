"""The user's Python code on its way to the executors, whichever way the pipeline was declared."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

from headwater.connectors import sink_side, source_side
from headwater.engine.project_code import (
    PLAIN,
    ProjectCode,
    PyFileTaker,
    ship_archive,
    unique_name,
    write_archive,
)
from headwater.engine.project_imports import ProjectTree, needed_modules
from headwater.spec import FunctionRef, PipelineSpec
from headwater.values.user_frames import PACKAGE_PREFIX, is_users


def ship_user_code(spec: PipelineSpec, context: PyFileTaker) -> ProjectCode | None:
    """Make the executors find every module that the pipeline's functions need.

    Functions named in YAML are loaded by us, under a name unique to the project. A `pipeline.py` that was
    handed to a command was loaded the same way. Where the user's own script or notebook declares the
    pipeline, its modules have been imported under their plain names, so these are what the executors get.
    """
    refs = list(_functions(spec))
    named = sorted({Path(ref.file) for ref in refs if ref.function is None})
    code = ProjectCode.of(spec.root, named) if named else None
    if code:
        code.ship(context)
    at_hand = [ref for ref in refs if ref.function is not None]
    loaded = [_module(ref).startswith(PACKAGE_PREFIX) for ref in at_hand]
    if any(loaded):
        ProjectCode.of(spec.root, [Path(os.path.abspath(spec.declared_in))]).ship(context)
    if not all(loaded):
        _ship_plain(spec.root, context)
    return code


def _functions(spec: PipelineSpec) -> Iterator[FunctionRef]:
    yield from (declared.function for declared in spec.functions if declared.function)
    yield from (table.function for table in spec.tables if table.function)
    for sink in spec.sinks:
        yield from sink_side(sink.connector).functions(sink.options)
    for source in spec.sources:
        yield from source_side(source.connector).functions(source.options)


def _module(ref: FunctionRef) -> str:
    return str(getattr(ref.function, "__module__", ""))


def _ship_plain(root: Path, context: PyFileTaker) -> None:
    """Ship the modules of the project that this process has imported, and what they import in turn."""
    entries = sorted(set(_imported_files(root)))
    if not entries:
        return
    modules = needed_modules(ProjectTree(root), entries)
    name = f"{unique_name(root, modules)}{PLAIN}"

    def compiled() -> Iterator[tuple[str, CodeType]]:
        for module in modules:
            path = module.found.name.replace(".", "/") + ("/__init__" if module.found.package else "")
            # A folder without `__init__.py` gets an empty one: inside an archive Python would not find it.
            code = module.source.tree if module.source else ""
            yield path, compile(code, str(module.found.file), "exec", dont_inherit=True)

    ship_archive(context, name, lambda folder: write_archive(folder, name, compiled(), package=""))


def _imported_files(root: Path) -> Iterator[Path]:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        plain = name not in ("__main__", "__mp_main__") and not name.startswith(PACKAGE_PREFIX)
        if plain and file and file.endswith(".py") and is_users(file, root):
            yield Path(file)
