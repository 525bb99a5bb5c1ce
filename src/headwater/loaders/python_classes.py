"""What a class in a user's Python file has, read from its text without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.connectors.user_classes import arguments_problem, class_problems, method_missing
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.userclasses import CLASS_NEEDS_ARGUMENTS, NOT_A_CLASS, PYTHON_CLASS_MISSING
from headwater.loaders.python_functions import find_statement, nearest_first, read_source, statements
from headwater.spec import ClassRef, Method
from headwater.values import Position


@dataclass(frozen=True)
class DeclaredClass:
    """A `class` of a user's file: its line, and its methods by name."""

    name: str
    position: Position
    methods: Mapping[str, ast.FunctionDef]
    whole: bool
    """Nothing comes from another class or a decorator: what is not here is missing."""


def declared_class(file: Path, name: str, place: Position | None = None) -> DeclaredClass | None:
    """The class with this (dotted) name; `place` is where the user refers to it.

    None for a name that gets its value in another way, such as an import: what it is, is not told here.
    """
    tree = read_source(file, place).tree
    found = find_statement(tree, name)
    if found is None:
        known = nearest_first(name, _class_names(tree))
        at = place or Position(str(file), 1)
        raise PipelineError(PYTHON_CLASS_MISSING.at(at, file=str(file), name=name, known=known))
    if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
        raise PipelineError(NOT_A_CLASS.at(place, name=name, file=str(file), kind="a function"))
    if not isinstance(found, ast.ClassDef):
        return None
    methods = {node.name: node for node in statements(found.body) if isinstance(node, ast.FunctionDef)}
    bases = [base for base in found.bases if ast.unparse(base) != "object"]
    whole = not bases and not found.keywords and not found.decorator_list
    position = Position(str(file), found.lineno, found.col_offset + 1)
    return DeclaredClass(name, position, methods, whole)


def class_ref_problems(ref: ClassRef, methods: Sequence[Method], place: Position | None) -> Iterator[Problem]:
    """What certainly keeps a class that a pipeline names from being used."""
    if ref.function is not None:
        yield from class_problems(ref, ref.function, methods, place)
        return
    try:
        found = declared_class(Path(ref.file), ref.name, place)
    except PipelineError as error:
        yield from error.problems
        return
    if found is None:
        return
    # Whoever calls no methods makes no object, either: Spark makes it, in its own way.
    made = found.methods.get("__init__") if methods else None
    needs = _needed(made.args)[1:] if made else []
    if needs and made and not made.decorator_list:
        yield CLASS_NEEDS_ARGUMENTS.at(_at(ref, made), name=ref.name, needs=", ".join(needs))
    for method in methods:
        yield from _method_problems(ref, found, method)


def _method_problems(ref: ClassRef, found: DeclaredClass, method: Method) -> Iterator[Problem]:
    node = found.methods.get(method.name)
    if node is None:
        if found.whole and method.required and not _is_assigned(found, method):
            yield method_missing(ref.name, method, found.position)
    elif not node.decorator_list and not _fits(node.args, len(method.passes) + 1):
        yield arguments_problem(ref.name, method, ast.unparse(node.args), _at(ref, node))


def _is_assigned(found: DeclaredClass, method: Method) -> bool:
    """Whether the name gets its value in another way than by a `def`, such as `process = send`."""
    tree = read_source(Path(found.position.file)).tree
    return find_statement(tree, f"{found.name}.{method.name}") is not None


def _needed(given: ast.arguments) -> list[str]:
    """The parameters without a default."""
    places = [*given.posonlyargs, *given.args]
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    needed = places[: len(places) - len(given.defaults)]
    return [arg.arg for arg in needed] + [arg.arg for arg, default in named if default is None]


def _fits(given: ast.arguments, count: int) -> bool:
    """Whether so many arguments can be given by place."""
    places = len(given.posonlyargs) + len(given.args)
    named = any(default is None for default in given.kw_defaults)
    least = places - len(given.defaults)
    return least <= count and (given.vararg is not None or count <= places) and not named


def _at(ref: ClassRef, node: ast.FunctionDef) -> Position:
    return Position(ref.file, node.lineno, node.col_offset + 1)


def _class_names(tree: ast.Module) -> list[str]:
    return [node.name for node in statements(tree.body) if isinstance(node, ast.ClassDef)]
