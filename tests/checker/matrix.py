"""The matrix: what the check says of every case, held against a real start with data through two batches.

A real start is made once for each Spark and each text of a case, by `make outcomes`; the gate knows them all.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

import headwater as hw
from headwater.checks import Finding
from headwater.connectors.connector import ConnectorCall
from headwater.engine.builder import Builder
from headwater.engine.outcome import check_outcome
from headwater.engine.prepare import prepare, settings_of
from headwater.engine.session import FILE_MANAGER, PARTITIONS, PipelineSession, open_session
from headwater.errors import PipelineError
from headwater.spark.session import FASTER_FILE_MANAGER
from headwater.spec import PipelineSpec
from tests.checker import cases
from tests.checker.cases import ANY_ROWS, Case, Query
from tests.checker.cases.sources import CLOCKS, CLOSED, DELAY, SOURCES
from tests.checker.starting import Outcome, Started, start
from tests.pipelines import feed

QUICK = {PARTITIONS: "1", FILE_MANAGER: FASTER_FILE_MANAGER, "spark.sql.streaming.pollingDelay": "20ms"}
SIDE_BY_SIDE = 4
ALONE = threading.Lock()


@dataclass(frozen=True)
class Judged:
    """A case, what the check says, and what a real start showed."""

    case: Case
    errors: tuple[Finding, ...]
    outcome: Outcome
    says: str = ""
    """What went wrong at the real start."""
    started: bool = True
    """Whether that was in this run; else `outcome` is what is recorded beside the tests."""

    @property
    def accepted(self) -> bool:
        return not self.errors

    @property
    def works(self) -> bool:
        return self.outcome is Outcome.WORKS


@dataclass(frozen=True)
class Matrix:
    """All cases, judged."""

    judged: Sequence[Judged]

    @property
    def off_diagonal(self) -> list[Judged]:
        """Where the check and the real start don't agree."""
        return [each for each in self.judged if each.accepted is not each.works]

    def __str__(self) -> str:
        count = Counter((each.accepted, each.works) for each in self.judged)
        started = sum(each.started for each in self.judged)
        lines = [
            f"{len(self.judged)} cases          works   does not   ({started} started in this run)",
            f"check accepts     {count[True, True]:8}{count[True, False]:11}",
            f"check refuses     {count[False, True]:8}{count[False, False]:11}",
        ]
        for each in self.off_diagonal:
            codes = ", ".join(sorted({error.problem.code for error in each.errors})) or "accepted"
            lines.append(f"  {each.case.id}: {codes}, but {each.outcome.value} {each.says[:300]}".rstrip())
        return "\n".join(lines)


def all_cases() -> list[Case]:
    """The cases of every module beside this one."""
    names = [each.name for each in pkgutil.iter_modules(cases.__path__)]
    modules = [importlib.import_module(f"{cases.__name__}.{name}") for name in names]
    return [case for module in modules for case in getattr(module, "CASES", ())]


def run_matrix(asked: Iterable[Case], folder: Path, known: Mapping[str, Outcome] | None = None) -> Matrix:
    """Judge every case; cases of equal settings share one pipeline, which is checked once.

    A case whose outcome is `known` is judged all the same, but not started.
    """
    groups: dict[frozenset[tuple[str, str]], list[Case]] = {}
    for case in asked:
        groups.setdefault(frozenset(case.settings.items()), []).append(case)
    judged: list[Judged] = []
    write_sources(folder / "in")
    for number, group in enumerate(groups.values()):
        judged += Group(group, folder, folder / str(number), known or {}).judged()
    return Matrix(judged)


def write_sources(folder: Path) -> None:
    for name, source in SOURCES.items():
        for number, rows in enumerate(source.files):
            feed(folder / name, str(number), rows, at=1000 + number)


