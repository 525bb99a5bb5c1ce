"""The user's modules under a unique name: loaded on the driver, packed for the executors.

A project's modules become submodules of one package, `hw_<hash>`. The hash covers the root directory and the
text of every module, so changed code has a new name: neither this process nor a long-lived Python worker can
confuse it with what it loaded before, or with a module of the same name in another project.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import importlib
import importlib.util
import marshal
import os
import re
import shutil
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from inspect import signature
from pathlib import Path
from types import CodeType, FunctionType, ModuleType, TracebackType
from typing import Any, Protocol

from headwater.connectors import all_connectors
from headwater.engine.project_imports import ProjectTree, ReadModule, needed_modules, under_name
from headwater.errors import Entry, HeadwaterError, PipelineError, Problem
from headwater.errors.catalogue import pipelines
from headwater.loaders.keys import known_keys
from headwater.loaders.python_form import Declarations, expect
from headwater.loaders.user_files import name_missing
from headwater.values.renamed import form_of, renamed
from headwater.values.user_frames import PACKAGE_PREFIX, Position

# A package of compiled modules as a zip, and its way to the executors.

# Version 2 writes the same bytes for the same code; later ones depend on the state of the process. From
# version 5 on, code may contain values that older ones cannot write.
_MARSHAL = 2 if marshal.version < 5 else marshal.version
PLAIN = "_plain"
"""The suffix of archives whose modules have plain names, without a package of the archive's own."""
_UNCHECKED_HASH = (1).to_bytes(4, "little")


class PyFileTaker(Protocol):
    """What shipping needs of a SparkContext."""

    @property
    def listFiles(self) -> list[str]: ...  # noqa: N802

    def addPyFile(self, path: str) -> None: ...  # noqa: N802


def write_archive(
    folder: Path, name: str, modules: Iterable[tuple[str, CodeType]], package: str | None = None
) -> Path:
    """Write `name.zip`; the same modules always produce the same bytes.

    The modules are in a package with the archive's name, or in the given one; an empty name means no package.
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
    """Pass the archive to Spark once per context."""
    if any(path.endswith(f"/{name}.zip") for path in context.listFiles):
        return
    archive = write(_shipping_folder())
    if not name.endswith(PLAIN):
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(_unpacked())
    context.addPyFile(str(archive))


def driver_path() -> tuple[str, ...]:
    """Where a Python process on the driver that gets no files from Spark finds everything that was shipped.

    Packages have unique names and are in one directory, so that this path, by which Spark distinguishes its
    Python workers, is the same for all projects.
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


@dataclass(frozen=True)
class ProjectModule:
    """One module, compiled: its file (a directory without `__init__.py` has none) and its code."""

    file: Path | None
    package: bool
    code: CodeType


