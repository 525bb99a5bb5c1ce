"""`headwater prove`: kill real runs of a pipeline on scratch copies of its sinks, and compare the results."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from headwater.engine.pipeline_file import load
from headwater.engine.prepare import prepare
from headwater.engine.session import open_session
from headwater.errors import PipelineError, UsageError
from headwater.errors.catalogue.proving import PROVE_INPUT_INVALID, PROVE_POINT_UNKNOWN
from headwater.proof.certificate import Certificate, command_of
from headwater.proof.contents import Contents
from headwater.proof.events import EmitProof, Phase
from headwater.proof.points import BY_NAME, POINTS, Point
from headwater.proof.prover import Order, Prover, close, new_tag
from headwater.proof.runs import Deadline, Launcher
from headwater.proof.scratch import ENVIRONMENT, ScratchPlan, Unproven, prepare_plan, scratch_spec
from headwater.run_directory import RunDirectory
from headwater.spec import PipelineSpec
from headwater.values import Duration, did_you_mean

BATCHES = 8
"""The number of batches into which a source without limits is divided."""
_RUN = "headwater.api.prove_run"
DEFAULT_SEED = 1
DEFAULT_TIMEOUT = Duration.parse("2 hours")


@dataclass(frozen=True)
class ProofOptions:
    """What to kill, and how to run; nothing here changes the meaning of the pipeline."""

    kills: int | None = None
    """None for one at each point that a sink supports."""
    seed: int = DEFAULT_SEED
    points: tuple[str, ...] = ()
    """Only these points; none for all."""
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Given files, by source."""
    timeout: Duration = DEFAULT_TIMEOUT
    keep: bool = False
    """Keep the scratch copies."""
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


def prove(
    file: str | Path,
    *,
    kills: int | None = None,
    seed: int = DEFAULT_SEED,
    points: Sequence[str] = (),
    inputs: Mapping[str, str | Path] | None = None,
    timeout: str = str(DEFAULT_TIMEOUT),
    keep: bool = False,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> Certificate:
    """Prove the pipeline of a file, and return the certificate.

    `kills` is the number of kills, by default one at each point that a sink supports.
    `points` are the names of points, by default all. `inputs` are files or directories to read instead of the
    current data, by source. Violations do not raise an error: see `certificate.proven`.
    """
    given = {name: (os.path.abspath(path),) for name, path in (inputs or {}).items()}
    options = ProofOptions(
        kills, seed, tuple(points), given, Duration.parse(timeout), keep, master, conf or {}
    )
    return run_proof(file, options)


def run_proof(
    file: str | Path,
    options: ProofOptions,
    emit: EmitProof = lambda event: None,
    stdout: Callable[[str], None] = lambda line: None,
) -> Certificate:
    """Prove a pipeline; UsageError or PipelineError if that is not possible."""
    points, tag = _points(options.points), new_tag()
    _check_inputs(options.inputs)
    started, began = datetime.now(UTC), time.monotonic()
    with _terminable(), _code_directory(keep=options.keep) as code:
        spec = load(file)
        directory = RunDirectory(spec.run_dir).proof(tag)
        plan = ScratchPlan(os.path.abspath(file), str(directory), tag, code, BATCHES, inputs=options.inputs)
        plan, not_proven = prepare_plan(spec, plan)
        try:
            plan.save()
            plan.clear_output()
            prover = _prove(scratch_spec(spec, plan), plan, options, points, emit, stdout)
        finally:
            if not options.keep:
                plan.remove()
        names = tuple(point.name for point in points)
        return Certificate(
            pipeline=spec.name,
            file=str(file),
            command=command_of(
                str(file),
                prover.outcome.kills_requested,
                options.seed,
                names,
                options.inputs,
                timeout="" if options.timeout == DEFAULT_TIMEOUT else str(options.timeout),
                master=options.master,
                conf=options.conf,
            ),
            versions=_versions(),
            started_at=started.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - began, 1),
            seed=options.seed,
            kills_requested=prover.outcome.kills_requested,
            batches=prover.outcome.batches,
            rounds=prover.outcome.rounds,
            sinks=prover.proofs(),
            not_proven=(*not_proven, *_quarantines(spec)),
            kills=tuple(prover.outcome.kills),
            violations=tuple(prover.outcome.violations),
            points=names,
            scratch=(plan.directory, plan.code, *prover.places) if options.keep else prover.outcome.left,
        )


def _prove(
    spec: PipelineSpec,
    plan: ScratchPlan,
    options: ProofOptions,
    points: tuple[Point, ...],
    emit: EmitProof,
    stdout: Callable[[str], None],
) -> Prover:
    deadline = Deadline(
        time.monotonic() + options.timeout.seconds, str(options.timeout), options.kills or len(points)
    )
    launcher = Launcher(plan, options.master, options.conf, _RUN)
    emit(Phase("Starting Spark"))
    session = open_session(spec, master=options.master, conf=options.conf, stdout=stdout)
    contents: Contents | None = None
    prover: Prover | None = None
    try:
        prepared = prepare(session, spec, batch=True)
        if prepared.problems:
            raise PipelineError.of(problem for _, problem in prepared.problems)
        contents = Contents(prepared, spec.sinks)
        prover = Prover(spec, plan, contents, launcher, deadline, emit)
        prover.prove(Order(points, options.kills, options.seed))
        return prover
    finally:
        try:
            left = close(contents, launcher, keep=options.keep)
            for problem in left:
                stdout(str(problem))
            if prover:
                prover.outcome.left = tuple(str(problem.params["place"]) for problem in left)
        finally:
            session.jvm.stop()


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the proof as an interrupt does, so that nothing scratch is left."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _code_directory(*, keep: bool) -> Iterator[str]:
    """The directory for the user's code, in the environment before the first of its modules is imported."""
    before, directory = os.environ.get(ENVIRONMENT), tempfile.mkdtemp(prefix="headwater-prove-")
    code = os.environ[ENVIRONMENT] = os.path.join(directory, "code")
    try:
        yield code
    finally:
        if before is None:
            del os.environ[ENVIRONMENT]
        else:
            os.environ[ENVIRONMENT] = before
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


def _points(names: Sequence[str]) -> tuple[Point, ...]:
    for name in names:
        if name not in BY_NAME:
            known = f"Points: {', '.join(BY_NAME)}."
            raise UsageError(
                PROVE_POINT_UNKNOWN.at(None, point=name, hint=did_you_mean(name, BY_NAME, known))
            )
    return tuple(BY_NAME[name] for name in dict.fromkeys(names)) or POINTS


def _check_inputs(inputs: Mapping[str, tuple[str, ...]]) -> None:
    for name, paths in inputs.items():
        for path in paths:
            if not Path(path).exists():
                raise UsageError(PROVE_INPUT_INVALID.at(None, text=f"{name}={path}"))


def _quarantines(spec: PipelineSpec) -> Iterator[Unproven]:
    from headwater.plan.quarantine import with_quarantine

    for sink in with_quarantine(spec).sinks:
        if sink.is_quarantine:
            yield Unproven(sink.name, sink.connector, "a batch run has no quarantine to compare it with")


def _versions() -> dict[str, str]:
    return {
        "headwater": version("headwater"),
        "pyspark": version("pyspark"),
        "python": platform.python_version(),
    }