@dataclass
class Group:
    """Cases that share one pipeline."""

    cases: Sequence[Case]
    data: Path
    folder: Path
    known: Mapping[str, Outcome]
    tables: dict[Query, str] = field(default_factory=dict)
    """The table of each query, named after the first case that has it."""

    def __post_init__(self) -> None:
        for case in self.cases:
            self.tables.setdefault(case.query, case.id)

    def judged(self) -> list[Judged]:
        spec = self.pipeline({name: query for query, name in self.tables.items()}, sinks=True)
        session = self.session(spec)
        prepared = prepare(session, spec)
        found = check_outcome(prepared, spec, {}, dict).findings
        # What can't be built at all is told once, for the first sink that reads it.
        asked = {
            case.id: case.id if case.id in prepared.frames else self.tables[case.query] for case in self.cases
        }
        errors = {
            case: tuple(each for each in found if each.is_error and each.sink == sink)
            for case, sink in asked.items()
        }
        whole = [each for each in found if each.is_error and not each.sink and not each.table]
        assert not whole, "\n".join(str(each.problem) for each in whole)
        starts = self.starts(prepared.frames)
        return [
            Judged(case, errors[case.id], self.known[case.id], started=False)
            if case.id in self.known
            else Judged(case, errors[case.id], starts[case.id].outcome, starts[case.id].says)
            for case in self.cases
        ]

    def starts(self, frames: Mapping[str, DataFrame]) -> dict[str, Started]:
        """A real start of each case whose outcome is not known."""
        unknown = [case for case in self.cases if case.id not in self.known]
        if not unknown:
            return {}
        batch = BatchForms(self)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            started = pool.map(lambda case: self.start(case, frames.get(case.id), batch), unknown)
            return {case.id: each for case, each in zip(unknown, started, strict=True)}

    def start(self, case: Case, frame: DataFrame | None, batch: BatchForms) -> Started:
        if frame is None:
            return Started(Outcome.REFUSED, "it can't be built")
        with ALONE if case.alone else nullcontext():
            return start(case, frame, self.folder / "runs" / case.id, lambda: batch.rows(case))

    def session(self, spec: PipelineSpec) -> PipelineSession:
        return open_session(spec, logs=self.folder / "logs", stdout=lambda line: None)

    def pipeline(self, queries: Mapping[str, Query], *, sinks: bool) -> PipelineSpec:
        """One pipeline with a table for each query, and a sink for each case."""
        settings = {**QUICK, **self.cases[0].settings}
        pipeline = hw.Pipeline("matrix", run_dir=self.folder / ".headwater", spark=settings)
        for name, source in SOURCES.items():
            path, limit = str(self.data / "in" / name), None if source.static else 1
            connector = hw.files(path=path, format="json", schema=source.schema, max_files_per_batch=limit)
            watermark = (source.watermark, DELAY) if source.watermark else None
            pipeline.source(name, connector, static=source.static, watermark=watermark)
        for name, clock in CLOCKS.items():
            pipeline.source(name, clock)
        for name, query in queries.items():
            if isinstance(query, str):
                pipeline.table(name, sql=query)
            else:
                pipeline.table(name, python=query)
        for case in self.cases if sinks else ():
            connector, reads = connector_of(case, self.folder / "out" / case.id), self.tables[case.query]
            pipeline.sink(case.id, connector, reads=reads, mode=case.mode, trigger=case.trigger)
        if not sinks:
            pipeline.sink("unused", hw.noop(), reads="events")
        return pipeline.spec()


def connector_of(case: Case, out: Path) -> ConnectorCall:
    """The sink of a case; one of files writes to `out`."""
    match case.sink:
        case "files":
            return hw.files(path=str(out), format="json")
        case "foreach":
            return hw.foreach(function=lambda row: None)
        case "foreach_batch":
            return hw.foreach_batch(function=lambda frame, number: None)
    return hw.connector(case.sink)


class BatchForms:
    """What the batch query of each case gives over the same rows."""

    def __init__(self, group: Group) -> None:
        queries: dict[Query, str] = {}
        for case in group.cases:
            if case.batch != ANY_ROWS:
                queries.setdefault(case.batch or case.query, f"q{len(queries)}")
        spec = group.pipeline({name: query for query, name in queries.items()}, sinks=False)
        session = group.session(spec)
        session.apply(settings_of(session, spec))
        self._names = queries
        self._builder = Builder(session.spark, spec, None, batch=True)
        self._graph = self._builder.graph
        self._known: dict[tuple[Query, str], list[Any]] = {}
        for name in queries.values():
            try:
                self._builder.frame(name, self._graph)
            except PipelineError:
                continue

    def rows(self, case: Case) -> list[Any] | None:
        """The rows that a stream has to give in the end; None where any will do."""
        if case.batch == ANY_ROWS:
            return None
        frame = self._builder.frame(self._names[case.batch or case.query], self._graph)
        closed = case.final or (f"window.end <= {CLOSED}" if "window" in frame.columns else "")
        asked = (case.batch or case.query, closed if case.mode == "append" else "")
        if asked not in self._known:
            self._known[asked] = (frame.where(asked[1]) if asked[1] else frame).collect()
        return self._known[asked]
