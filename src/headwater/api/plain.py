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
from headwater.checks.programs import about_query
from headwater.errors import PipelineError, UsageProblem
from headwater.errors.catalogue import programs
from headwater.loaders.programs import declares_pipeline
from headwater.loaders.python_form import caller
from headwater.plan import QueryFacts
from headwater.spec import Mode
from headwater.values import Position, parse_trigger, scrub, scrub_within

if TYPE_CHECKING:
    from headwater.engine.plain.messages import Caught

DEADLINE_SECONDS = 60.0
_COLOURS = {Severity.ERROR: "#b3261e", Severity.WARNING: "#8a6100", Severity.ADVICE: "#1a5fb4"}


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
                f"{place}{finding.severity} {problem.code}",
                f"  {problem.sentence}",
                f"  {problem.remedy}",
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
        others = len(self.findings) - errors
        return f"check passed, {others} finding(s)." if self.ok else f"check found {errors} error(s)."


def check(
    df: Any,
    mode: str = "append",
    sink: Any = None,
    trigger: str | None = None,
    name: str | None = None,
) -> QueryChecked:
    """Judge a stream as if it were started now; nothing starts, and the session stays as it is.

    `sink` is a format of Spark's ("parquet"), the function of a `foreachBatch`, or a connector such as
    `hw.files(…)`; without one, what hangs on the sink is not known. `trigger` is written as in a pipeline
    file: "every 10 seconds".
    """
    from headwater.engine.plain.frames import judged_frame

    place = caller()
    called = name or "query"
    try:
        found = judged_frame(
            df, sink=sink, mode=_mode(mode, place), trigger=_trigger(trigger, place), name=called, place=place
        )
    except PipelineError as error:
        return QueryChecked(called, tuple(map(Finding, error.problems)), None)
    return QueryChecked(called, tuple(_findings(found)), Outline.of(found.facts))


def _mode(mode: str, place: Position) -> str:
    if mode.lower() not in list(Mode):
        raise UsageProblem(programs.UNKNOWN_MODE.at(place, mode=mode))
    return mode.lower()


def _trigger(trigger: str | None, place: Position) -> str:
    if trigger is None:
        return "unpaced"
    try:
        return str(parse_trigger(trigger))
    except ValueError as error:
        raise UsageProblem(programs.UNKNOWN_TRIGGER.at(place, says=str(error).rstrip("."))) from error


def _findings(caught: Caught) -> list[Finding]:
    name = caught.facts.sink
    by_spark = [Finding(problem, sink=name) for problem in caught.problems]
    doubts = [Finding(problem, Severity.WARNING, name) for problem in caught.doubts]
    return together(by_spark, doubts, about_query(caught.facts, caught.place))


def _row(finding: Finding) -> str:
    problem = finding.problem
    colour = _COLOURS[finding.severity]
    head = (
        f'<td style="color:{colour};vertical-align:top"><b>{finding.severity}</b> {_text(problem.code)}</td>'
    )
    words = f"{_text(problem.sentence)}<br>{_text(problem.remedy)}"
    return f'<tr>{head}<td style="text-align:left;white-space:pre-wrap">{words}</td></tr>'


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
) -> CheckResult | None:
    """Run a script with its starts and writes caught, and judge each query; None if it makes a pipeline."""
    from headwater.engine.plain.script import run_script

    settings = {**(conf or {}), **({"spark.master": master} if master else {})}
    run = run_script(file, arguments, seconds, settings)
    if run.declares and not run.queries and run.problem is None:
        return None
    findings = [finding for caught in run.queries for finding in _findings(caught)]
    if run.problem:
        findings.insert(0, Finding(run.problem))
    elif not run.queries:
        findings.append(_nothing_started(file, run.spark))
    sinks = tuple(SinkChecked(each.facts.sink, Outline.of(each.facts, rates)) for each in run.queries)
    return CheckResult(file, None, False, tuple(together(findings)), sinks, strict)


def _nothing_started(file: str, spark: bool) -> Finding:
    """A batch program may well be as it should; a file that never called Spark is most likely not meant."""
    hint = (
        "If it starts queries only with certain arguments, give them after `--`."
        if spark
        else "Give the file of a pipeline, or of a program that starts streaming queries when it is run."
    )
    problem = programs.SCRIPT_NO_QUERY.at(None, file=file, hint=hint)
    return Finding(problem, Severity.WARNING if spark else Severity.ERROR)
