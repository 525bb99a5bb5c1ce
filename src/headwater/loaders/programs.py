"""Telling a file that declares a pipeline from a plain program, without running either."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from headwater.loaders.python_functions import read_source

_HEADWATER = "headwater"
_PIPELINE = "Pipeline"


def declares_pipeline(file: Path) -> bool:
    """Whether a file makes a `headwater.Pipeline`, or a module beside it does that it imports."""
    return _declares(file, set())


def _declares(file: Path, seen: set[Path]) -> bool:
    seen.add(file)
    tree = read_source(file).tree
    if makes_pipeline(tree):
        return True
    beside = (found for found in _imported(tree, file.parent) if found not in seen)
    return any(_declares(found, seen) for found in beside if found not in seen)


def makes_pipeline(tree: ast.Module) -> bool:
    """Whether Headwater's `Pipeline` is called, under whichever name the file has for it."""
    packages, classes = set[str](), set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                named = (alias for alias in node.names if alias.name.partition(".")[0] == _HEADWATER)
                packages |= {alias.asname or _HEADWATER for alias in named}
            case ast.ImportFrom(module=str() as module) if module.partition(".")[0] == _HEADWATER:
                classes |= {alias.asname or alias.name for alias in node.names if alias.name == _PIPELINE}
    return any(_is_pipeline(node.func, packages, classes) for node in _calls(tree))


def _is_pipeline(called: ast.expr, packages: set[str], classes: set[str]) -> bool:
    match called:
        case ast.Name(id=name):
            return name in classes
        case ast.Attribute(attr="Pipeline", value=ast.Name(id=name)):
            return name in packages
    return False


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _imported(tree: ast.Module, folder: Path) -> Iterator[Path]:
    """The files beside a file that its imports name."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom(module=str() as module):
                names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
            case ast.ImportFrom():
                names = [alias.name for alias in node.names]
            case _:
                continue
        for name in names:
            path = folder.joinpath(*name.split("."))
            yield from (file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file())
