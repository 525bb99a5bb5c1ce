"""`hw.check` and `headwater check job.py`: plain PySpark, judged like a declared pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.api.results import CheckResult, SinkChecked
from headwater.checks import Finding, Severity, together
from headwater.checks.outline import Outline
from headwater.checks.suppression import Accept, about_query, accepted_by
from headwater.errors import PipelineError, UsageProblem
from headwater.errors.catalogue import programs
from headwater.loaders.user_files import declares_pipeline
from headwater.plan import QueryFacts
from headwater.spec import Mode
from headwater.values import Position, parse_trigger, scrub, scrub_within
from headwater.values.user_frames import caller

if TYPE_CHECKING:
    from headwater.programs.script import CapturedQuery

DEADLINE_SECONDS = 60.0
_COLORS = {Severity.ERROR: "#b3261e", Severity.WARNING: "#8a6100", Severity.ADVICE: "#1a5fb4"}


@dataclass(frozen=True, repr=False)
class QueryChecked:
    """What can be said of one stream before it is started; a notebook shows it as a page of its own."""

    name: str
    findings: tuple[Finding, ...]
    """The gravest first."""
    outline: Outline | None
    """Operators, what each keeps, and the guarantee; None for a DataFrame that is no stream."""

    @property
    def ok(self) -> bool:
        """Whether nothing keeps it from starting."""
        return not any(finding.is_error for finding in self.findings)

    @property
    def facts(self) -> QueryFacts | None:
        """What Spark would do."""
        return self.outline.facts if self.outline else None

    def to_json(self) -> dict[str, Any]:
        told = self.outline.to_json() if self.outline else {}
        findings = [finding.to_json() for finding in self.findings]
        shown = scrub_within({"name": self.name, "ok": self.ok, "findings": findings, **told})
        assert isinstance(shown, dict), "a mapping stays one"
        return shown

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self._verdict()}"]
        for finding in self.findings:
            problem = finding.problem
            place = f"{problem.where}: " if problem.place else ""
            lines += [
                f"{place}{_grade(finding)} {problem.code}",
                f"  {problem.sentence}",
                f"  {_advice(finding)}",
            ]
        return scrub("\n".join([*lines, *(self.outline.picture() if self.outline else [])]))

    def _repr_html_(self) -> str:
        rows = "".join(map(_row, self.findings))
        table = f"<table>{rows}</table>" if rows else ""
        picture = "\n".join(self.outline.picture()) if self.outline else ""
        below = f"<pre>{_text(picture)}</pre>" if picture else ""
        return f"<div><b>{_text(self.name)}</b>: {_text(self._verdict())}{table}{below}</div>"

    def _verdict(self) -> str:
        errors = sum(finding.is_error for finding in self.findings)
        kept = sum(bool(finding.accepted) for finding in self.findings)
        others = len(self.findings) - errors - kept
        told = f"check passed, {others} finding(s)" if self.ok else f"check found {errors} error(s)"
        return f"{told}, {kept} accepted." if kept else f"{told}."


def check(
    df: Any,
    mode: str = "append",
    sink: Any = None,
    trigger: str | None = None,
    name: str | None = None,
    accept: Mapping[str, str] | None = None,
) -> QueryChecked:
    """Judge a stream as if it were started now; nothing starts, and the session stays as it is.

    `sink` is a format of Spark's ("parquet"), the function of a `foreachBatch`, or a connector such as
    `hw.files(…)`; without one, what hangs on the sink is not known. `trigger` is written as in a pipeline
    file: "every 10 seconds". `accept` holds codes of findings that are all right, each with the reason.
    """
    from headwater.programs.query_start import check_frame

    place = caller()
    called, accepts = name or "query", _accepts(accept, place, "`accept={{{code!r}: …}}`")
    if mode.lower() not in list(Mode):
        raise UsageProblem(programs.MODE_INVALID.at(place, mode=mode))
    paced = _trigger(trigger, place)
    try:
        found = check_frame(df, sink=sink, mode=mode.lower(), trigger=paced, name=called, place=place)
    except PipelineError as error:
        refused = accepted_by(accepts, map(Finding, error.problems))
        return QueryChecked(called, tuple(together(refused)), None)
    # Without a sink not all is asked, and what would be found with one may be accepted already.
    whole = sink is not None and not found.problems
    told = accepted_by(accepts, _findings(found), complete=whole)
    return QueryChecked(called, tuple(together(told)), Outline.of(found.facts))


def _trigger(trigger: str | None, place: Position) -> str:
    if trigger is None:
        return "unpaced"
    try:
        return str(parse_trigger(trigger))
    except ValueError as error:
        raise UsageProblem(programs.TRIGGER_INVALID.at(place, says=str(error).rstrip("."))) from error


def _accepts(given: Mapping[str, str] | None, place: Position | None, form: str) -> tuple[Accept, ...]:
    """What a check accepts; `form` is how a reason is given."""
    for code, reason in (given or {}).items():
        if not isinstance(reason, str) or not reason.strip():
            raise UsageProblem(
                programs.SUPPRESS_REASON_MISSING.at(place, code=code, form=form.format(code=code))
            )
    return tuple(Accept(code, why.strip(), place, by="this check") for code, why in (given or {}).items())


def _findings(caught: CapturedQuery) -> list[Finding]:
    name = caught.facts.sink
    by_spark = [Finding(problem, sink=name) for problem in caught.problems]
    doubts = [Finding(problem, Severity.WARNING, name) for problem in caught.doubts]
    return [*by_spark, *doubts, *about_query(caught.facts, caught.place)]


def _row(finding: Finding) -> str:
    problem = finding.problem
    color = "inherit" if finding.accepted else _COLORS[finding.severity]
    head = f'<td style="color:{color};vertical-align:top"><b>{_grade(finding)}</b> {_text(problem.code)}</td>'
    words = f"{_text(problem.sentence)}<br>{_text(_advice(finding))}"
    return f'<tr>{head}<td style="text-align:left;white-space:pre-wrap">{words}</td></tr>'


def _grade(finding: Finding) -> str:
    return f"accepted {finding.severity}" if finding.accepted else str(finding.severity)


def _advice(finding: Finding) -> str:
    return f"Accepted: {finding.accepted}" if finding.accepted else finding.problem.remedy


def _text(text: str) -> str:
    return escape(scrub(text))


def is_script(file: str | Path) -> bool:
    """Whether a file is a plain program: Python that makes no pipeline of Headwater's."""
    path = Path(file)
    return path.suffix == ".py" and path.is_file() and not declares_pipeline(path)


