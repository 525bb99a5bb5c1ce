"""How problems, findings and results look on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

import typer

from headwater.api.project import ConnectorReference
from headwater.api.results import (
    CheckResult,
    ExplainResult,
    SinkChecked,
    TableExplained,
    counts_in_words,
)
from headwater.checks import Finding, Severity
from headwater.checks.outline import bound_lines
from headwater.cli.json_output import print_json_line
from headwater.errors import Problem
from headwater.values import scrub

_COLORS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def show_problems(problems: Iterable[Problem], *, as_json: bool, verbose: bool) -> None:
    """Problems on stderr, or as one line of JSON on stdout, as `run` prints one line per event."""
    if as_json:
        print_json_line({"ok": False, "problems": [problem.to_json() for problem in problems]})
        return
    for problem in problems:
        _show(Finding(problem), verbose=verbose)


def show_findings(findings: Iterable[Finding], *, verbose: bool = False, indent: str = "") -> None:
    """Findings on stderr, each with its location and its hint, or with the reason why it is suppressed."""
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
    """The findings, first of the pipeline and then by sink, and a summary line.

    Findings go to stderr, everything else to stdout.
    """
    show_findings(result.of_sink(""), verbose=verbose)
    shown: dict[str, str] = {}
    for sink in _sinks_to_show(result):
        typer.echo(f"sink {_bold(sink.name)}{_of_group(sink.group)}")
        found = result.of_sink(sink.name)
        for finding in found:
            first = shown.setdefault(str(finding.problem) + finding.suppressed, sink.name)
            if first == sink.name:
                show_findings([finding], verbose=verbose, indent="  ")
            else:
                typer.echo(scrub(f"  {_head(finding)} (see sink {first})"), err=True)
        # A query that cannot start has no guarantee.
        starts = not any(finding.is_error for finding in found)
        if starts and sink.outline:
            typer.echo(scrub(f"  delivery guarantee: {sink.outline.guarantee.line()}"))
        if starts and sink.after_suspension:
            typer.echo(scrub(f"  after a suspension: {sink.after_suspension}"))
        for line in _state_size(sink):
            typer.echo(scrub(f"  {line}"))
    typer.echo(_summary(result))


def _sinks_to_show(result: CheckResult) -> list[SinkChecked]:
    """The sinks to report on, in the order of their declaration."""
    sinks = {sink.name: sink for sink in result.sinks}
    names = dict.fromkeys((*sinks, *(finding.sink for finding in result.findings if finding.sink)))
    checked = (sinks.get(name, SinkChecked(name)) for name in names)
    return [sink for sink in checked if sink.outline or result.of_sink(sink.name)]


def _state_size(sink: SinkChecked) -> Iterator[str]:
    """The state of a query, if input rates were given to estimate its rows."""
    if sink.outline is None:
        return
    for bound in sink.outline.bounds:
        if any(each.operator == bound.operator for each in sink.outline.rows):
            first, *more = bound_lines(bound, sink.outline.rows)
            yield f"{sink.outline.facts.operators[bound.operator].name}: {first}"
            yield from (f"  {line}" for line in more)


def _summary(result: CheckResult) -> str:
    """The number of findings; one that concerns several sinks counts once."""
    errors, warnings = _count(result.errors), _count(result.warnings)
    suppressed = _count(finding for finding in result.findings if finding.suppressed)
    notes = _count(finding for finding in result.findings if not finding.suppressed) - errors - warnings
    depth = f"{'strict ' if result.strict else ''}{'offline ' if result.offline else ''}check"
    outcome = "passed" if result.exit_code == 0 else "failed"
    return f"{result.file}: {depth} {outcome}: {counts_in_words(errors, warnings, notes, suppressed)}."


def _count(findings: Iterable[Finding]) -> int:
    return len({str(finding.problem) for finding in findings})


def show_explained(result: ExplainResult, *, plans: bool) -> None:
    """Graph, schemas, settings and plans."""
    typer.echo(f"Pipeline {_bold(result.pipeline)}   (run directory {result.run_dir})")
    for table in result.tables:
        for line in _branch(table, last=table is result.tables[-1]):
            typer.echo(line)
    for sink in result.sinks:
        head = f"{sink.connector}, {sink.mode} mode, trigger {sink.trigger}"
        typer.echo(f"\nsink {_bold(sink.name)}{_of_group(sink.group)} ← {sink.reads}: {head}")
        for line in sink.outline.picture(of_pipeline=True):
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
    hint = f"Suppressed: {finding.suppressed}" if finding.suppressed else problem.hint
    # A suggested query in a hint has several lines.
    below = textwrap.indent(f"{problem.message}\n{hint}".rstrip(), "  ")
    typer.echo(scrub(textwrap.indent(f"{_head(finding)}\n{below}", indent)), err=True)
    if verbose and problem.detail:
        typer.echo(scrub(problem.detail), err=True)


def _head(finding: Finding) -> str:
    """Location, severity and code in one line."""
    place = f"{finding.problem.location}: " if finding.problem.place else ""
    color = None if finding.suppressed else _COLORS[finding.severity]
    word = typer.style(finding.severity.value, fg=color, bold=True)
    return f"{place}{'suppressed ' if finding.suppressed else ''}{word} {finding.problem.code}"


def _of_group(group: str | None) -> str:
    return f" (group {group})" if group else ""


def _bold(text: str) -> str:
    return str(typer.style(text, bold=True))