@dataclass(frozen=True)
class ProjectCode:
    """The modules that a pipeline needs from its project, by their dotted names below the root.

    They stay as they were when they were read: a file that changes or disappears later has no effect here.
    """

    root: Path
    name: str
    modules: Mapping[str, ProjectModule] = field(repr=False, compare=False)

    @classmethod
    def of(cls, root: Path, entries: Iterable[Path]) -> ProjectCode:
        """Read the entry files and every module of the project that they import, directly or indirectly."""
        tree = ProjectTree(root)
        read = needed_modules(tree, entries)
        name = unique_name(tree.root, read)
        modules = {module.found.name: _compiled(module, name, tree) for module in read}
        return cls(tree.root, name, modules)

    @property
    def files(self) -> tuple[Path, ...]:
        """The user's files, in the order of their module names."""
        return tuple(module.file for module in self.modules.values() if module.file)

    def load(self, file: Path, *, by_value: bool = False) -> ModuleType:
        """The module of this file; runs it on the driver if it has not run yet.

        With `by_value`, Spark sends its functions as a whole instead of by name. This is required for a file
        that declares the pipeline, because the executors cannot import it without Headwater. The same applies
        to the module of a `@udf("bigint")`: only the driver can parse a type that is written as a string.
        """
        name = self._module_name(file)
        _FINDER.add(self)
        try:
            module = importlib.import_module(f"{self.name}.{name}")
        except HeadwaterError:
            raise
        except (Exception, SystemExit) as error:
            raise PipelineError(self._failure(file, error)) from error
        loaded = [sys.modules[name] for name in list(sys.modules) if name.startswith(f"{self.name}.")]
        for each in (*_for_the_driver_only(loaded), *([module] if by_value else [])):
            _send_by_value(each)
        return module

    def function(self, file: Path, name: str, place: Position | None = None) -> Callable[..., Any]:
        """The function or class with this (dotted) name; `place` is where the user refers to it."""
        module = self.load(file)
        at = place or Position(str(file), 1)
        value: object = module
        for part in name.split("."):
            if not hasattr(value, part):
                raise PipelineError(name_missing(at, file, "function", name, _own_callables(module)))
            value = getattr(value, part)
        if not callable(value):
            told = {"kind": f"a value of type {type(value).__name__}", "wanted": "a function"}
            raise PipelineError(pipelines.CODE_NAME_INVALID.at(at, name=name, file=str(file), **told))
        return value

    def archive(self, folder: Path) -> Path:
        """Write the package as a zip that any Python of this version can import."""
        return write_archive(folder, self.name, _archived(self.modules))

    def ship(self, context: PyFileTaker) -> None:
        """Make the package available to the executors of this Spark context, before its first use there."""
        ship_archive(context, self.name, self.archive)

    def user_line(self, trace: TracebackType | None) -> Position | None:
        """The innermost line of the traceback in the user's own code."""
        own = [step for step in _steps(trace) if self._is_own(step)]
        return Position(own[-1].tb_frame.f_code.co_filename, own[-1].tb_lineno) if own else None

    def _is_own(self, step: TracebackType) -> bool:
        return Path(step.tb_frame.f_code.co_filename) in self.files

    def _module_name(self, file: Path) -> str:
        name = ProjectTree(self.root).name_of(file)
        if name not in self.modules:
            raise ValueError(f"{file} is not one of the files of this project")
        return name

    def _failure(self, file: Path, error: BaseException) -> Problem:
        """The problem to report when loading a module raised an exception."""
        place = self.user_line(error.__traceback__) or Position(str(file), 1)
        own = (step for step in _steps(error.__traceback__) if self._is_own(step))
        lines = traceback.format_exception(type(error), error, next(own, error.__traceback__))
        entry, params = self._diagnosis(error)
        return Problem(entry, params, place, detail=self._in_user_words("".join(lines)))

    def _diagnosis(self, error: BaseException) -> tuple[Entry, dict[str, object]]:
        if isinstance(error, ModuleNotFoundError) and error.name and self._imports_itself(error):
            return self._import_failure(error.name)
        if _NO_SPARK in str(error):
            return pipelines.CODE_NEEDS_SPARK, {}
        argument = _UNKNOWN_ARGUMENT.match(str(error)) if isinstance(error, TypeError) else None
        call, known = _declaring(argument[1]) if argument else ("", ())
        new = renamed(argument[2], known) if argument else None
        if argument and new:
            params = {"where": f"`{call}()`", "key": argument[2], "new": new, "form": form_of(new)}
            return pipelines.KEY_RENAMED, params
        return pipelines.CODE_FAILED, {"exception": self._in_user_words(_one_line(error))}

    def _imports_itself(self, error: BaseException) -> bool:
        """Whether the failed import is in the user's own file, not in a package that it imports."""
        steps = [step for step in _steps(error.__traceback__) if not _is_import_machinery(step)]
        return bool(steps) and self._is_own(steps[-1])

    def _import_failure(self, missing: str) -> tuple[Entry, dict[str, object]]:
        module = missing.removeprefix(f"{self.name}.")
        tree = ProjectTree(self.root)
        dynamic = tree.owns(module) if module == missing else tree.has(module)
        entry = pipelines.CODE_DYNAMIC_IMPORT if dynamic else pipelines.CODE_NOT_INSTALLED
        return entry, {"module": module}

    def _in_user_words(self, text: str) -> str:
        return text.replace(f"{self.name}.", "")


# PySpark's own message; `udf("double")` asks the JVM what "double" means.
_NO_SPARK = "[SESSION_OR_CONTEXT_NOT_EXISTS]"
_UNKNOWN_ARGUMENT = re.compile(r"([\w.]+)\(\) got an unexpected keyword argument '(\w+)'")


def _declaring(call: str) -> tuple[str, Collection[str]]:
    """A call that declares a part of a pipeline, as users write it, and its parameters; none for other calls."""
    connector, method = all_connectors().get(call), call.removeprefix(f"{Declarations.__name__}.")
    if connector:
        sides = [side.options for side in (connector.source, connector.sink) if side]
        return call, {key for side in sides for key in known_keys(side)}
    if call == expect.__name__:
        return call, signature(expect).parameters
    if method != call:
        shown = "Pipeline" if method == "__init__" else f"Pipeline.{method}"
        return shown, signature(getattr(Declarations, method)).parameters
    return "", ()


