"""Finds the user functions and classes that a pipeline names, and reads their parameters."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from headwater.connectors import Sink, Source
from headwater.connectors.options import class_problems, method_arguments_problem, method_missing
from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue import pipelines
from headwater.errors.catalogue.pipelines import (
    CLASS_NEEDS_ARGUMENTS,
    FUNCTION_PARAMETERS_UNSUPPORTED,
)
from headwater.spec import ClassRef, FunctionRef, Method
from headwater.values import Position, count_of

# The declarations of a user's Python file, read from its text without running it.

_MOST_NAMES = 10


@dataclass(frozen=True)
class PythonFile:
    """A parsed Python file: its bytes and its syntax tree."""

    file: Path
    content: bytes
    tree: ast.Module


def called_function(
    file: Path, name: str, passed: tuple[str, ...], place: Position | None = None
) -> Position | None:
    """The position of the `def` of a function that is called with `passed` as positional arguments.

    None for a name that is bound differently, such as by an import: its parameters are unknown here.
    """
    found = _found(file, name, place)
    if not isinstance(found, ast.FunctionDef):
        return None
    position = _position(file, found)
    # A decorator can change the parameters.
    if not found.decorator_list and "." not in name and not _takes(signature_of(found.args), passed):
        raise PipelineError(arguments_problem(position, name, ast.unparse(found.args), passed))
    return position


def arguments_problem(place: Position | None, name: str, takes: str, passed: tuple[str, ...]) -> Problem:
    """The problem of a function that does not accept its arguments."""
    return pipelines.FUNCTION_ARGUMENTS_MISMATCH.at(
        place,
        function=name,
        short=name.rpartition(".")[2],
        takes=takes,
        count=count_of(len(passed), "argument"),
        passed=", ".join(passed),
    )


def _found(file: Path, name: str, place: Position | None) -> ast.stmt:
    """The statement that binds the name."""
    tree = read_source(file, place).tree
    found = find_statement(tree, name)
    if found is None:
        at = place or Position(str(file), 1)
        names = [each.name for each in statements(tree.body) if isinstance(each, ast.FunctionDef)]
        raise PipelineError(name_missing(at, file, "function", name, names))
    return found


def _position(file: Path | str, found: ast.FunctionDef | ast.ClassDef) -> Position:
    return Position(str(file), found.lineno, found.col_offset + 1)


def signature_of(given: ast.arguments) -> inspect.Signature:
    """The parameters of a `def`; defaults are detected but not evaluated."""
    made, empty = inspect.Parameter, inspect.Parameter.empty
    places = [*given.posonlyargs, *given.args]
    required = len(places) - len(given.defaults)
    parameters = [
        made(
            arg.arg,
            made.POSITIONAL_ONLY if index < len(given.posonlyargs) else made.POSITIONAL_OR_KEYWORD,
            default=empty if index < required else None,
        )
        for index, arg in enumerate(places)
    ]
    parameters += [made(given.vararg.arg, made.VAR_POSITIONAL)] if given.vararg else []
    for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        parameters.append(made(arg.arg, made.KEYWORD_ONLY, default=empty if default is None else None))
    parameters += [made(given.kwarg.arg, made.VAR_KEYWORD)] if given.kwarg else []
    return inspect.Signature(parameters)


def _takes(signature: inspect.Signature, passed: Sequence[object]) -> bool:
    """Whether the signature accepts these positional arguments."""
    try:
        signature.bind(*passed)
        return True
    except TypeError:
        return False


def name_missing(place: Position, file: Path, kind: str, name: str, known: Iterable[str]) -> Problem:
    """The problem of a function or class that is not in the file."""
    nearest = nearest_first(name, known)
    return pipelines.CODE_NAME_NOT_FOUND.at(place, file=str(file), kind=kind, name=name, known=nearest)


def nearest_first(name: str, known: Iterable[str]) -> str:
    """The known names, most similar first, for a message."""

    def unlikeness(other: str) -> tuple[float, str]:
        return -SequenceMatcher(None, name.lower(), other.lower()).ratio(), other

    return ", ".join(sorted(set(known), key=unlikeness)[:_MOST_NAMES]) or "none"


def read_source(file: Path, place: Position | None = None) -> PythonFile:
    """Read and parse a file; `place` is where the user refers to it."""
    at = Position(str(file), 1)
    try:
        content = file.read_bytes()
        importlib.util.decode_source(content)
    except FileNotFoundError:
        known = nearest_first(file.name, (other.name for other in file.parent.glob("*.py")))
        raise PipelineError(pipelines.CODE_FILE_NOT_FOUND.at(place, file=str(file), known=known)) from None
    except OSError as error:
        problem = pipelines.CODE_FILE_UNREADABLE.at(place, file=str(file), reason=error.strerror or error)
        raise PipelineError(problem) from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = pipelines.CODE_ENCODING_INVALID.at(replace(at, line=line), reason=str(error))
        raise PipelineError(problem) from None
    except SyntaxError as error:
        raise PipelineError(pipelines.CODE_ENCODING_INVALID.at(at, reason=error.msg)) from None
    with warnings.catch_warnings():
        # A file can be read more than once, and warnings about style are the job of a linter.
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(content, str(file))
            # The parser alone accepts errors such as a `return` outside a function.
            compile(tree, str(file), "exec", dont_inherit=True)
        except SyntaxError as error:
            at = Position(str(file), error.lineno or 1, error.offset or 1)
            raise PipelineError(pipelines.CODE_SYNTAX.at(at, file=str(file), reason=error.msg)) from None
        except ValueError as error:
            raise PipelineError(pipelines.CODE_SYNTAX.at(at, file=str(file), reason=str(error))) from None
    return PythonFile(file, content, tree)


def find_statement(tree: ast.Module, name: str) -> ast.stmt | None:
    """The last statement that binds the (dotted) name, as at run time."""
    *outer, last = name.split(".")
    body: list[ast.stmt] = tree.body
    for part in outer:
        classes = [node for node in statements(body) if isinstance(node, ast.ClassDef) and node.name == part]
        if not classes:
            return None
        body = classes[-1].body
    return next((node for node in reversed(list(statements(body))) if last in _bound_names(node)), None)


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of one scope, including those under `if`, `try` and `with`."""
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


