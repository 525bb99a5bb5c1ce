"""The scratch pipeline: the same tables on frozen input, with every sink redirected to a scratch copy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from headwater.connectors import sink_side, source_side
from headwater.connectors.connector import ReadsBack
from headwater.connectors.contract import NoScratch, Scratch
from headwater.connectors.proving import (
    FreezesInput,
    HasReadFunction,
    MakesScratch,
    ReadsGivenFiles,
    ShowsContents,
)
from headwater.errors import PipelineError, Problem, UsageError
from headwater.errors.catalogue.proving import (
    PROVE_INPUT_UNBOUNDED,
    PROVE_INPUT_UNKNOWN,
    PROVE_INPUT_UNSUPPORTED,
    PROVE_NO_SINKS,
    PROVE_SOURCE_UNREPLAYABLE,
)
from headwater.spec import PipelineSpec, SinkSpec, SourceSpec
from headwater.spec.history import HistoryKeys
from headwater.values import Continuous, RealTime, Unpaced

ENVIRONMENT = "HEADWATER_SCRATCH"
"""The environment variable with the directory for the user's own code."""
_VERSION = 1


@dataclass(frozen=True)
class Unproven:
    """A sink without a proof, and why."""

    sink: str
    connector: str
    reason: str


@dataclass(frozen=True)
class ScratchPlan:
    """What a child process needs to build the scratch pipeline: plain values, stored as a JSON file."""

    file: str
    """The pipeline file."""
    directory: str
    tag: str
    """In the names of tables: different for each proof."""
    code: str
    """The directory for the user's own code. Modules can read it when they are imported, so it never changes."""
    batches: int
    sinks: tuple[str, ...] = ()
    """The sinks with a proof."""
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Given files, by source."""

    @property
    def path(self) -> Path:
        return Path(self.directory)

    @property
    def run_dir(self) -> Path:
        return self.path / "run"

    @property
    def file_of_plan(self) -> Path:
        return self.path / "plan.json"

    def sink_directory(self, sink: str) -> Path:
        return self.path / "sinks" / sink

    def save(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self.file_of_plan.write_text(json.dumps({"version": _VERSION, **asdict(self)}), encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> ScratchPlan:
        found = json.loads(file.read_text(encoding="utf-8"))
        assert found.pop("version") == _VERSION, "parent and child are of one installation"
        inputs = {name: tuple(paths) for name, paths in found.pop("inputs").items()}
        return cls(**{**found, "sinks": tuple(found["sinks"]), "inputs": inputs})

    def clear_output(self) -> None:
        """Remove what the sinks and the run have stored in directories, for another run."""
        for directory in (self.run_dir, self.path / "sinks", Path(self.code)):
            shutil.rmtree(directory, ignore_errors=True)
        Path(self.code).mkdir(parents=True)

    def remove(self) -> None:
        """Remove everything."""
        for directory in (self.path, Path(self.code).parent):
            shutil.rmtree(directory, ignore_errors=True)
        # Other proofs of the pipeline can run.
        with suppress(OSError):
            self.path.parent.rmdir()


def unproven(spec: PipelineSpec) -> Iterator[Unproven]:
    """The sinks that cannot be proven, each with the reason."""
    for sink in spec.sinks:
        reason = _why_not(sink)
        if reason:
            yield Unproven(sink.name, sink.connector, reason)


def _why_not(sink: SinkSpec) -> str:
    side: object = sink_side(sink.connector)
    if isinstance(sink.trigger, Continuous | RealTime):
        return f"`trigger: {sink.trigger}` never becomes idle"
    if not isinstance(side, MakesScratch):
        return f"the connector `{sink.connector}` has no scratch copies, or stores no rows"
    if not isinstance(side, ReadsBack | ShowsContents | HasReadFunction):
        return f"rows of the connector `{sink.connector}` cannot be read back"
    try:
        side.scratch(sink.options, Scratch(Path(), "x"))
    except NoScratch as error:
        return str(error)
    return ""


def problems(spec: PipelineSpec, plan: ScratchPlan) -> Iterator[Problem]:
    """Why a pipeline cannot be proven at all."""
    sources = {source.name: source for source in spec.sources}
    for name in plan.inputs:
        if name not in sources:
            known = ", ".join(sources) or "none"
            yield PROVE_INPUT_UNKNOWN.at(None, source=name, known=known)
        elif not isinstance(source_side(sources[name].connector), ReadsGivenFiles):
            yield PROVE_INPUT_UNSUPPORTED.at(None, source=name, connector=sources[name].connector)
    for source in spec.sources:
        side = source_side(source.connector)
        params = {"source": source.name, "connector": source.connector}
        if not source.static and not side.replayable:
            yield PROVE_SOURCE_UNREPLAYABLE.at(source.position, **params)
        elif not side.batch or side.made_while_running:
            yield PROVE_INPUT_UNBOUNDED.at(source.position, **params)


def prepare_plan(spec: PipelineSpec, plan: ScratchPlan) -> tuple[ScratchPlan, tuple[Unproven, ...]]:
    """The plan with its sinks; UsageError or PipelineError if nothing can be proven."""
    found = list(problems(spec, plan))
    if found:
        raise (UsageError if any(each.place is None for each in found) else PipelineError)(*found)
    not_proven = tuple(unproven(spec))
    names = {each.sink for each in not_proven}
    sinks = tuple(sink.name for sink in spec.sinks if sink.name not in names)
    if not sinks:
        reasons = "; ".join(f"`{each.sink}`: {each.reason}" for each in not_proven)
        raise PipelineError(
            PROVE_NO_SINKS.at(spec.position, pipeline=spec.name, reasons=reasons or "no sinks")
        )
    return replace(plan, sinks=sinks), not_proven


def scratch_spec(spec: PipelineSpec, plan: ScratchPlan) -> PipelineSpec:
    """The pipeline with frozen input and scratch sinks; whatever it tells the outside world is off."""
    sinks = tuple(
        _scratch_sink(sink, plan, number) for number, sink in enumerate(spec.sinks) if sink.name in plan.sinks
    )
    return spec.model_copy(
        update={
            "run_dir": plan.run_dir,
            "sources": tuple(_frozen(source, plan) for source in spec.sources),
            "sinks": sinks,
            "webhook": None,
            "on_event": None,
            "event_log": None,
            "spark_metrics": None,
            "history": HistoryKeys(),
        }
    )


def _scratch_sink(sink: SinkSpec, plan: ScratchPlan, number: int) -> SinkSpec:
    side: object = sink_side(sink.connector)
    assert isinstance(side, MakesScratch), "the plan has only such sinks"
    place = Scratch(plan.sink_directory(sink.name), f"{plan.tag}_{number}")
    return sink.model_copy(update={"options": side.scratch(sink.options, place), "trigger": Unpaced()})


def _frozen(source: SourceSpec, plan: ScratchPlan) -> SourceSpec:
    side: object = source_side(source.connector)
    if not isinstance(side, FreezesInput):
        return source
    options = source.options
    if source.name in plan.inputs and isinstance(side, ReadsGivenFiles):
        options = side.of_files(options, plan.inputs[source.name])
    directory = plan.path / "input" / source.name
    return source.model_copy(update={"options": side.frozen(options, directory, plan.batches)})
