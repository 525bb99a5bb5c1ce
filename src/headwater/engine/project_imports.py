"""The modules of a project that its files import, and these imports under the project's unique name."""

from __future__ import annotations

import ast
import importlib.util
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import BuiltinImporter, FrozenImporter
from os.path import abspath
from pathlib import Path

from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue import pipelines
from headwater.loaders.user_files import PythonFile, read_source


@dataclass(frozen=True)
class FoundModule:
    """A module of a project: its dotted name below the root, and its file (a plain directory has none)."""

    name: str
    file: Path | None
    package: bool

    @property
    def inside(self) -> str:
        """The package that relative imports of this module start from."""
        return self.name if self.package else self.name.rpartition(".")[0]


@dataclass(frozen=True)
class ReadModule:
    """A module that is needed, with the text of its file."""

    found: FoundModule
    source: PythonFile | None


class ProjectTree:
    """A project's directory, searched as Python would if it were first on the path."""

    def __init__(self, root: Path) -> None:
        self.root = Path(abspath(root))
        self._owned: dict[str, bool] = {}

    def owns(self, name: str) -> bool:
        """Whether an absolute import of this (dotted) name means a module of the project."""
        top = name.partition(".")[0]
        if top not in self._owned:
            self._owned[top] = self._owns(top)
        return self._owned[top]

    def _owns(self, top: str) -> bool:
        if BuiltinImporter.find_spec(top) or FrozenImporter.find_spec(top):
            return False
        found = self._locate(top)
        return found is not None and (found.file is not None or not self._installed(top))

    def _installed(self, top: str) -> bool:
        try:
            spec = importlib.util.find_spec(top)
        except ValueError:
            return True  # loaded by unusual means, so Python would use that one
        if spec is None:
            return False
        # The root may itself be on the path; then the directory finds itself.
        folders = [Path(abspath(folder)) for folder in spec.submodule_search_locations or ()]
        return spec.origin is not None or folders != [self.root / top]

    def chain(self, name: str) -> list[FoundModule]:
        """The modules that Python loads for a dotted name, outermost first, as far as they exist."""
        chain: list[FoundModule] = []
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            found = self._locate(".".join(parts[:length]))
            if found is None:
                break
            chain.append(found)
            if not found.package:
                break
        return chain

    def has(self, name: str) -> bool:
        """Whether the whole dotted name is a module of the project."""
        return [found.name for found in self.chain(name)][-1:] == [name]

    def _locate(self, name: str) -> FoundModule | None:
        folder = self.root.joinpath(*name.split("."))
        package, module = folder / "__init__.py", folder.parent / f"{folder.name}.py"
        if package.is_file():
            return FoundModule(name, package, package=True)
        if module.is_file():
            return FoundModule(name, module, package=False)
        if folder.is_dir() and any(folder.rglob("*.py")):
            return FoundModule(name, None, package=True)
        return None

    def path_of(self, file: Path) -> Path | None:
        """The file's path below the root, through any links; None if it is outside."""
        for path, root in ((Path(abspath(file)), self.root), (file.resolve(), self.root.resolve())):
            if path.is_relative_to(root):
                return path.relative_to(root)
        return None

    def name_of(self, file: Path) -> str:
        """The dotted name of a file of the project."""
        path = self.path_of(file)
        if path is None:
            raise PipelineError(pipelines.CODE_OUTSIDE_PROJECT.at(file=str(file), root=str(self.root)))
        parts = path.with_suffix("").parts
        if parts[-1:] == ("__init__",):
            parts = parts[:-1]
        if path.suffix != ".py" or not parts or any("." in part for part in parts):
            raise PipelineError(pipelines.CODE_FILE_NAME_INVALID.at(file=str(file)))
        return ".".join(parts)


def needed_modules(tree: ProjectTree, entries: Iterable[Path]) -> list[ReadModule]:
    """The entry files and everything that they import from the project, directly or indirectly, by name."""
    needed: dict[str, ReadModule] = {}
    problems: list[Problem] = []
    waiting: deque[FoundModule] = deque()
    for entry in entries:
        try:
            waiting.extend(_entry_chain(tree, entry))
        except PipelineError as error:
            problems.extend(error.problems)
    while waiting:
        found = waiting.popleft()
        if found.name in needed:
            continue
        try:
            source = read_source(found.file) if found.file else None
        except PipelineError as error:
            problems.extend(error.problems)
            source = None
        needed[found.name] = ReadModule(found, source)
        if source is not None:
            waiting.extend(
                module for name in _imported(tree, found, source.tree) for module in tree.chain(name)
            )
    if problems:
        raise PipelineError(*problems)
    return [needed[name] for name in sorted(needed)]


def _entry_chain(tree: ProjectTree, entry: Path) -> list[FoundModule]:
    name = tree.name_of(entry)
    file = tree.root / (tree.path_of(entry) or entry)
    # Identified by its path, so it is this file even if a package next to it has the same name.
    itself = FoundModule(name, file, package=file.name == "__init__.py")
    return [*(found for found in tree.chain(itself.name) if found.name != name), itself]


def _imported(tree: ProjectTree, module: FoundModule, syntax: ast.Module) -> Iterator[str]:
    """Every dotted name below the root that the file may import; some are functions, not modules."""
    for node in ast.walk(syntax):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names if tree.owns(alias.name))
            case ast.ImportFrom():
                base = _base(tree, module, node)
                if base is not None:
                    yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value) if module.package:
                yield from (f"{module.name}.{name}" for name in _texts(value))


def _base(tree: ProjectTree, module: FoundModule, node: ast.ImportFrom) -> str | None:
    """The target of `from BASE import …` below the root ("" is the root); None if outside the project."""
    if node.level == 0:
        return node.module if node.module and tree.owns(node.module) else None
    package = module.inside.split(".") if module.inside else []
    up = node.level - 1
    if up > len(package):
        return None
    return ".".join([*package[: len(package) - up], *([node.module] if node.module else [])])


def _texts(value: ast.expr) -> Iterator[str]:
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def under_name(syntax: ast.Module, package: str, owns: Callable[[str], bool]) -> ast.Module:
    """The same module, with its absolute imports of project modules redirected to `package`."""
    renamed: ast.Module = _Renamer(package, owns).visit(syntax)
    return ast.fix_missing_locations(renamed)


class _Renamer(ast.NodeTransformer):
    """Prefixes absolute imports of project modules with the package name; what they bind stays the same."""

    def __init__(self, package: str, owns: Callable[[str], bool]) -> None:
        self.package = package
        self.owns = owns

    def visit_Import(self, node: ast.Import) -> ast.Import:
        node.names = [new for alias in node.names for new in self._renamed(alias)]
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if node.level == 0 and node.module and self.owns(node.module):
            node.module = f"{self.package}.{node.module}"
        return node

    def _renamed(self, alias: ast.alias) -> list[ast.alias]:
        if not self.owns(alias.name):
            return [alias]
        top = alias.name.partition(".")[0]
        bindings = [(alias.name, alias.asname or top)]
        if alias.name != top and not alias.asname:
            # `import lib.rules` loads lib.rules but binds lib: load first, then bind.
            bindings.append((top, top))
        return [
            ast.copy_location(ast.alias(f"{self.package}.{name}", bound), alias) for name, bound in bindings
        ]