# The methods of a class in a user's Python file, read from its text without running it.


@dataclass(frozen=True)
class DeclaredClass:
    """A `class` in a user's file: its position, and its methods by name."""

    name: str
    position: Position
    methods: Mapping[str, ast.FunctionDef]
    whole: bool
    """Whether it has no base class or decorator, so that a method that is not here is missing."""


def declared_class(file: Path, name: str, place: Position | None = None) -> DeclaredClass | None:
    """The class with this (dotted) name; `place` is where the user refers to it.

    None for a name that is bound differently, such as by an import: its value is unknown here.
    """
    tree = read_source(file, place).tree
    found = find_statement(tree, name)
    if found is None:
        names = [each.name for each in statements(tree.body) if isinstance(each, ast.ClassDef)]
        raise PipelineError(name_missing(place or Position(str(file), 1), file, "class", name, names))
    if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
        told = {"name": name, "file": str(file), "kind": "a function", "wanted": "a class"}
        raise PipelineError(pipelines.CODE_NAME_INVALID.at(place, **told))
    if not isinstance(found, ast.ClassDef):
        return None
    methods = {node.name: node for node in statements(found.body) if isinstance(node, ast.FunctionDef)}
    bases = [base for base in found.bases if ast.unparse(base) != "object"]
    whole = not bases and not found.keywords and not found.decorator_list
    return DeclaredClass(name, _position(file, found), methods, whole)


def class_ref_problems(ref: ClassRef, methods: Sequence[Method], place: Position | None) -> Iterator[Problem]:
    """The problems that certainly prevent the use of a class."""
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
    # A connector that calls no methods creates no object: Spark creates it.
    made = found.methods.get("__init__") if methods else None
    if made and not made.decorator_list and (needs := _needed(made.args)[1:]):
        yield CLASS_NEEDS_ARGUMENTS.at(_position(ref.file, made), name=ref.name, needs=", ".join(needs))
    for method in methods:
        node = found.methods.get(method.name)
        if node is None:
            if found.whole and method.required and not _is_assigned(found, method):
                yield method_missing(ref.name, method, found.position)
        elif not node.decorator_list and not _takes(signature_of(node.args), ("self", *method.passes)):
            place = _position(ref.file, node)
            yield method_arguments_problem(ref.name, method, ast.unparse(node.args), place)


def _is_assigned(found: DeclaredClass, method: Method) -> bool:
    """Whether the name is bound without a `def`, such as by `process = send`."""
    tree = read_source(Path(found.position.file)).tree
    return find_statement(tree, f"{found.name}.{method.name}") is not None


def _needed(given: ast.arguments) -> list[str]:
    """The parameters without a default."""
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = signature_of(given).parameters.values()
    return [each.name for each in parameters if each.default is each.empty and each.kind not in several]


def with_parameters(ref: FunctionRef, place: Position | None) -> FunctionRef:
    """The reference with the function's parameters; raises PipelineError if file or function is missing."""
    return _with_signature(ref, place)[0]


