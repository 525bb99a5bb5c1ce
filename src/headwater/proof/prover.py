"""A proof from the first run to the certificate.

reference   a batch run, and an undisturbed run of the stream: both write the same scratch sinks
rounds      the input from the beginning, killed at each point in turn, until every run is done; then compared
end         everything scratch is removed
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median

from headwater.connectors import sink_side
from headwater.errors import HeadwaterError, PipelineError, Problem, QueryFailedError, UsageError
from headwater.errors.catalogue.proving import (
    PROVE_INPUT_EMPTY,
    PROVE_POINTS_UNSUPPORTED,
    PROVE_RUN_FAILED,
)
from headwater.plan import Graph
from headwater.proof.certificate import Kill, Reference, SinkProof, Violation
from headwater.proof.checkpoints import QueryLog
from headwater.proof.contents import Contents, Difference, Rows
from headwater.proof.events import EmitProof, Killed, Phase, Planned, Violated
from headwater.proof.points import PlannedKill, Point, Target, Victim, schedule
from headwater.proof.reader import Reader
from headwater.proof.runs import Deadline, Launcher, ScratchRun, query_log
from headwater.proof.scratch import ScratchPlan
from headwater.proof.strikes import KillResult, Strike
from headwater.spec import Mode, PipelineSpec

_TRIES = 2
"""How often a point is tried: the first round can end before it is reached."""


@dataclass(frozen=True)
class Order:
    """What to prove, and how hard."""

    points: tuple[Point, ...]
    kills: int | None
    """None for one at each point that a sink supports."""
    seed: int


@dataclass
class Expected:
    """The reference of one sink."""

    reference: Reference
    rows: Rows
    not_in_batch: int = 0
    no_batch: str = ""
    """Why there is no batch result."""


@dataclass
class Outcome:
    """What a proof has found so far."""

    kills: list[Kill] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    rounds: int = 0
    compared: int = 0
    batches: int = 0
    kills_requested: int = 0
    left: tuple[str, ...] = ()
    """Scratch copies that could not be removed."""


class Prover:
    """Proves one scratch pipeline."""

    def __init__(
        self,
        spec: PipelineSpec,
        plan: ScratchPlan,
        contents: Contents,
        launcher: Launcher,
        deadline: Deadline,
        emit: EmitProof,
    ) -> None:
        self._spec = spec
        self._plan = plan
        self._contents = contents
        self._launcher = launcher
        self._deadline = deadline
        self._emit = emit
        self.outcome = Outcome()
        self.expected: dict[str, Expected] = {}
        self._usual = 0.5
        self._reader: Reader | None = None

    def prove(self, order: Order) -> None:
        """Find the reference, then kill and compare."""
        targets = [Target(name, self._contents.abilities(name)) for name in self._contents.sinks]
        kills = schedule(order.points, targets, order.kills, order.seed)
        if not kills:
            points = ", ".join(point.name for point in order.points)
            raise UsageError(PROVE_POINTS_UNSUPPORTED.at(None, pipeline=self._spec.name, points=points))
        self.outcome.kills_requested = self._deadline.planned = len(kills)
        self._find_reference()
        if self.outcome.violations:
            # Every later comparison would fail as well.
            return
        self._emit(Planned(len(kills)))
        rows = {name: each.rows for name, each in self.expected.items()}
        self._reader = Reader(self._contents, rows, self._violate)
        with self._reader.running():
            self._rounds(kills)

    @property
    def places(self) -> tuple[str, ...]:
        """Where the scratch copies are."""
        return self._contents.places()

    @property
    def reads(self) -> Mapping[str, int]:
        """How often the concurrent reader has read each sink."""
        return self._reader.reads if self._reader else {}

    def proofs(self) -> tuple[SinkProof, ...]:
        """What was compared, for each sink."""
        return tuple(
            SinkProof(
                name,
                self._contents.sinks[name].connector,
                self._contents.sinks[name].mode.value,
                each.reference,
                each.rows.total(),
                self.outcome.compared,
                self.reads.get(name, 0),
                each.not_in_batch,
                each.no_batch,
            )
            for name, each in self.expected.items()
        )

    # The reference.

    def _find_reference(self) -> None:
        self._emit(Phase("Computing the batch result"))
        batch = {name: self._batch_rows(name) for name in self._contents.sinks}
        self._reset()
        self._emit(Phase("Running the pipeline without kills"))
        run = self._launcher.start()
        if run.wait(self._deadline) != 0:
            params = {"says": run.last_words, "file": self._plan.file}
            raise QueryFailedError(PROVE_RUN_FAILED.at(None, **params))
        logs = [self._log(name) for name in self._contents.sinks]
        self.outcome.batches = sum(log.committed + 1 for log in logs)
        if not self.outcome.batches:
            raise PipelineError(PROVE_INPUT_EMPTY.at(self._spec.position, pipeline=self._spec.name))
        # The first batch of a run compiles and loads, so it takes longer than the others.
        self._usual = median(
            [seconds for log in logs for seconds in log.durations()[1:] or log.durations()] or [0.5]
        )
        for name in self._contents.sinks:
            self.expected[name] = self._expected(name, batch[name], self._contents.read_finally(name))

    def _batch_rows(self, name: str) -> Rows | str:
        """The batch result of a sink, or why there is none."""
        sink = self._contents.sinks[name]
        if not sink_side(sink.connector).batch:
            return f"the connector `{sink.connector}` cannot write it"
        try:
            self._contents.write_batch(name)
        except Exception as error:  # also from the user's code; the certificate shows it
            if isinstance(error, HeadwaterError) and error.retryable:
                raise
            # For example an upsert of several versions of a row: only a stream knows which is the last one.
            return _reason(error)
        return self._contents.read_finally(name)

    def _expected(self, name: str, batch: Rows | str, stream: Rows) -> Expected:
        if isinstance(batch, str):
            return Expected(Reference.STREAM, stream, no_batch=batch)
        difference = Difference.of(batch, stream)
        if difference is None:
            return Expected(Reference.BATCH, batch)
        # Late rows and open windows can only lack: more rows than keys are versions of the same row.
        repeats = self._contents.sinks[name].mode is Mode.UPDATE and stream.total() > batch.total()
        if self._depends_on_arrival(name) and not repeats:
            return Expected(Reference.STREAM, stream, (stream - batch).total())
        what = "a run without a kill differs from the batch result"
        self._violate(name, what, difference)
        return Expected(Reference.BATCH, batch)

    def _depends_on_arrival(self, name: str) -> bool:
        """Whether the results of stream and batch can differ: rows are late, windows stay open, code has state."""
        sink, log = self._contents.sinks[name], self._log(name)
        if sink.mode is Mode.COMPLETE or not log.has_state:
            return False
        if log.watermark_ms > 0:
            return True
        above = set(Graph.of(self._spec).upstream(sink.reads))
        return any(table.form != "sql" for table in self._spec.tables if table.name in above)

    # Rounds.

    def _rounds(self, kills: list[PlannedKill]) -> None:
        waiting = [(kill, 1) for kill in kills]
        while waiting and not self.outcome.violations:
            self.outcome.rounds += 1
            self._reset()
            waiting = self._round(waiting)

    def _round(self, waiting: list[tuple[PlannedKill, int]]) -> list[tuple[PlannedKill, int]]:
        """Process the input once; returns the kills for another round."""
        run = self._launcher.start()
        fresh = True
        while waiting and not self.outcome.violations:
            kill, tried = waiting[0]
            if kill.point.starts and not fresh:
                run.kill(Victim.BOTH)
                run = self._launcher.start()
            result = self._kill(kill, run)
            # It ended because of an earlier kill of a part of it.
            failed = run.ended and run.was_killed and not result.killed
            if (result.finished or failed) and tried < _TRIES:
                waiting = [(kill, tried + 1), *waiting[1:]]
                if result.finished:
                    break
                run, fresh = self._launcher.start(), True
                continue
            self._record(kill, result)
            waiting = waiting[1:]
            fresh = run.ended
            if result.finished:
                break
            if run.ended:
                if run.exit_code != 0 and not run.was_killed:
                    break
                self._look()
                run = self._launcher.start()
        # After a violation too: it shows which other sinks are affected.
        self._finish(run)
        return waiting

    def _kill(self, kill: PlannedKill, run: ScratchRun) -> KillResult:
        log = self._log(kill.sink)
        others = tuple({each for each in map(self._log, self._contents.sinks) if each != log})
        return Strike(kill, run, log, self._contents, self._deadline, self._usual, others)()

    def _record(self, planned: PlannedKill, result: KillResult) -> None:
        kill = Kill.of(planned, result)
        self.outcome.kills.append(kill)
        self._deadline.done = len(self.outcome.kills)
        self._emit(Killed(kill))

    def _finish(self, run: ScratchRun) -> None:
        """Let the run process the rest, and compare all sinks."""
        if run.wait(self._deadline) != 0 and run.was_killed:
            # As a service manager does.
            run = self._launcher.start()
        if run.wait(self._deadline) != 0:
            self._violate("", f"the run did not recover: {run.last_words}", None)
            return
        for name, each in self.expected.items():
            difference = Difference.of(each.rows, self._contents.read_finally(name))
            if difference:
                self._violate(name, f"the contents differ from the {each.reference.value}", difference)
        self.outcome.compared += 1

    def _look(self) -> None:
        """What readers see while the run is dead."""
        if self._reader:
            self._reader.look()

    # Sinks.

    def _log(self, sink: str) -> QueryLog:
        return query_log(self._plan, sink, getattr(self._contents.sinks[sink], "group", None))

    def _reset(self) -> None:
        """Empty every sink, and forget the checkpoints."""
        with ExitStack() as stack:
            if self._reader:
                stack.enter_context(self._reader.paused())
            self._contents.discard()
            self._plan.clear_output()

    def _violate(self, sink: str, what: str, difference: Difference | None) -> None:
        violation = Violation(sink, what, len(self.outcome.kills), difference)
        known = {(each.sink, each.what) for each in self.outcome.violations}
        if (sink, what) not in known:
            self.outcome.violations.append(violation)
            self._emit(Violated(violation))


def _reason(error: Exception) -> str:
    """An error in one line."""
    if isinstance(error, HeadwaterError) and error.problems:
        return error.problems[0].message.rstrip(".")
    lines = str(error).strip().splitlines()
    return ": ".join([type(error).__name__, *lines[:1]]).rstrip(". ")


def new_tag() -> str:
    """A part of the names of scratch tables."""
    return secrets.token_hex(4)


def close(contents: Contents | None, launcher: Launcher, *, keep: bool = False) -> tuple[Problem, ...]:
    """End what still runs, and remove what is outside of the scratch directory; returns what could not be removed."""
    launcher.close()
    try:
        if contents is not None and not keep:
            contents.discard()
    except HeadwaterError as error:
        return error.problems
    return ()
