"""The reference page of the Python names: signatures and docstrings, as they stand in the source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_overloads

import headwater
from headwater.checks import Finding
from headwater.loaders.keys import Places
from headwater.runtime import Query

WIDEST_SIGNATURE = 90


def python_page() -> Iterator[str]:
    yield from ("# Python", "", "```python", "import headwater as hw", "```", "")
    yield "`import headwater` starts no JVM. The keys of the connectors are those of"
    yield "[their page](connectors.md); `hw.connector` takes any that is installed."
    yield ""
    for name in headwater.__all__:
        yield from described(f"hw.{name}", getattr(headwater, name))
    yield from described("Query", Query)
    yield from described("Finding", Finding)
    yield from fields_of("Finding", Finding, but=("problem",))


def described(name: str, thing: Any) -> Iterator[str]:
    """A function, or a class with its members."""
    yield from (f"## {name}", "")
    if not inspect.isclass(thing):
        yield from (*signatures(name, thing), *doc(thing))
        return
    # What only Headwater makes is described by its members alone.
    if issubclass(thing, headwater.Pipeline):
        yield from signatures(name, thing)
    yield from doc(thing)
    for member, value in members(thing).items():
        yield from (f"### {name.removeprefix('hw.')}.{member}", "")
        yield from signatures(member, value)
        yield from doc(value)


def members(thing: type) -> dict[str, Any]:
    """Public methods and properties in the order of the source, the base classes' first."""
    found: dict[str, Any] = {}
    for owner in reversed(thing.__mro__):
        if owner.__module__.startswith("headwater."):
            found |= {name: value for name, value in vars(owner).items() if is_member(name, value)}
    return found


def is_member(name: str, value: object) -> bool:
    # How the loaders find the place of a declaration is no business of users.
    hidden = name.startswith("_") or name in vars(Places)
    return not hidden and (inspect.isroutine(value) or isinstance(value, property))


def fields_of(name: str, thing: type, but: Sequence[str] = ()) -> Iterator[str]:
    """The fields of a dataclass, each with the text below it in the source."""
    (definition,) = ast.parse(inspect.getsource(thing)).body
    assert isinstance(definition, ast.ClassDef), "the source of a class is its definition"
    below = [*definition.body[1:], ast.Pass()]
    for field, next_ in zip(definition.body, below, strict=True):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and field.target.id not in but
        ):
            yield from (f"### {name}.{field.target.id}", "", "```python", ast.unparse(field).split(" = ")[0])
            yield from ("```", "")
            if isinstance(next_, ast.Expr) and isinstance(next_.value, ast.Constant):
                yield from (inspect.cleandoc(str(next_.value.value)), "")


class Written(str):
    """An annotation as it stands in the source: without quotes."""

    def __repr__(self) -> str:
        return str(self)


def signatures(name: str, function: Any) -> Iterator[str]:
    """A block with every way to call it, or the type of a property."""
    plain = getattr(function, "__func__", function)
    yield "```python"
    if isinstance(plain, property):
        yield f"{name}: {plain.fget.__annotations__['return']}"
    else:
        yield from (signature(name, each) for each in get_overloads(plain) or [plain])
    yield from ("```", "")


def signature(name: str, function: Callable[..., Any]) -> str:
    declared = inspect.signature(function)
    shown = [
        each.replace(annotation=Written(each.annotation), default=plain_default(each.default))
        for each in declared.parameters.values()
        if each.name not in ("self", "cls")
    ]
    returns = "" if inspect.isclass(function) else f" -> {declared.return_annotation}"
    line = f"{name}{inspect.Signature(shown)}{returns}"
    if len(line) <= WIDEST_SIGNATURE:
        return line
    inner = "".join(f"    {part},\n" for part in parameter_texts(shown))
    return f"{name}(\n{inner}){returns}"


def parameter_texts(parameters: Sequence[inspect.Parameter]) -> list[str]:
    """Each parameter as text, with the `*` and `/` that stand between them."""
    whole = str(inspect.Signature(parameters))[1:-1]
    texts, depth = [""], 0
    for letter in whole:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            texts.append("")
        else:
            texts[-1] += letter
    return [part.strip() for part in texts]


def plain_default(default: Any) -> Any:
    """A function as a default has an address in its name: leave it out."""
    return Written("…") if inspect.isfunction(default) else default


def doc(thing: object) -> Iterator[str]:
    words = inspect.getdoc(thing)
    if words:
        yield from (words, "")
