"""What the commands return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from headwater.checks import Finding, Severity
from headwater.checks.guarantees import Guarantee
from headwater.checks.outline import Outline
from headwater.errors import PipelineError, Problem
from headwater.events import QuerySummary
from headwater.events.counts import SourceCounts, TableCounts
from headwater.values import count_of


@dataclass(frozen=True)
class SinkChecked:
    """The result of a check for one sink."""

    name: str
    outline: Outline | None = None
    """Its operators, state and delivery guarantee; None offline, and if Spark cannot analyze the query."""
    without_spark: Guarantee | None = None
    """Its delivery guarantee, as far as it is known offline."""
    has_lock: bool = True
    """Whether Headwater locks its checkpoint; it does not lock those of a script."""
    group: str | None = None
    """The group whose query it shares."""

    def to_json(self) -> dict[str, Any]:
        known = self.without_spark.to_json() if self.without_spark else None
        outline = self.outline.to_json() if self.outline else {"bounds": None, "guarantee": known}
        return {
            "name": self.name,
            "group": self.group,
            "bounds": outline["bounds"],
            "guarantee": outline["guarantee"],
            "after_suspension": self.after_suspension,
        }

    @property
    def after_suspension(self) -> str | None:
        """What the sink contains after another run has taken over from a suspended one; None if unknown."""
        return self.outline.after_suspension if self.outline and self.has_lock else None


@dataclass(frozen=True)
class CheckResult:
    """All findings of a check, the most severe first."""

    file: str
    pipeline: str | None
    offline: bool
    findings: tuple[Finding, ...]
    sinks: tuple[SinkChecked, ...] = ()
    """The sinks in the order of their declaration; empty if the file could not be read."""
    strict: bool = False
    """Whether warnings are treated as errors."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.is_error)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity is Severity.WARNING and not f.suppressed)

    @property
    def exit_code(self) -> int:
        return PipelineError.exit_code if self.errors or (self.strict and self.warnings) else 0

    def of_sink(self, name: str) -> tuple[Finding, ...]:
        """The findings about one sink; with an empty name, those about the whole pipeline."""
        return tuple(finding for finding in self.findings if finding.sink == name)

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "pipeline": self.pipeline,
            "offline": self.offline,
            "strict": self.strict,
            "ok": self.exit_code == 0,
            "findings": [finding.to_json() for finding in self.findings],
            "sinks": [sink.to_json() for sink in self.sinks],
        }


def counts_in_words(errors: int, warnings: int, notes: int, suppressed: int) -> str:
    """The findings of a check by severity: `2 errors, 1 note, 1 suppressed`, or `no findings`."""
    counts = {"error": errors, "warning": warnings, "note": notes}
    found = [count_of(count, noun) for noun, count in counts.items() if count]
    return ", ".join([*(found or ["no findings"]), *([f"{suppressed} suppressed"] if suppressed else [])])


@dataclass(frozen=True)
class TableExplained:
    """A source or table as Spark sees it."""

    name: str
    kind: str
    streaming: bool
    reads: tuple[str, ...]
    schema: Mapping[str, str]
    refresh: str | None = None
    """How often a static source is refreshed; None for other sources and for tables."""
    cache: bool = False


@dataclass(frozen=True)
class SinkExplained:
    """A sink's query as Spark would run it."""

    name: str
    reads: str
    connector: str
    mode: str
    trigger: str
    delivery: str
    """What the sink does with a retried batch."""
    checkpoint: str
    settings: tuple[Mapping[str, str], ...]
    plan: str
    outline: Outline
    """Its operators, state and delivery guarantee."""
    group: str | None = None
    """The group whose query it shares."""

    def to_json(self) -> dict[str, Any]:
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "outline"}
        return {**own, **self.outline.to_json(), "after_suspension": self.outline.after_suspension}


@dataclass(frozen=True)
class ExplainResult:
    """The graph, the schemas, the settings and the plans of a pipeline."""

    pipeline: str
    run_dir: str
    tables: tuple[TableExplained, ...]
    sinks: tuple[SinkExplained, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "run_dir": self.run_dir,
            "tables": [asdict(table) for table in self.tables],
            "sinks": [sink.to_json() for sink in self.sinks],
        }


@dataclass(frozen=True)
class RunResult:
    """How a run ended."""

    exit_code: int
    queries: Mapping[str, QuerySummary] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    """Why it could not start."""


@dataclass(frozen=True)
class BatchResult:
    """What a batch run wrote, by sink: the location, and the number of rows if it is known."""

    written: Mapping[str, str]
    rows: Mapping[str, int | None]
    expectations: Mapping[str, TableCounts] = field(default_factory=dict)
    """Rows checked and failed, by table with expectations."""
    sources: Mapping[str, SourceCounts] = field(default_factory=dict)
    """Rows read, good and bad, by source that distinguishes them."""
