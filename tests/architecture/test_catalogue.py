"""Every entry of the error catalogue has a code of its own, a sentence and a remedy."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from string import Formatter

import pytest

import headwater.errors
from headwater.checks import all_rules
from headwater.connectors import all_connectors
from headwater.errors import Entry
from headwater.errors.catalogue import AREAS
from headwater.errors.catalogue import ENTRIES as OF_THE_CORE
from headwater.errors.problems import name_entries

CODE = re.compile(r"HW(-[A-Z0-9]+)+")
OF_CONNECTORS = {
    name: entry
    for connector in all_connectors().values()
    if connector.built_in
    for name, entry in connector.errors.items()
}
ENTRIES = {**OF_THE_CORE, **OF_CONNECTORS}
OF_RULES = {
    entry.code: entry
    for rule in all_rules().values()
    for entry in rule.entries
    if rule.module.startswith("headwater.") and entry not in ENTRIES.values()
}
"""What stands beside the rule that says it."""
EVERY = {**ENTRIES, **OF_RULES}


NOTICES = {*name_entries(vars(AREAS["notices"])), "FILES_WAITING", "FILES_DEFERRED"}
"""What is told of a run, where nothing is wrong."""


def test_only_notices_have_no_remedy() -> None:
    assert {name for name, entry in EVERY.items() if not entry.hint} == NOTICES


def test_there_are_entries() -> None:
    assert OF_THE_CORE
    assert OF_CONNECTORS
    assert OF_RULES


def test_no_code_is_used_twice() -> None:
    constants = (value for module in AREAS.values() for value in vars(module).values())
    entries = [value for value in constants if isinstance(value, Entry)]
    entries += OF_CONNECTORS.values()
    of_rules = {id(entry): entry for rule in all_rules().values() for entry in rule.entries}
    beside = [entry for entry in of_rules.values() if not any(entry is each for each in entries)]
    codes = Counter(entry.code for entry in [*entries, *beside])
    assert [code for code, times in codes.items() if times > 1] == []


def test_every_code_is_upper_case_words() -> None:
    assert [name for name, entry in EVERY.items() if not CODE.fullmatch(entry.code)] == []


@pytest.mark.parametrize("part", ["message", "hint"])
def test_every_template_is_a_sentence(part: str) -> None:
    problems = {name: entry for name, entry in EVERY.items() if name not in NOTICES}
    templates: dict[str, str] = {name: getattr(entry, part) for name, entry in problems.items()}
    # A hint is a sentence of its own, worked out where the problem is found.
    assert [name for name, text in templates.items() if not text.endswith((".", "{hint}"))] == []
    assert [name for name, text in templates.items() if not text.strip(" .")] == []


@pytest.mark.parametrize("part", ["message", "hint"])
def test_every_parameter_of_a_template_has_a_name(part: str) -> None:
    fields = [
        (name, field)
        for name, entry in EVERY.items()
        for _, field, _, _ in Formatter().parse(getattr(entry, part))
        if field is not None
    ]
    assert fields
    assert [name for name, field in fields if not field.isidentifier()] == []


def test_every_entry_is_used() -> None:
    root = Path(headwater.errors.__file__).parents[1]
    used = "\n".join(
        file.read_text(encoding="utf-8")
        for file in root.rglob("*.py")
        if "catalogue" not in file.relative_to(root).parts and file.name != "errors.py"
    )
    words = set(re.findall(r"\w+", used))
    assert [constant for constant in ENTRIES if constant not in words] == []
