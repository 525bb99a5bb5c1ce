"""Nobody asks for a connector by name: other code reads what its two sides say of themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.connectors import all_connectors

SOURCE = Path(__file__).resolve().parents[2] / "src" / "headwater"
CONNECTORS = SOURCE / "connectors"
# The names of the Python API are not asked for: they only say where each stands.
PUBLIC = SOURCE / "__init__.py"
OUTSIDE = [file for file in sorted(SOURCE.rglob("*.py")) if not file.is_relative_to(CONNECTORS)]

NAMES = {name for name, each in all_connectors().items() if each.built_in}
MODULES = {".".join(module.split(".")[:3]) for each in all_connectors().values() for module in each.modules}
WORDS = {"catalog", "console", "foreach", "memory", "postgres", "python", "rate", "socket"}
"""Words of Python, of Spark and of pipeline files, too: these count where a connector is asked for."""
ASKED = {"ConnectorCall", "connector", "connector_format", "sink_side", "source_side"}


def named_in(code: str) -> Iterator[str]:
    """Connectors that a module names: imports of their modules, and their names as texts."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.ImportFrom(module=str(module)) if ".".join(module.split(".")[:3]) in MODULES:
                yield module
            case ast.Constant(value=str(text)) if text in NAMES - WORDS:
                yield text
            case ast.Call(func=ast.Name(id=called), args=[ast.Constant(value=text), *_]) if called in ASKED:
                yield str(text)
            case ast.keyword(arg="connector", value=ast.Constant(value=str(text))) if text in NAMES:
                yield text
            case ast.Compare(left=left, comparators=[ast.Constant(value=str(text))]) if text in NAMES:
                if "connector" in ast.unparse(left) or "format" in ast.unparse(left):
                    yield text


def test_no_connector_is_named_outside_of_its_folder() -> None:
    found = {
        file.relative_to(SOURCE).as_posix(): sorted(set(named_in(file.read_text(encoding="utf-8"))))
        for file in OUTSIDE
        if file != PUBLIC
    }
    assert len(found) > 100
    assert {file: names for file, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("from headwater.connectors.files import FilesSink", ["headwater.connectors.files"]),
        ("from headwater.connectors.trial import console", ["headwater.connectors.trial"]),
        ("from headwater.connectors.options import plain", []),
        ("if sink.connector == 'memory': ...", ["memory"]),
        ("sink_side('console')", ["console"]),
        ("SinkSpec(connector='noop')", ["noop", "noop"]),
        ("kinds = {'kafka': 1}", ["kafka"]),
        ("check('memory')", []),
    ],
)
def test_names_are_found(code: str, named: list[str]) -> None:
    assert list(named_in(code)) == named
