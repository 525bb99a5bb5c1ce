"""The steps of a test: each one acts on the queries, and is checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.testing import (
    TEST_DURATION_INVALID,
    TEST_NOT_RUNNING,
    TEST_QUERY_FAILED,
    TEST_SINK_AMBIGUOUS,
    TEST_TIME_INVALID,
)
from headwater.spec import Mode
from headwater.testing.queries import Broken, QueriesUnderTest, refuse_streams
from headwater.testing.query import rows_of, state_rows
from headwater.testing.report import compare, show
from headwater.testing.results import Batch, Failure, StepTrace, TestResult, Values
from headwater.testing.steps import (
    Advance,
    ChangeTo,
    Check,
    Crash,
    Feed,
    Restart,
    Rows,
    Start,
    Step,
    Stop,
    Unset,
)
from headwater.testing.subjects import Subject
from headwater.testing.values import BadRow, read_time
from headwater.values import Duration, count_of

Batches = Mapping[str, tuple[Batch, ...]]
"""By sink name."""

# Comparison of a step's expectations with what happened.


@dataclass(frozen=True)
class Checker:
    """The checks of one step, over the batches that it covers."""

    script: QueriesUnderTest
    step: Step
    batches: Batches

    def failures(self) -> Iterator[Failure]:
        """Every difference from the expectations; PipelineError if the step cannot be checked."""
        if self.step.fails is None:
            failed = [query.name for query in self.script.queries.values() if query.failed]
            dead = [sink for sink in (*self.step.expect, *self.step.state) if sink in failed]
            if dead:
                raise PipelineError(TEST_QUERY_FAILED.at(self.step.place, name=dead[0]))
        for sink, rows in self.step.expect.items():
            yield from self._rows(sink, rows)
        yield from self._watermarks()
        yield from self._late()
        for sink, kept in self.step.state.items():
            yield from self._state(sink, kept)
        yield from self._idle()

    def _rows(self, sink: str, rows: Rows) -> Iterator[Failure]:
        got: Sequence[Values]
        if sink in self.script.environment.real:
            got, schema = self.script.read_back(sink)
        else:
            got, schema = output_rows(self.script, sink, self.batches), self.script.queries[sink].frame.schema
        diff = compare(self.script.read(sink, rows, schema), got, schema)
        if diff:
            yield Failure("rows", f"the rows of {sink} do not match the expected rows", sink, diff)

    def _watermarks(self) -> Iterator[Failure]:
        found = {sink: query.next_watermark for sink, query in self.script.queries.items()}
        for sink, written in self._by_sink("watermark", self.step.watermark, found):
            wanted, got = self._time(written), found[sink]
            if wanted != got:
                says = f"the watermark of {sink} is {self._show(got)}, expected {self._show(wanted)}"
                yield Failure("watermark", says, sink)

    def _late(self) -> Iterator[Failure]:
        # A retried batch is one batch.
        once = {sink: {batch.id: batch.late for batch in ran} for sink, ran in self.batches.items()}
        dropped = {sink: sum(once.get(sink, {}).values()) for sink in self.script.sinks}
        for sink, wanted in self._by_sink("late", self.step.late, dropped):
            if dropped[sink] != wanted:
                says = f"{sink} dropped {count_of(dropped[sink], 'late row')}, expected {wanted}"
                yield Failure("late", says, sink)

    def _state(self, sink: str, wanted: Any) -> Iterator[Failure]:
        query = self.script.queries[sink]
        if isinstance(wanted, int):
            kept = query.batches[-1].state if query.batches else 0
            if kept != wanted:
                says = f"the state of {sink} has {count_of(kept, 'row')}, expected {wanted}"
                yield Failure("state", says, sink)
            return
        parts = wanted if isinstance(wanted, Mapping) else {None: wanted}
        for part, rows in parts.items():
            named = f"`{part}` of {sink}" if part else sink
            if not query.batches:
                if rows:
                    yield Failure("state", f"the state of {named} is empty before the first batch", sink)
                continue
            frame = state_rows(self.script.subject.spark, sink, query.checkpoint, part, query.operators)
            diff = compare(self.script.read(sink, rows, frame.schema), rows_of(frame), frame.schema)
            if diff:
                yield Failure("state", f"the state of {named} does not match the expected rows", sink, diff)

    def _idle(self) -> Iterator[Failure]:
        if isinstance(self.step.idle, Unset):
            return
        refuse_streams(self.script.subject, self.step.idle)
        got = sorted({name for query in self.script.queries.values() for name in query.idle()})
        if got != sorted(self.step.idle):
            says = f"idle inputs: {', '.join(got) or 'none'}"
            yield Failure("idle", f"{says}, expected {', '.join(sorted(self.step.idle)) or 'none'}")

    def _by_sink(self, check: str, written: Any, found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Values by sink name, or one for all queries with event time, if they do not differ."""
        if isinstance(written, Unset):
            return
        if isinstance(written, Mapping):
            yield from written.items()
            return
        timed = [sink for sink, query in self.script.queries.items() if query.event_times]
        sinks = timed or list(self.script.sinks)
        if len({found[sink] for sink in sinks}) > 1:
            names = ", ".join(f"{sink} ({found[sink]})" for sink in sinks)
            raise PipelineError(
                TEST_SINK_AMBIGUOUS.at(self.step.place, check=check, names=names, first=sinks[0])
            )
        yield from ((sink, written) for sink in sinks)

    def _time(self, written: Any) -> datetime | None:
        if written is None or written == "none":
            return None
        try:
            return read_time(written, self.script.environment.local_day)
        except BadRow as bad:
            raise PipelineError(TEST_TIME_INVALID.at(self.step.place, key=written, says=bad.says)) from None

    def _show(self, moment: datetime | None) -> str:
        return "none yet" if moment is None else show(moment, self.script.environment.local_day)


