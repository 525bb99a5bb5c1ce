"""Every rule says what it is for, shows an example, and names all that it can say."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import headwater
from headwater.checks import all_rules
from headwater.errors import Entry

RULES = {name: rule for name, rule in all_rules().items() if rule.module.startswith("headwater.")}
MODULES = sorted({rule.module for rule in RULES.values()})


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_explained(name: str) -> None:
    rule = RULES[name]
    assert rule.why, "what it is for"
    assert rule.example, "an example"
    assert rule.entries, "what it can say"
    assert all(entry.code for entry in rule.entries)


@pytest.mark.parametrize("module", MODULES)
def test_what_a_module_of_rules_can_say_is_among_the_entries(module: str) -> None:
    named = {entry for rule in RULES.values() for entry in rule.entries}
    constants = {name: value for name, value in vars(sys.modules[module]).items() if isinstance(value, Entry)}
    assert {name for name, entry in constants.items() if entry not in named} == set()


def test_nothing_outside_imports_a_module_of_rules() -> None:
    root = Path(headwater.__file__).parent
    files = [file for file in root.rglob("*.py") if file.parent.name != "checks"]
    modules = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(map(re.escape, MODULES))})\b", re.MULTILINE)
    assert files
    assert [str(file) for file in files if modules.search(file.read_text(encoding="utf-8"))] == []
