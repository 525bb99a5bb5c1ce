"""How problems, findings and results look on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator

import typer

from headwater.api.results import CheckResult, ExplainResult, TableExplained
from headwater.api.schema import ConnectorReference
from headwater.checks import Finding, Severity
from headwater.errors import Problem
from headwater.values import scrub, scrub_within

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(scrub_within(value), indent=2) + "\n")


def print_json_line(value: object) -> None:
    """One JSON value in one line of stdout, there at once for who reads along."""
    sys.stdout.write(json_line(value))
    sys.stdout.flush()


def json_line(value: object) -> str:
    """A value as a line of JSON."""
    return json.dumps(scrub_within(value)) + "\n"


def show_problems(problems: Iterable[Problem], *, as_json: bool, verbose: bool) -> None:
    """Problems on stderr, or as one line of JSON on stdout, where `run` has a line for each event."""
    if as_json:
        print_json_line({"ok": False, "problems": [problem.to_json() for problem in problems]})
        return
    for problem in problems:
        _show_problem(problem, Severity.ERROR, verbose=verbose)


def show_findings(findings: Iterable[Finding], *, verbose: bool = False) -> None:
    """Findings on stderr, each with its place and its remedy."""
    for finding in findings:
        _show_problem(finding.problem, finding.severity, verbose=verbose)


def show_connector(reference: ConnectorReference) -> None:
    """The keys of a connector, a line each."""
    typer.echo(f"{reference.name}: {reference.summary}")
    for side, keys in (("source", reference.source), ("sink", reference.sink)):
        if keys is None:
            continue
        typer.echo(f"\nas a {side}:")
        for key in keys:
            default = "" if key.default in (None, [], {}, False) else f" [{key.default}]"
            needed = " (required)" if key.required else default
            typer.echo(f"  {key.name}{needed}: {key.meaning}")


def show_check(result: CheckResult, *, verbose: bool) -> None:
    """The findings, and a line that says how it stands."""
    show_findings(result.findings, verbose=verbose)
    depth = "offline check" if result.offline else "check"
    errors, others = len(result.errors), len(result.findings) - len(result.errors)
    if errors:
        typer.echo(f"{result.file}: {depth} found {errors} error(s), {others} other finding(s).")
    else:
        typer.echo(f"{result.file}: {depth} passed, {others} finding(s).")


def show_explained(result: ExplainResult, *, plans: bool) -> None:
    """Graph, schemas, settings and plans."""
    typer.echo(f"pipeline {_bold(result.pipeline)}   (run folder {result.folder})")
    for table in result.tables:
        for line in _branch(table, last=table is result.tables[-1]):
            typer.echo(line)
    for sink in result.sinks:
        head = f"{sink.connector}, {sink.mode} mode, trigger {sink.trigger}"
        typer.echo(f"\nsink {_bold(sink.name)} ← {sink.reads}: {head}\n  {sink.delivery}")
        typer.echo(f"  checkpoint {sink.checkpoint}")
        for setting in sink.settings:
            typer.echo(f"  {setting['key']} = {setting['value']}  ({setting['origin']})")
        if plans:
            typer.echo(sink.plan)


def _branch(table: TableExplained, *, last: bool) -> Iterator[str]:
    """A source or table with its columns, as a branch of the tree."""
    flow = "streaming" if table.streaming else "static"
    flow += f", refresh {table.refresh}" if table.refresh else ""
    flow += ", cached" if table.cache else ""
    reads = f" ← {', '.join(table.reads)}" if table.reads else ""
    yield f"{'└── ' if last else '├── '}{_bold(table.name)}  {table.kind}, {flow}{reads}"
    columns = [f"{name}: {type_}" for name, type_ in table.schema.items()]
    for number, column in enumerate(columns, start=1):
        yield f"{'    ' if last else '│   '}{'└── ' if number == len(columns) else '├── '}{column}"


def _show_problem(problem: Problem, severity: Severity, *, verbose: bool) -> None:
    place = f"{problem.where}: " if problem.place else ""
    word = typer.style(severity.value, fg=_COLOURS[severity], bold=True)
    text = f"{place}{word} {problem.code}\n  {problem.sentence}\n  {problem.remedy}"
    typer.echo(scrub(text), err=True)
    if verbose and problem.detail:
        typer.echo(scrub(problem.detail), err=True)


def _bold(text: str) -> str:
    return str(typer.style(text, bold=True))
