"""The page of the rules: what `headwater check` looks at, and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from headwater.checks import Rule, Severity, all_rules
from headwater.errors import Entry

Shown = Callable[[str], str]

INTRODUCTION = """\
# Rules

What `headwater check` looks at beside Spark's own verdict; `run` does the same before it starts. A rule
says one of the codes below it, at your line. An **error** keeps a pipeline from starting; a **warning** and
**advice** do not. [Checking](guides/checking.md#accepting-a-finding) tells how a finding is accepted. Words
in braces are filled in for the case at hand.
"""


def rules_page(text: Shown, template: Shown) -> Iterator[str]:
    """Every rule of Headwater's own; words and templates are shown as the other pages show them."""
    yield from (*INTRODUCTION.splitlines(), "")
    for name, rule in sorted(built_in().items()):
        yield from (f"## {name.replace('_', ' ').capitalize()}", "", text(rule.why), "")
        yield from (f"```{kind_of(rule.example)}", rule.example, "```", "")
        for entry, severity in rule.entries.items():
            yield from entry_lines(entry, severity, template)


def built_in() -> dict[str, Rule]:
    """The rules of Headwater itself; what else is installed here is no part of the pages."""
    return {name: rule for name, rule in all_rules().items() if rule.module.startswith("headwater.")}


def entry_lines(entry: Entry, severity: Severity, template: Shown) -> Iterator[str]:
    remedy = template(entry.remedy) if entry.remedy != "{hint}" else "it depends on the case."
    yield f"- {severity.value} [`{entry.code}`](errors.md#{entry.code.lower()}): {template(entry.sentence)}"
    yield from (f"  *What to do:* {remedy}", "")


def kind_of(example: str) -> str:
    """The language of an example, told by how it begins."""
    if example.startswith("$ "):
        return "sh"
    if re.match(r"(SELECT|WITH|CREATE)\b", example):
        return "sql"
    # A key and a colon; whatever else is written is Python.
    return "yaml" if re.match(r"[\w-]+:(\s|$)", example) else "python"
