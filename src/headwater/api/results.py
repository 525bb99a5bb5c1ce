"""What the commands return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from headwater.checks import Finding, Severity


@dataclass(frozen=True)
class CheckResult:
    """Everything a check found, the gravest first."""

    file: str
    pipeline: str | None
    offline: bool
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def exit_code(self) -> int:
        return 3 if self.errors else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "pipeline": self.pipeline,
            "offline": self.offline,
            "ok": not self.errors,
            "findings": [finding.to_json() for finding in self.findings],
        }


@dataclass(frozen=True)
class TableExplained:
    """A source or table as Spark sees it."""

    name: str
    kind: str
    streaming: bool
    reads: tuple[str, ...]
    schema: Mapping[str, str]
    refresh: str | None = None
    """When a static source looks for changed files; None for whatever is no static source."""
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
    """What the sink does with a batch that comes a second time."""
    checkpoint: str
    settings: tuple[Mapping[str, str], ...]
    plan: str


@dataclass(frozen=True)
class ExplainResult:
    """The graph, the schemas, the settings and the plans of a pipeline."""

    pipeline: str
    folder: str
    tables: tuple[TableExplained, ...]
    sinks: tuple[SinkExplained, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class RunResult:
    """How a run ended."""

    exit_code: int
    queries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchResult:
    """What a batch run wrote, by sink: the place, and the rows where they are known."""

    written: Mapping[str, str]
    rows: Mapping[str, int | None]
