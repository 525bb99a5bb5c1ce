"""How problems, findings and results look on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

from headwater.api.results import CheckResult, ExplainResult
from headwater.checks import Finding, Severity
from headwater.errors import Problem
from headwater.values import scrub

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}


def out() -> Console:
    """The terminal for results."""
    return Console(highlight=False, soft_wrap=True)


def err() -> Console:
    """The terminal for what went wrong."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(scrub(json.dumps(value, indent=2, default=str)) + "\n")


def show_problems(problems: Iterable[Problem], *, as_json: bool, verbose: bool) -> None:
    """Problems on stderr, or as JSON on stdout."""
    if as_json:
        print_json({"ok": False, "problems": [problem.to_json() for problem in problems]})
        return
    console = err()
    for problem in problems:
        console.print(_lines(problem, "error", "red"))
        if verbose and problem.detail:
            console.print(scrub(problem.detail), markup=False)


def show_findings(findings: Iterable[Finding], *, verbose: bool = False) -> None:
    """Findings on stderr, each with its place and its remedy."""
    console = err()
    for finding in findings:
        console.print(_lines(finding.problem, finding.severity.value, _COLOURS[finding.severity]))
        if verbose and finding.problem.detail:
            console.print(scrub(finding.problem.detail), markup=False)


def show_check(result: CheckResult, *, verbose: bool) -> None:
    """The findings, and a line that says how it stands."""
    show_findings(result.findings, verbose=verbose)
    depth = "offline check" if result.offline else "check"
    errors, others = len(result.errors), len(result.findings) - len(result.errors)
    if errors:
        out().print(f"{escape(result.file)}: {depth} found {errors} error(s), {others} other finding(s).")
    else:
        out().print(f"{escape(result.file)}: {depth} passed, {others} finding(s).")


def show_explained(result: ExplainResult, *, plans: bool) -> None:
    """Graph, schemas, settings and plans."""
    console = out()
    tree = Tree(f"pipeline [bold]{escape(result.pipeline)}[/bold]   (run folder {escape(result.folder)})")
    for table in result.tables:
        flow = "streaming" if table.streaming else "static"
        reads = f" ← {', '.join(table.reads)}" if table.reads else ""
        branch = tree.add(f"[bold]{escape(table.name)}[/bold]  {table.kind}, {flow}{escape(reads)}")
        for name, type_ in table.schema.items():
            branch.add(f"{escape(name)}: {escape(type_)}")
    console.print(tree)
    for sink in result.sinks:
        console.print(
            f"\nsink [bold]{escape(sink.name)}[/bold] ← {escape(sink.reads)}: {sink.connector}, "
            f"{sink.mode} mode, trigger {sink.trigger}\n  checkpoint {escape(sink.checkpoint)}"
        )
        for setting in sink.settings:
            console.print(f"  {setting['key']} = {setting['value']}  ({setting['origin']})", markup=False)
        if plans:
            console.print(sink.plan, markup=False)


def _lines(problem: Problem, word: str, colour: str) -> str:
    place = f"{escape(problem.where)}: " if problem.place else ""
    head = f"{place}[bold {colour}]{word}[/bold {colour}] {problem.code}"
    return scrub(f"{head}\n  {escape(problem.sentence)}\n  {escape(problem.remedy)}")
