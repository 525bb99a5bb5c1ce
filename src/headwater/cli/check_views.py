"""What `check` and `explain` show while Spark starts, and the findings as SARIF."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from string import Formatter
from typing import Any
from urllib.parse import quote

import typer

from headwater.api.results import CheckResult
from headwater.checks import Finding, Severity, all_rules
from headwater.errors import Entry, shown_file
from headwater.events import Emit, Event, Notice, SparkStarting

STARTING_SPARK = "Starting Spark …"


@contextmanager
def waiting(*, as_json: bool) -> Iterator[Emit]:
    """Receives events; shows a spinner on a terminal until the command completes, and a line elsewhere.

    Both go to stderr, because stdout is for the findings.
    """
    with ExitStack() as shown:

        def event(event: Event) -> None:
            if isinstance(event, SparkStarting) and not as_json:
                _show(shown)
            elif isinstance(event, Notice) and not as_json:
                typer.echo(event.text, err=True)

        yield event


def _show(shown: ExitStack) -> None:
    if not sys.stderr.isatty():
        typer.echo(STARTING_SPARK, err=True)
        return
    # Imported late: an offline check does not need it.
    from rich.console import Console

    shown.enter_context(Console(stderr=True).status(STARTING_SPARK))


# The findings of a check as SARIF 2.1.0, which code hosts and editors import.

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION = "2.1.0"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def sarif_of(result: CheckResult) -> dict[str, Any]:
    """One log with one run: each finding a result, each code a rule."""
    distinct = list({(str(each.problem), each.suppressed): each for each in result.findings}.values())
    entries = sorted({each.problem.entry for each in distinct}, key=lambda entry: entry.code)
    order = {entry.code: index for index, entry in enumerate(entries)}
    driver = {"name": "Headwater", **_version(), "rules": [_rule(entry, distinct) for entry in entries]}
    return {
        "$schema": SCHEMA,
        "version": VERSION,
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": [_result(each, order[each.problem.code], result.file) for each in distinct],
            }
        ],
    }


def _rule(entry: Entry, findings: list[Finding]) -> dict[str, Any]:
    gravest = min(
        (each.severity for each in findings if each.problem.entry == entry), key=list(Severity).index
    )
    short = _words(entry.message)
    return {
        "id": entry.code,
        "shortDescription": {"text": short},
        "fullDescription": {"text": _why(entry) or short},
        "help": {"text": _words(entry.hint)},
        "defaultConfiguration": {"level": _LEVELS[gravest]},
    }


def _result(finding: Finding, index: int, file: str) -> dict[str, Any]:
    problem = finding.problem
    reasons = [{"kind": "inSource", "justification": finding.suppressed}] if finding.suppressed else []
    about = {"sink": finding.sink, "table": finding.table}
    properties = {key: value for key, value in about.items() if value}
    return {
        "ruleId": problem.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{problem.message} {problem.hint}"},
        "locations": [{"physicalLocation": _location(finding, file)}],
        # An empty list means "not suppressed"; a missing one would mean "unknown".
        "suppressions": reasons,
        **({"properties": properties} if properties else {}),
    }


def _location(finding: Finding, file: str) -> dict[str, Any]:
    """The location of a finding; one without a location is reported at the start of the file."""
    place = finding.problem.place
    path = finding.problem.file if place else shown_file(file)
    region = {"startLine": place.line, "startColumn": place.column} if place else {"startLine": 1}
    # Relative to the current directory if the file is inside it.
    uri = Path(path).as_uri() if Path(path).is_absolute() else quote(Path(path).as_posix())
    return {"artifactLocation": {"uri": uri}, "region": region}


def _why(entry: Entry) -> str:
    """The explanation of the rule that reports this."""
    rules = (rule for rule in all_rules().values() if entry in rule.entries)
    return next((" ".join(rule.why.split()) for rule in rules), "")


def _words(template: str) -> str:
    """A template with the names of its parameters instead of their values."""
    parts = Formatter().parse(template)
    return "".join(literal + (f"<{field}>" if field else "") for literal, field, _, _ in parts)


def _version() -> dict[str, str]:
    try:
        return {"version": version("headwater")}
    except PackageNotFoundError:
        return {}