def output_rows(
    script: QueriesUnderTest, sink: str, batches: Mapping[str, Sequence[Batch]]
) -> Sequence[Values]:
    """The rows of some batches; in complete mode, the whole table after the last of them."""
    if script.subject.modes[sink] is Mode.COMPLETE:
        whole = batches.get(sink) or script.queries[sink].batches
        return whole[-1].rows if whole else ()
    # A retried batch is one batch.
    last = {batch.id: batch for batch in batches.get(sink, ())}
    return [row for batch in last.values() for row in batch.rows]


Fed = dict[str, tuple[Values, ...]]
_CONDITION = re.compile(r"\[([A-Z][A-Z_.]+)\]")
QUERY = "query"
"""The kind of failure after which the test cannot continue."""


@dataclass
class StepRunner:
    """Queries that are advanced by steps; `traces` records the result of each."""

    script: QueriesUnderTest
    load: Callable[[Path], Subject]
    """Another version of the pipeline, for a ChangeTo step."""
    on_step: Callable[[StepTrace], None] = lambda trace: None
    traces: list[StepTrace] = field(default_factory=list)
    problems: tuple[Problem, ...] = ()
    """Why the test cannot continue."""
    _covered: dict[str, int] = field(default_factory=dict)
    """How many batches each query had run before the last step that did something."""

    def start(self) -> None:
        """Start the queries."""
        try:
            self.script.start()
        except PipelineError as error:
            self.problems = error.problems
        self.problems += tuple(broken.problem for broken in self.script.take_broken())

    def play(self, steps: Sequence[Step]) -> None:
        """Every step in order, up to the first that cannot run or whose query fails unexpectedly."""
        rest = list(steps)
        while rest and not self.over:
            step = rest.pop(0)
            if isinstance(step, Feed) and rest and isinstance(rest[0], Crash) and self.script.running:
                self._crashed_feed(step, rest.pop(0))
            else:
                self._one(step)

    @property
    def over(self) -> bool:
        """Whether nothing is left that could continue."""
        last = self.traces[-1].failures if self.traces else ()
        return bool(self.problems) or any(failure.kind == QUERY for failure in last)

    def _one(self, step: Step) -> None:
        """One step and its checks."""
        if not isinstance(step, Check):
            self._cover()
        self._judge(step, self._act(step, lambda: self._do(step)))

    def result(self, result: TestResult) -> TestResult:
        """The result of the steps."""
        times = {
            name: (each.column, each.delay_ms)
            for query in self.script.queries.values()
            for each in query.event_times
            for name in each.sources
        }
        return replace(
            result,
            steps=tuple(self.traces),
            problems=self.problems,
            zone=self.script.subject.zone,
            day=str(self.script.environment.local_day.day),
            event_times=times,
        )

    def _crashed_feed(self, feed: Feed, crash: Step) -> None:
        """A crash right after a feed affects the data batch; no-data batches and all checks come after it."""
        self._cover()
        fed = self._act(feed, lambda: self.script.feed(feed.rows, settle=False))
        ran = self.batches()
        if self.problems or self.script.broken or self.script.refused:
            self._judge(feed, fed)
            if not self.over:
                self._one(crash)
            return
        self._act(crash, lambda: self.script.crash(ran))
        if self.problems:
            return
        failed = self._broken(crash)
        replays = self.script.take_replays()
        text = f"{feed.text}, checked after the crash"
        # If the retried batch has failed, that is what to report.
        self._trace(feed, fed, [] if failed else self._failures(feed), ran, text=text)
        if failed:
            self._trace(crash, {}, failed, {})
        elif not self.problems:
            after = {sink: batches[len(ran.get(sink, ())) :] for sink, batches in self.batches().items()}
            self._trace(crash, {}, [*replays, *self._checked(crash, after)], after)

    def _judge(self, step: Step, fed: Fed) -> None:
        """Check a step that was executed, and record it."""
        if not self.problems:
            self._trace(step, fed, self._failures(step))

    def _act(self, step: Step, act: Callable[[], Fed | None]) -> Fed:
        """Execute the step; an error ends the test, unless the step expects it."""
        try:
            return act() or {}
        except PipelineError as error:
            problems = tuple(_placed(problem, step) for problem in error.problems)
            if step.fails is not None and any(_is(problem, step.fails) for problem in problems):
                self.script.refused = True
            else:
                self.problems = problems
            return {}

    def _do(self, step: Step) -> Fed | None:
        match step:
            case Feed():
                return self.script.feed(step.rows)
            case Advance():
                try:
                    by = Duration.parse(step.by)
                except ValueError as error:
                    told = {"written": step.by, "says": str(error).partition("; ")[0]}
                    raise PipelineError(TEST_DURATION_INVALID.at(step.place, **told)) from None
                self.script.advance(by)
            case Stop():
                if not self.script.running:
                    raise PipelineError(TEST_NOT_RUNNING.at(step.place, step=step.text))
                self.script.stop()
            case Start():
                self.script.start()
            case Restart():
                self.script.stop()
                self.script.start()
            case Crash():
                self.script.crash()
            case ChangeTo():
                self.script.change_to(self.load(step.pipeline))
        return None

    def _failures(self, step: Step) -> list[Failure]:
        """The failures of the step: of its queries, and of its checks."""
        failed = self._broken(step)
        if any(failure.kind == QUERY for failure in failed):
            return failed
        return [*failed, *self._checked(step, self.batches())]

    def _broken(self, step: Step) -> list[Failure]:
        """Queries that failed unexpectedly, or that did not fail although expected."""
        broken = self.script.take_broken()
        refused, self.script.refused = self.script.refused, False
        wanted = [each for each in broken if step.fails is not None and _is(each.problem, step.fails)]
        if step.fails is not None and not broken and not refused:
            return [Failure("fails", f"no query failed, expected: {step.fails}")]
        return [_failed(each, step.fails) for each in broken if each not in wanted]

    def _checked(self, step: Step, batches: Batches) -> list[Failure]:
        replays = self.script.take_replays()
        try:
            return [*replays, *Checker(self.script, step, batches).failures()]
        except PipelineError as error:
            self.problems = tuple(_placed(problem, step) for problem in error.problems)
            return replays

    def _cover(self) -> None:
        self._covered = {sink: len(query.batches) for sink, query in self.script.queries.items()}

    def batches(self) -> Batches:
        """The batches since the last step that did something."""
        queries = self.script.queries.items()
        ran = {sink: tuple(query.batches[self._covered.get(sink, 0) :]) for sink, query in queries}
        return {sink: batches for sink, batches in ran.items() if batches}

    def _trace(
        self,
        step: Step,
        fed: Fed,
        failures: Sequence[Failure],
        batches: Batches | None = None,
        text: str | None = None,
    ) -> None:
        script = self.script
        waits = {sink: query.idle() for sink, query in script.queries.items()}
        shown = self.batches() if batches is None else batches
        trace = StepTrace(
            number=len(self.traces) + 1,
            text=text or step.text,
            clock=script.now,
            fed=fed,
            batches={} if isinstance(step, Check) else shown,
            watermarks={sink: query.next_watermark for sink, query in script.queries.items()},
            idle={sink: names for sink, names in waits.items() if names},
            failures=tuple(replace(failure, place=failure.place or step.place) for failure in failures),
            place=step.place,
            acted=not isinstance(step, Check),
            stopped=not script.running,
        )
        self.traces.append(trace)
        self.on_step(trace)


def _failed(broken: Broken, wanted: str | None) -> Failure:
    """A query that failed, with Spark's error condition, which `fails` could name."""
    problem = broken.problem
    said = _CONDITION.search(problem.detail)
    says = str(replace(problem, place=None)) + (f" Spark error condition: {said[1]}." if said else "")
    if wanted is not None:
        says += f" Expected to fail with: {wanted}"
    return Failure(QUERY, says, broken.sink, place=problem.place)


def _is(problem: Problem, wanted: str) -> bool:
    """Whether a problem is the one that a step expects, by its code or by a part of its text."""
    return problem.code == wanted or wanted.lower() in f"{problem.message} {problem.detail}".lower()


def _placed(problem: Problem, step: Step) -> Problem:
    return replace(problem, place=problem.place or step.place)