class _ProjectFinder(MetaPathFinder):
    """Finds the modules of every project that was loaded in this process."""

    def __init__(self) -> None:
        self.projects: dict[str, ProjectCode] = {}

    def add(self, project: ProjectCode) -> None:
        self.projects.setdefault(project.name, project)
        if self not in sys.meta_path:
            # First: Spark also puts the archive on this process's path.
            sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, _, name = fullname.partition(".")
        project = self.projects.get(top)
        if project is None:
            return None
        if not name:
            return ModuleSpec(top, _ProjectLoader(top, str(project.root), _NOTHING), is_package=True)
        module = project.modules.get(name)
        if module is None:
            # Not None: another finder would load what the executors will not have.
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return _spec(fullname, module, project.root)


class _ProjectLoader(SourceFileLoader):
    """Runs precompiled code, so no cached bytecode is read or written."""

    def __init__(self, fullname: str, path: str, code: CodeType) -> None:
        super().__init__(fullname, path)
        self.code = code

    def get_code(self, fullname: str) -> CodeType:
        return self.code


_NOTHING = compile("", "<headwater>", "exec", dont_inherit=True)
_FINDER = _ProjectFinder()


def _spec(fullname: str, module: ProjectModule, root: Path) -> ModuleSpec | None:
    folder = str(root.joinpath(*fullname.split(".")[1:]))
    if module.file is None:
        spec = ModuleSpec(fullname, _ProjectLoader(fullname, folder, module.code), is_package=True)
        spec.submodule_search_locations = [folder]
        return spec
    return spec_from_file_location(
        fullname,
        module.file,
        loader=_ProjectLoader(fullname, str(module.file), module.code),
        submodule_search_locations=[folder] if module.package else None,
    )


def unique_name(root: Path, modules: Iterable[ReadModule]) -> str:
    """The name of a project in its current state: a different directory or content has a different name."""
    digest = hashlib.sha256(str(root).encode("utf-8", "surrogateescape"))
    for module in modules:
        content = module.source.content if module.source else b""
        kind = "package" if module.found.package else "module"
        digest.update(f"\0{module.found.name}\0{kind}\0{len(content)}\0".encode() + content)
    return f"{PACKAGE_PREFIX}{digest.hexdigest()[:16]}"


def _compiled(module: ReadModule, name: str, tree: ProjectTree) -> ProjectModule:
    found, source = module.found, module.source
    if source is None:
        return ProjectModule(found.file, found.package, _NOTHING)
    syntax: ast.Module = under_name(source.tree, name, tree.owns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code: CodeType = compile(syntax, str(found.file), "exec", dont_inherit=True)
    return ProjectModule(found.file, found.package, code)


def _archived(modules: Mapping[str, ProjectModule]) -> Iterator[tuple[str, CodeType]]:
    """The path inside the package and the code of each module, the root first."""
    yield "__init__", _NOTHING
    for name, module in modules.items():
        yield name.replace(".", "/") + ("/__init__" if module.package else ""), module.code


def _for_the_driver_only(modules: Iterable[ModuleType]) -> list[ModuleType]:
    """Modules that executors cannot import: a Python function with its type as a string, or users of one."""
    found: list[ModuleType] = []
    rest = list(modules)
    while more := [module for module in rest if _has_type_as_text(module) or _imports_any(module, found)]:
        found += more
        rest = [module for module in rest if module not in more]
    return found


def _has_type_as_text(module: ModuleType) -> bool:
    functions = (value for value in vars(module).values() if isinstance(value, FunctionType))
    udfs = (getattr(function, "_unwrapped", None) for function in functions)
    return any(isinstance(getattr(udf, "_returnType", None), str) for udf in udfs)


def _imports_any(module: ModuleType, others: Iterable[ModuleType]) -> bool:
    names = {other.__name__ for other in others}
    return any(_home(value) in names for value in vars(module).values())


def _home(value: object) -> str | None:
    if isinstance(value, ModuleType):
        return value.__name__
    return value.__module__ if isinstance(value, FunctionType | type) else None


def _send_by_value(module: ModuleType) -> None:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _steps(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_import_machinery(step: TracebackType) -> bool:
    module = str(step.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] == "importlib" or module == __name__


def _one_line(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _own_callables(module: ModuleType) -> list[str]:
    values = vars(module).items()
    return [
        name
        for name, value in values
        if callable(value) and getattr(value, "__module__", "") == module.__name__
    ]
