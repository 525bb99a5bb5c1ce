"""What a user's Python file declares, read from its text without running it."""

from __future__ import annotations

import ast
import importlib.util
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue import usercode
from headwater.values.positions import Position

_MOST_NAMES = 10


@dataclass(frozen=True)
class Source:
    """A Python file that was read once: its bytes, and its syntax tree, which Python accepts."""

    file: Path
    content: bytes
    tree: ast.Module


@dataclass(frozen=True)
class DeclaredFunction:
    """A `def` of a user's file: its name there, its parameters, its line."""

    name: str
    parameters: tuple[str, ...]
    position: Position
    optional: frozenset[str] = frozenset()
    """The parameters that have a default."""
    unnamed: str | None = None
    """The first parameter that can't be passed by its name, in words."""


def declared_function(file: Path, name: str, place: Position | None = None) -> DeclaredFunction:
    """The function with this (dotted) name; `place` is where the user refers to it."""
    found = _found(file, name, place)
    if isinstance(found, ast.FunctionDef):
        named = tuple(arg.arg for arg in (*found.args.args, *found.args.kwonlyargs))
        position, optional, unnamed = _position(file, found), _optional(found.args), _unnamed(found.args)
        return DeclaredFunction(name, named, position, optional, unnamed)
    at = place or Position(str(file), found.lineno)
    raise PipelineError(usercode.FUNCTION_NOT_DEFINED_HERE.at(at, function=name, file=str(file)))


def called_function(
    file: Path, name: str, passed: tuple[str, ...], place: Position | None = None
) -> Position | None:
    """Where the `def` of a function stands that is called with `passed`, by place.

    None for a name that gets its value in another way, such as an import: what it takes is not told here.
    """
    found = _found(file, name, place)
    if not isinstance(found, ast.FunctionDef):
        return None
    position, given = _position(file, found), found.args
    places = [*given.posonlyargs, *given.args]
    needed = len(places) - len(given.defaults)
    named = any(default is None for default in given.kw_defaults)
    decorated = bool(found.decorator_list) or "." in name
    fits = needed <= len(passed) and (given.vararg is not None or len(places) >= len(passed)) and not named
    # What a decorator makes of a function can take something else.
    if not fits and not decorated:
        raise PipelineError(arguments_problem(position, name, ast.unparse(given), passed))
    return position


def arguments_problem(place: Position | None, name: str, takes: str, passed: tuple[str, ...]) -> Problem:
    """The problem of a function that can't take what it is called with."""
    return usercode.FUNCTION_ARGUMENTS.at(
        place,
        function=name,
        short=name.rpartition(".")[2],
        takes=takes,
        count=len(passed),
        passed=", ".join(passed),
    )


def _found(file: Path, name: str, place: Position | None) -> ast.stmt:
    """The statement that gives the name its value."""
    tree = read_source(file, place).tree
    found = find_statement(tree, name)
    if found is None:
        at = place or Position(str(file), 1)
        raise PipelineError(function_missing(at, file, name, _function_names(tree)))
    return found


def _position(file: Path, found: ast.FunctionDef) -> Position:
    return Position(str(file), found.lineno, found.col_offset + 1)


def function_missing(place: Position, file: Path, name: str, known: Iterable[str]) -> Problem:
    """The problem of a name that the file does not have."""
    return usercode.FUNCTION_MISSING.at(
        place, file=str(file), function=name, known=nearest_first(name, known)
    )


def nearest_first(name: str, known: Iterable[str]) -> str:
    """The known names that come nearest to a mistyped one, for a sentence."""

    def unlikeness(other: str) -> tuple[float, str]:
        return -SequenceMatcher(None, name.lower(), other.lower()).ratio(), other

    return ", ".join(sorted(set(known), key=unlikeness)[:_MOST_NAMES]) or "none"


def read_source(file: Path, place: Position | None = None) -> Source:
    """Read and parse one file; `place` is where the user refers to it."""
    content = _read(file, place)
    _decode(file, content)
    with warnings.catch_warnings():
        # A file is read more than once, and its style is a matter for a linter.
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(content, str(file))
            # The parser alone does not see a `return` outside a function and its like.
            compile(tree, str(file), "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise PipelineError(_syntax_problem(file, error)) from None
    return Source(file, content, tree)


def _read(file: Path, place: Position | None) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        names = (other.name for other in file.parent.glob("*.py"))
        known = nearest_first(file.name, names)
        raise PipelineError(usercode.CODE_FILE_MISSING.at(place, file=str(file), known=known)) from None
    except OSError as error:
        problem = usercode.CODE_FILE_UNREADABLE.at(place, file=str(file), reason=error.strerror or error)
        raise PipelineError(problem) from None


def _decode(file: Path, content: bytes) -> str:
    try:
        return importlib.util.decode_source(content)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = usercode.CODE_ENCODING.at(Position(str(file), line), reason=str(error))
        raise PipelineError(problem) from None
    except SyntaxError as error:
        raise PipelineError(usercode.CODE_ENCODING.at(Position(str(file), 1), reason=error.msg)) from None


def _syntax_problem(file: Path, error: SyntaxError | ValueError) -> Problem:
    if not isinstance(error, SyntaxError):
        return usercode.CODE_SYNTAX.at(Position(str(file), 1), file=str(file), reason=str(error))
    position = Position(str(file), error.lineno or 1, error.offset or 1)
    return usercode.CODE_SYNTAX.at(position, file=str(file), reason=error.msg)


def find_statement(tree: ast.Module, name: str) -> ast.stmt | None:
    """The last statement that gives the (dotted) name its value, as at run time."""
    *outer, last = name.split(".")
    body: list[ast.stmt] = tree.body
    for part in outer:
        classes = [node for node in statements(body) if isinstance(node, ast.ClassDef) and node.name == part]
        if not classes:
            return None
        body = classes[-1].body
    return next((node for node in reversed(list(statements(body))) if last in _bound_names(node)), None)


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of one scope, also those under `if`, `try` and `with`."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.TryStar | ast.With):
            handlers = [handler.body for handler in getattr(node, "handlers", [])]
            for part in (node.body, *handlers, getattr(node, "orelse", []), getattr(node, "finalbody", [])):
                yield from statements(part)


def _bound_names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Import() | ast.ImportFrom():
            return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name() as target, value=ast.expr()):
            return [target.id]
    return []


def _function_names(tree: ast.Module) -> list[str]:
    return [node.name for node in statements(tree.body) if isinstance(node, ast.FunctionDef)]


def _optional(given: ast.arguments) -> frozenset[str]:
    places = [*given.posonlyargs, *given.args]
    defaulted = places[len(places) - len(given.defaults) :]
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return frozenset(arg.arg for arg in (*defaulted, *(arg for arg, default in named if default is not None)))


def _unnamed(given: ast.arguments) -> str | None:
    unnamed = [f"`{arg.arg}` by its place only" for arg in given.posonlyargs]
    unnamed += [f"`*{given.vararg.arg}`"] if given.vararg else []
    unnamed += [f"`**{given.kwarg.arg}`"] if given.kwarg else []
    return unnamed[0] if unnamed else None