def check_script(
    file: str,
    arguments: tuple[str, ...] = (),
    *,
    seconds: float = DEADLINE_SECONDS,
    strict: bool = False,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    rates: Mapping[str, float] | None = None,
    accept: Mapping[str, str] | None = None,
    network: bool = False,
) -> CheckResult | None:
    """Run a script with its starts and writes caught, and judge each query; None if it makes a pipeline."""
    from headwater.programs.script import run_script

    settings = {**(conf or {}), **({"spark.master": master} if master else {})}
    accepts = _accepts(accept, None, "`--accept {code}=…`")
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
    findings += [Finding(note, Severity.ADVICE) for note in notes]
    if run.weakness:
        findings.append(Finding(run.weakness, Severity.WARNING))
    whole = run.problem is None and bool(run.queries) and not any(each.problems for each in run.queries)
    told = accepted_by(accepts, findings, complete=whole)
    sinks = tuple(SinkChecked(each.facts.sink, Outline.of(each.facts, rates)) for each in run.queries)
    return CheckResult(file, None, False, tuple(together(told)), sinks, strict)


def _nothing_started(file: str, spark: bool) -> Finding:
    """A batch program may well be as it should; a file that never called Spark is most likely not meant."""
    hint = (
        "If it starts queries only with certain arguments, give them after `--`."
        if spark
        else "Give the file of a pipeline, or of a program that starts streaming queries when it is run."
    )
    problem = programs.SCRIPT_QUERY_MISSING.at(None, file=file, hint=hint)
    return Finding(problem, Severity.WARNING if spark else Severity.ERROR)
