"""The page of the checks: the rules of `headwater check`, each with its reason and an example."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from textwrap import dedent

from headwater.checks import Rule, Severity, all_rules
from headwater.errors import Entry
from scripts.markdown import anchor, table, text

INTRODUCTION = """\
# Checks

This page lists every rule that `headwater check` applies in addition to Spark's own analysis. `headwater run` applies
the same rules before it starts.

A finding has one of three severities. An **error** prevents the pipeline from starting. A **warning** or a **note**
does not. You can [suppress a finding](../build/validate.md#suppress-a-finding) if it is intentional. Each code links to
its message and its fix on the page [Error codes](errors.md).
"""

TITLES = {
    "changes": "Changed pipelines",
    "declarations": "Pipeline files",
    "determinism": "Deterministic results",
    "expectations": "Expectations",
    "groups": "Sink groups",
    "joins": "Joins",
    "modes": "Output modes",
    "operations": "Unsupported operations",
    "pitfalls": "Query pitfalls",
    "sources": "Sources",
    "state": "State",
    "state_changes": "Changed pipelines",
    "triggers": "Triggers",
    "watermarks": "Watermarks",
}
"""The areas of the rules, by their module."""

NAMES = {
    "HW-CLEAN-UP-STATIC-SOURCE": "Clean-up conflicts",
    "HW-CONTINUOUS-UNSUPPORTED": "Continuous trigger unsupported",
    "HW-CROSS-JOIN-UNBOUNDED": "Cross and range joins",
    "HW-EXPECTATION-QUARANTINE-NOT-REPLAYABLE": "Expectations that quarantine rows",
    "HW-EXPECTATION-SYNTAX": "Expectation conditions",
    "HW-INTERSECT-UNSUPPORTED": "INTERSECT and EXCEPT unsupported",
    "HW-PARTITION-COLUMN-NOT-FOUND": "Columns that do not match the sink",
    "HW-PROJECT-MOVED": "Source path changed",
    "HW-SECRET-PLAINTEXT": "Secrets in plain text",
    "HW-SINK-TYPES-CHANGED": "Sink schema changed",
    "HW-WATERMARK-COLUMN-NOT-FOUND": "Watermark column",
}
"""Names of rules with several codes, by one of them; other rules are named after their first code."""
WORDS = {"avro": "Avro", "csv": "CSV", "id": "ID", "kafka": "Kafka", "protobuf": "Protobuf", "sql": "SQL"}


def checks_page() -> Iterator[str]:
    """Every rule of Headwater itself, by area."""
    yield from INTRODUCTION.splitlines()
    for area in sorted(set(map(area_of, built_in().values()))):
        yield from ("", f"## {area}")
        rules = (rule for rule in built_in().values() if area_of(rule) == area)
        for rule in sorted(rules, key=lambda rule: title_of(rule).lower()):
            yield from ("", f"### {title_of(rule)}", "", text(rule.why), "")
            yield from table(("code", "severity", "can be suppressed"), code_rows(rule))
            yield from (f"```{kind_of(rule.example)}", rule.example, "```")


@cache
def built_in() -> dict[str, Rule]:
    """The rules of Headwater itself; the page does not list those of other packages."""
    return {name: rule for name, rule in all_rules().items() if rule.module.startswith("headwater.")}


def rule_of(code: str) -> Rule | None:
    """The first rule that reports a code."""
    reporting = (rule for rule in built_in().values() if code in {entry.code for entry in rule.entries})
    return next(reporting, None)


def area_of(rule: Rule) -> str:
    module = rule.module.rpartition(".")[2]
    return TITLES.get(module, module.replace("_", " ").capitalize())


@cache
def _titles() -> dict[str, str]:
    """The title of each rule by its name; two rules with one first code are numbered."""
    found: dict[str, str] = {}
    for name, rule in built_in().items():
        codes = [entry.code for entry in rule.entries]
        named = (NAMES[code] for code in codes if code in NAMES and len(codes) > 1)
        title = next(named, in_words(codes[0]))
        taken = title in found.values()
        found[name] = f"{title} ({area_of(rule).lower()})" if taken else title
    return found


def title_of(rule: Rule) -> str:
    """The heading of a rule."""
    return _titles()[rule.name]


def link_of(rule: Rule) -> str:
    """A link to a rule, from another page of the reference."""
    return f"[{title_of(rule)}](checks.md#{anchor(title_of(rule))})"


def in_words(code: str) -> str:
    """A code as a title: `HW-SQL-UNKNOWN-OFFLINE` is "SQL unknown offline"."""
    words = code.removeprefix("HW-").lower().split("-")
    shown = " ".join(WORDS.get(word, word) for word in words)
    return shown[:1].upper() + shown[1:]


def code_rows(rule: Rule) -> Iterator[tuple[str, ...]]:
    for entry, severity in rule.entries.items():
        link = f"[`{entry.code}`](errors.md#{anchor(entry.code)})"
        yield link, severity.value, suppressible(rule, entry, severity)


def suppressible(rule: Rule, entry: Entry, severity: Severity) -> str:
    """Whether a finding can be suppressed: errors only if the rule says so for its matches."""
    if severity is not Severity.ERROR:
        return "yes"
    values = {
        ast.unparse(keyword.value)
        for call in _calls(rule)
        for keyword in call.keywords
        if keyword.arg == "suppressible" and _is_about(call, rule, entry)
    }
    return "no" if not values else "yes" if values == {"True"} else "if Spark accepts the query"


def _is_about(call: ast.Call, rule: Rule, entry: Entry) -> bool:
    named = [each.value for each in call.keywords if each.arg == "entry"]
    codes = {f"HW-{ast.unparse(each).rpartition('.')[2].replace('_', '-')}" for each in named}
    return entry.code in codes if codes else entry is rule.entry


def _calls(rule: Rule) -> Iterator[ast.Call]:
    """All calls in the function of a rule, and in the functions of its module that it calls."""
    module = vars(sys.modules[rule.module])
    own = (each for each in module.values() if inspect.isfunction(each) and each.__module__ == rule.module)
    functions = {each.__name__: each for each in own}
    waiting, seen = [rule.of_query or rule.of_pipeline], set()
    while waiting:
        function = waiting.pop()
        if function is None or function in seen:
            continue
        seen.add(function)
        tree = ast.parse(dedent(inspect.getsource(function)))
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            yield call
            if isinstance(call.func, ast.Name):
                waiting.append(functions.get(call.func.id))


def kind_of(example: str) -> str:
    """The language of an example, by how it starts."""
    if example.startswith("$ "):
        return "sh"
    if re.match(r"(SELECT|WITH|CREATE)\b", example):
        return "sql"
    # A key and a colon; everything else is Python.
    return "yaml" if re.match(r"[\w-]+:(\s|$)", example) else "python"
