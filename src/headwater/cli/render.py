"""How problems, findings and results look on a terminal."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable, Iterator

import typer

from headwater.api.project import ConnectorReference
from headwater.api.results import CheckResult, ExplainResult, SinkChecked, TableExplained
from headwater.checks import Finding, Severity
from headwater.checks.outline import bound_lines
from headwater.errors import Problem
from headwater.values import scrub, scrub_within

_COLORS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}


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
        _show(Finding(problem), verbose=verbose)


def show_findings(findings: Iterable[Finding], *, verbose: bool = False, indent: str = "") -> None:
    """Findings on stderr, each with its place and its remedy, or with the reason why it is accepted."""
    for finding in findings:
        _show(finding, verbose=verbose, indent=indent)


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
    """What was found, first of the whole and then by sink, and a line that says how it stands.

    What is wrong goes to stderr, and what is so to stdout.
    """
    show_findings(result.of_sink(""), verbose=verbose)
    shown: dict[str, str] = {}
    for sink in _sinks_to_show(result):
        typer.echo(f"sink {_bold(sink.name)}")
        found = result.of_sink(sink.name)
        for finding in found:
            first = shown.setdefault(str(finding.problem) + finding.accepted, sink.name)
            if first == sink.name:
                show_findings([finding], verbose=verbose, indent="  ")
            else:
                typer.echo(scrub(f"  {_head(finding)} (see sink {first})"), err=True)
        # What would not start guarantees nothing.
        starts = not any(finding.is_error for finding in found)
        if starts and sink.outline:
            typer.echo(scrub(f"  guarantee: {sink.outline.guarantee.line()}"))
        for line in _kept_rows(sink):
            typer.echo(scrub(f"  {line}"))
    typer.echo(_summary(result))


def _sinks_to_show(result: CheckResult) -> list[SinkChecked]:
    """The sinks of which there is something to tell, in the order of their declaration."""
    sinks = {sink.name: sink for sink in result.sinks}
    names = dict.fromkeys((*sinks, *(finding.sink for finding in result.findings if finding.sink)))
    told = (sinks.get(name, SinkChecked(name)) for name in names)
    return [sink for sink in told if sink.outline or result.of_sink(sink.name)]


def _kept_rows(sink: SinkChecked) -> Iterator[str]:
    """What a query keeps, where rates were given that tell how many rows it is."""
    if sink.outline is None:
        return
    for bound in sink.outline.bounds:
        if any(each.operator == bound.operator for each in sink.outline.rows):
            first, *more = bound_lines(bound, sink.outline.rows)
            yield f"{sink.outline.facts.operators[bound.operator].name}: {first}"
            yield from (f"  {line}" for line in more)


def _summary(result: CheckResult) -> str:
    """How many there are; one that concerns several sinks is counted once."""
    errors, warnings = _count(result.errors), _count(result.warnings)
    kept = _count(finding for finding in result.findings if finding.accepted)
    others = _count(finding for finding in result.findings if not finding.accepted) - errors
    depth = f"{'strict ' if result.strict else ''}{'offline ' if result.offline else ''}check"
    beside = f", {kept} accepted" if kept else ""
    if result.exit_code == 0:
        return f"{result.file}: {depth} passed, {others} finding(s){beside}."
    told = f"{errors} error(s), {others} other finding(s)"
    if result.strict:
        told = f"{errors} error(s), {warnings} warning(s), {others - warnings} other finding(s)"
    return f"{result.file}: {depth} found {told}{beside}."


def _count(findings: Iterable[Finding]) -> int:
    return len({str(finding.problem) for finding in findings})


def show_explained(result: ExplainResult, *, plans: bool) -> None:
    """Graph, schemas, settings and plans."""
    typer.echo(f"pipeline {_bold(result.pipeline)}   (run folder {result.folder})")
    for table in result.tables:
        for line in _branch(table, last=table is result.tables[-1]):
            typer.echo(line)
    for sink in result.sinks:
        head = f"{sink.connector}, {sink.mode} mode, trigger {sink.trigger}"
        typer.echo(f"\nsink {_bold(sink.name)} ← {sink.reads}: {head}")
        for line in sink.outline.picture():
            typer.echo(f"  {line}")
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


def _show(finding: Finding, *, verbose: bool, indent: str = "") -> None:
    problem = finding.problem
    advice = f"Accepted: {finding.accepted}" if finding.accepted else problem.remedy
    # A rewritten query in a remedy has several lines.
    below = textwrap.indent(f"{problem.sentence}\n{advice}", "  ")
    typer.echo(scrub(textwrap.indent(f"{_head(finding)}\n{below}", indent)), err=True)
    if verbose and problem.detail:
        typer.echo(scrub(problem.detail), err=True)


def _head(finding: Finding) -> str:
    """Place, severity and code in one line."""
    place = f"{finding.problem.where}: " if finding.problem.place else ""
    color = None if finding.accepted else _COLORS[finding.severity]
    word = typer.style(finding.severity.value, fg=color, bold=True)
    return f"{place}{'accepted ' if finding.accepted else ''}{word} {finding.problem.code}"


def _bold(text: str) -> str:
    return str(typer.style(text, bold=True))
