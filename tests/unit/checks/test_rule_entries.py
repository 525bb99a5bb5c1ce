"""Every rule says what it is for, shows an example, and names all that it can say."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.checks import all_rules
from headwater.errors import catalogue
from headwater.errors.catalogue import ENTRIES

RULES = {name: rule for name, rule in all_rules().items() if type(rule).__module__.startswith("headwater.")}
FILES = sorted({Path(inspect.getfile(type(rule))) for rule in RULES.values()})


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_explained(name: str) -> None:
    rule = RULES[name]
    assert type(rule).__doc__, "what it is for"
    assert inspect.cleandoc(rule.example), "an example"
    assert rule.entries, "what it can say"
    assert set(rule.entries) <= set(ENTRIES.values())


def imported(file: Path) -> Iterator[str]:
    """The constants of the catalogue that a module takes."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(catalogue.__name__):
            yield from (alias.name for alias in node.names if alias.name in ENTRIES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_a_module_of_rules_can_say_is_among_the_entries(file: Path) -> None:
    named = {entry for rule in RULES.values() for entry in rule.entries}
    unnamed = {name for name in imported(file) if ENTRIES[name] not in named}
    assert unnamed == set()
