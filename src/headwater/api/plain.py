"""`hw.check` and `headwater check job.py`: plain PySpark, checked like a declared pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.api.results import CheckResult, SinkChecked, counts_in_words
from headwater.checks import Finding, Severity, together
from headwater.checks.outline import Outline
from headwater.checks.suppression import Suppression, about_query, suppressed_by
from headwater.errors import PipelineError, UsageError
from headwater.errors.catalogue import programs
from headwater.loaders.user_files import declares_pipeline
from headwater.plan import QueryFacts
from headwater.spec import Mode
from headwater.values import Position, parse_trigger, scrub, scrub_within
from headwater.values.user_frames import caller

if TYPE_CHECKING:
    from headwater.programs.script import CapturedQuery

TIMEOUT_SECONDS = 60.0
_COLORS = {Severity.ERROR: "#b3261e", Severity.WARNING: "#8a6100", Severity.NOTE: "#1a5fb4"}


@dataclass(frozen=True, repr=False)
class QueryChecked:
    """The result of checking one stream before it starts; notebooks render it as HTML."""

    name: str
    findings: tuple[Finding, ...]
    """The most severe first."""
    outline: Outline | None
    """Operators, state and delivery guarantee; None for a DataFrame that is not a stream."""

    @property
    def ok(self) -> bool:
        """Whether the query can start."""
        return not any(finding.is_error for finding in self.findings)

    @property
    def facts(self) -> QueryFacts | None:
        """What Spark would run."""
        return self.outline.facts if self.outline else None

    def to_json(self) -> dict[str, Any]:
        outline = self.outline.to_json() if self.outline else {}
        findings = [finding.to_json() for finding in self.findings]
        shown = scrub_within({"name": self.name, "ok": self.ok, "findings": findings, **outline})
        assert isinstance(shown, dict), "a mapping stays one"
        return shown

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self._summary()}"]
        for finding in self.findings:
            problem = finding.problem
            place = f"{problem.location}: " if problem.place else ""
            lines += [
                f"{place}{_severity(finding)} {problem.code}",
                f"  {problem.message}",
                f"  {_hint(finding)}",
            ]
        return scrub("\n".join([*lines, *(self.outline.picture() if self.outline else [])]))

    def _repr_html_(self) -> str:
        rows = "".join(map(_row, self.findings))
        table = f"<table>{rows}</table>" if rows else ""
        picture = "\n".join(self.outline.picture()) if self.outline else ""
        below = f"<pre>{_text(picture)}</pre>" if picture else ""
        return f"<div><b>{_text(self.name)}</b>: {_text(self._summary())}{table}{below}</div>"

    def _summary(self) -> str:
        errors = sum(finding.is_error for finding in self.findings)
        suppressed = sum(bool(finding.suppressed) for finding in self.findings)
        warnings = sum(f.severity is Severity.WARNING and not f.suppressed for f in self.findings)
        notes = len(self.findings) - errors - warnings - suppressed
        outcome = "passed" if self.ok else "failed"
        return f"check {outcome}: {counts_in_words(errors, warnings, notes, suppressed)}."


def check(
    df: Any,
    mode: str = "append",
    sink: Any = None,
    trigger: str | None = None,
    name: str | None = None,
    suppress: Mapping[str, str] | None = None,
) -> QueryChecked:
    """Check a streaming DataFrame as if it were started now. Nothing starts, and the session does not change.

    `sink` is a Spark format ("parquet"), the function of a `foreachBatch`, or a connector such as
    `hw.files(…)`. Without it, the checks that depend on the sink are skipped. Write `trigger` as in a
    pipeline file: "every 10 seconds". `suppress` maps codes of findings to the reasons for suppressing them.
    """
    from headwater.programs.query_start import check_frame

    place = caller()
    called, suppressions = name or "query", _suppressions(suppress, place, "`suppress={{{code!r}: …}}`")
    if mode.lower() not in list(Mode):
        raise UsageError(programs.MODE_INVALID.at(place, mode=mode))
    paced = _trigger(trigger, place)
    try:
        found = check_frame(df, sink=sink, mode=mode.lower(), trigger=paced, name=called, place=place)
    except PipelineError as error:
        refused = suppressed_by(suppressions, map(Finding, error.problems))
        return QueryChecked(called, tuple(together(refused)), None)
    # Without a sink, some checks are skipped; their findings can be suppressed in advance.
    whole = sink is not None and not found.problems
    told = suppressed_by(suppressions, _findings(found), complete=whole)
    return QueryChecked(called, tuple(together(told)), Outline.of(found.facts))


def _trigger(trigger: str | None, place: Position) -> str:
    if trigger is None:
        return "default"
    try:
        return str(parse_trigger(trigger))
    except ValueError as error:
        raise UsageError(programs.TRIGGER_INVALID.at(place, says=str(error).rstrip("."))) from error


def _suppressions(
    given: Mapping[str, str] | None, place: Position | None, form: str
) -> tuple[Suppression, ...]:
    """The suppressions of a check; `form` shows how to give a reason."""
    for code, reason in (given or {}).items():
        if not isinstance(reason, str) or not reason.strip():
            raise UsageError(
                programs.SUPPRESS_REASON_MISSING.at(place, code=code, form=form.format(code=code))
            )
    return tuple(
        Suppression(code, why.strip(), place, by="this check") for code, why in (given or {}).items()
    )


def _findings(caught: CapturedQuery) -> list[Finding]:
    name = caught.facts.sink
    by_spark = [Finding(problem, sink=name) for problem in caught.problems]
    doubts = [Finding(problem, Severity.WARNING, name) for problem in caught.doubts]
    return [*by_spark, *doubts, *about_query(caught.facts, caught.place)]


def _row(finding: Finding) -> str:
    problem = finding.problem
    color = "inherit" if finding.suppressed else _COLORS[finding.severity]
    head = (
        f'<td style="color:{color};vertical-align:top"><b>{_severity(finding)}</b> {_text(problem.code)}</td>'
    )
    words = f"{_text(problem.message)}<br>{_text(_hint(finding))}"
    return f'<tr>{head}<td style="text-align:left;white-space:pre-wrap">{words}</td></tr>'


def _severity(finding: Finding) -> str:
    return f"suppressed {finding.severity}" if finding.suppressed else str(finding.severity)


def _hint(finding: Finding) -> str:
    return f"Suppressed: {finding.suppressed}" if finding.suppressed else finding.problem.hint


def _text(text: str) -> str:
    return escape(scrub(text))


def is_script(file: str | Path) -> bool:
    """Whether a file is a plain script: Python that declares no Headwater pipeline."""
    path = Path(file)
    return path.suffix == ".py" and path.is_file() and not declares_pipeline(path)


def check_script(
    file: str,
    arguments: tuple[str, ...] = (),
    *,
    seconds: float = TIMEOUT_SECONDS,
    strict: bool = False,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    rates: Mapping[str, float] | None = None,
    suppress: Mapping[str, str] | None = None,
    network: bool = False,
) -> CheckResult | None:
    """Run a script with its starts and writes intercepted, and check each query; None if it declares a pipeline."""
    from headwater.programs.script import run_script

    settings = {**(conf or {}), **({"spark.master": master} if master else {})}
    suppressions = _suppressions(suppress, None, "`--suppress {code}=…`")
    run = run_script(file, arguments, seconds, settings, network)
    if run.declares and not run.queries and run.problem is None:
        return None
    findings = [finding for caught in run.queries for finding in _findings(caught)]
    if run.problem:
        findings.insert(0, Finding(run.problem))
    elif not run.queries:
        findings.append(_nothing_started(file, run.spark))
    told_already = run.problem and (run.problem.code, run.problem.place)
    notes = [note for note in run.notes if (note.code, note.place) != told_already]
    findings += [Finding(note, Severity.NOTE) for note in notes]
    if run.weakness:
        findings.append(Finding(run.weakness, Severity.WARNING))
    whole = run.problem is None and bool(run.queries) and not any(each.problems for each in run.queries)
    told = suppressed_by(suppressions, findings, complete=whole)
    outlines = (Outline.of(each.facts, rates) for each in run.queries)
    sinks = tuple(SinkChecked(each.facts.sink, each, has_lock=False) for each in outlines)
    return CheckResult(file, None, False, tuple(together(told)), sinks, strict)


def _nothing_started(file: str, spark: bool) -> Finding:
    """A warning for a batch program, an error for a file that never uses Spark: most likely the wrong file."""
    hint = (
        "If the script starts queries only with certain arguments, pass them after `--`."
        if spark
        else "Pass a pipeline file, or a script that starts streaming queries."
    )
    problem = programs.SCRIPT_QUERY_MISSING.at(None, file=file, hint=hint)
    return Finding(problem, Severity.WARNING if spark else Severity.ERROR)