def _with_signature(ref: FunctionRef, place: Position | None) -> tuple[FunctionRef, inspect.Signature]:
    if ref.function is not None:
        return ref, inspect.signature(inspect.unwrap(ref.function))
    found = _found(Path(ref.file), ref.name, place)
    if not isinstance(found, ast.FunctionDef):
        at = place or Position(ref.file, found.lineno)
        raise PipelineError(pipelines.FUNCTION_DEFINED_ELSEWHERE.at(at, function=ref.name, file=ref.file))
    signature = signature_of(found.args)
    named = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    told = replace(
        ref,
        parameters=tuple(each.name for each in named),
        place=place,
        defined=_position(ref.file, found),
        optional=frozenset(each.name for each in named if each.default is not each.empty),
    )
    return told, signature


def table_function(ref: FunctionRef, place: Position | None, names: Iterable[str]) -> FunctionRef:
    """A table function, called by name: its parameters are those in `names`, or those without a default.

    Raises PipelineError if it is missing, or has parameters that cannot be passed by name.
    """
    ref, signature = _with_signature(ref, place)
    for each in signature.parameters.values():
        unnamed = (
            f"`{str(each).partition(':')[0]}`" if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) else ""
        )
        if each.kind is each.POSITIONAL_ONLY:
            unnamed = f"`{each.name}` by position only"
        if unnamed:
            problem = FUNCTION_PARAMETERS_UNSUPPORTED.at(ref.defined, function=ref.name, parameter=unnamed)
            raise PipelineError(problem)
    known = {name.lower() for name in names}
    passed = [each for each in ref.parameters if each not in ref.optional or each.lower() in known]
    return replace(ref, parameters=tuple(passed))


def key_of(options: BaseModel, ref: FunctionRef) -> str:
    """The key under which a connector's options name a function or class."""
    fields = type(options).model_fields.items()
    named = [field.alias or name for name, field in fields if getattr(options, name) is ref]
    return named[0] if named else "function"


def reference_problems(
    ref: FunctionRef, side: Source[Any] | Sink[Any], place: Position | None
) -> list[Problem]:
    """The problems of a function or class that a connector uses, as far as its text shows."""
    methods, passed = (side.methods, side.passes) if isinstance(side, Sink) else ((), ())
    if isinstance(ref, ClassRef):
        return list(class_ref_problems(ref, methods, place))
    if passed:
        return call_problems(ref, passed, place)
    try:
        with_parameters(ref, place)
    except PipelineError as error:
        return list(error.problems)
    return []


def call_problems(ref: FunctionRef, passed: tuple[str, ...], place: Position | None) -> list[Problem]:
    """The problems of a function that is called with `passed` by position."""
    try:
        refuse_call(ref, passed, place)
    except PipelineError as error:
        return list(error.problems)
    return []


def refuse_call(ref: FunctionRef, passed: tuple[str, ...], place: Position | None) -> None:
    """Raises PipelineError if the function is missing, or cannot be called with `passed` by position."""
    if ref.function is None:
        called_function(Path(ref.file), ref.name, passed, place)
        return
    # The wrapper is called, not the function inside it.
    signature = inspect.signature(ref.function, follow_wrapped=False)
    if not _takes(signature, passed):
        takes = str(signature.replace(return_annotation=inspect.Signature.empty))[1:-1]
        raise PipelineError(arguments_problem(ref.defined or place, ref.name, takes, passed))


# Distinguishes a file that declares a pipeline from a plain program, without running either.

_HEADWATER = "headwater"
_PIPELINE = "Pipeline"


def declares_pipeline(file: Path) -> bool:
    """Whether a file, or a module next to it that it imports, creates a `headwater.Pipeline`."""
    return _declares(file, set())


def _declares(file: Path, seen: set[Path]) -> bool:
    seen.add(file)
    tree = read_source(file).tree
    if makes_pipeline(tree):
        return True
    beside = (found for found in _imported(tree, file.parent) if found not in seen)
    return any(_declares(found, seen) for found in beside if found not in seen)


def makes_pipeline(tree: ast.Module) -> bool:
    """Whether the file calls `headwater.Pipeline`, under any name that it imports."""
    names = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                named = (alias for alias in node.names if alias.name.partition(".")[0] == _HEADWATER)
                names |= {f"{alias.asname or _HEADWATER}.{_PIPELINE}" for alias in named}
            case ast.ImportFrom(module=str() as module) if module.partition(".")[0] == _HEADWATER:
                names |= {alias.asname or alias.name for alias in node.names if alias.name == _PIPELINE}
    return any(isinstance(node, ast.Call) and _dotted(node.func) in names for node in ast.walk(tree))


def _dotted(called: ast.expr) -> str:
    match called:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=attribute, value=ast.Name(id=name)):
            return f"{name}.{attribute}"
    return ""


def _imported(tree: ast.Module, folder: Path) -> Iterator[Path]:
    """The files next to a file that its imports name."""
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
