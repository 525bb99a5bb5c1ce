"""The hints of entries whose hint depends on the case, as far as the code states them as constants.

An entry with the hint `{hint}` gets its hint from the code that reports it, such as
`COLUMN_NOT_FOUND.at(place, hint="Fix the SQL at this line.")`. This module reads these calls from the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path

from headwater.connectors import all_connectors
from headwater.errors.catalogue import ENTRIES
from headwater.values import capitalized
from scripts.contract import ROOT
from scripts.markdown import parameter

SOURCE = ROOT / "src" / "headwater"
Function = ast.FunctionDef | ast.AsyncFunctionDef
MOST = 6
"""More hints than this are variations of each other, and not worth a list."""


@cache
def constant_hints() -> Mapping[str, tuple[str, ...]]:
    """The known hints of each code; none for a code whose hint is computed."""
    found: dict[str, list[str] | None] = {}
    for code, hints in (each for path in sorted(SOURCE.rglob("*.py")) for each in _of_file(path)):
        known = found.setdefault(code, [])
        found[code] = None if known is None or hints is None else [*known, *hints]
    unique = {code: tuple(dict.fromkeys(hints)) for code, hints in found.items() if hints}
    return {
        code: hints
        for code, hints in unique.items()
        if len(hints) <= MOST and not any(hint.startswith("<") for hint in hints)
    }


def _of_file(path: Path) -> Iterator[tuple[str, list[str] | None]]:
    module = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(module) if isinstance(node, Function)]
    for function in functions:
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            hint = next((each.value for each in call.keywords if each.arg == "hint"), None)
            code = _code(call, function)
            if hint is not None and code:
                yield code, _values(hint, function)


def _code(call: ast.Call, function: Function) -> str:
    """The code whose hint the call fills in; empty if it cannot be known from here."""
    if not isinstance(call.func, ast.Attribute):
        return ""
    entry = next((each.value for each in call.keywords if each.arg == "entry"), call.func.value)
    name = _last_name(entry)
    if name in _entries():
        return _entries()[name]
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and _last_name(decorator.func) in ("rule", "pipeline_rule"):
            first = decorator.args[0] if decorator.args else None
            return str(first.value) if isinstance(first, ast.Constant) else ""
    return ""


@cache
def _entries() -> Mapping[str, str]:
    """The codes of all entries that are constants, by the name of the constant."""
    connectors = (connector.errors for connector in all_connectors().values() if connector.built_in)
    named = [*ENTRIES.items(), *(pair for errors in connectors for pair in errors.items())]
    return {name: entry.code for name, entry in named}


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _values(node: ast.expr, function: Function) -> list[str] | None:
    """All texts that an expression can have, with `<name>` for what is only known at run time."""
    match node:
        case ast.Constant(value=str(value)):
            return [value]
        case ast.IfExp(body=body, orelse=otherwise):
            return _union([body, otherwise], function)
        case ast.BoolOp(op=ast.Or(), values=values):
            return _union(values, function)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _joined([_values(left, function), _values(right, function)])
        case ast.JoinedStr(values=parts):
            return _joined([_part(each, function) for each in parts])
        case ast.Name(id=name):
            given = list(_assigned(name, function, before=node.lineno))
            return _union(given, function) if given else None
        case ast.Call(func=ast.Name(id="capitalized"), args=[inner]):
            inner_values = _values(inner, function)
            return None if inner_values is None else [capitalized(each) for each in inner_values]
        case ast.Call(func=ast.Name(id="did_you_mean"), args=[_, _, *rest]):
            otherwise_values = _values(rest[0], function) if rest else []
            return None if otherwise_values is None else ["Did you mean `<name>`?", *otherwise_values]
        case ast.Call(func=ast.Name(id="use_mode"), args=[_, *ways]):
            mode: list[list[str] | None] = [["Set a `mode` that the query and the sink support"]]
            others = [_joined([[", or "], _values(way, function)]) for way in ways]
            return _joined([*mode, *others, ["."]])
        case _:
            return None


def _assigned(name: str, function: Function, before: int) -> Iterator[ast.expr]:
    """The values that a variable gets before a line; a value can use an earlier one."""
    assignments = (node for node in ast.walk(function) if isinstance(node, ast.Assign))
    for node in assignments:
        named = any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
        if named and (node.end_lineno or node.lineno) < before:
            yield node.value


def _part(node: ast.expr, function: Function) -> list[str] | None:
    """A part of an f-string; a plain name is shown as a parameter."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    inner = node.value if isinstance(node, ast.FormattedValue) else node
    known = _values(inner, function)
    name = _last_name(inner)
    return known if known is not None else [parameter(name)] if name else None


def _union(nodes: list[ast.expr], function: Function) -> list[str] | None:
    values = [_values(node, function) for node in nodes]
    return None if None in values else [each for group in values if group for each in group]


def _joined(parts: list[list[str] | None]) -> list[str] | None:
    known = [part for part in parts if part is not None]
    return ["".join(each) for each in product(*known)] if len(known) == len(parts) else None
