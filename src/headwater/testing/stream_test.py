"""Test streams in the user's own tests: any function from DataFrames to a DataFrame, or a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from headwater.errors import HeadwaterError, Problem
from headwater.spec import Mode
from headwater.testing.report import details, first_line
from headwater.testing.results import Batch, StepTrace, TestResult, Values
from headwater.testing.step_runner import StepRunner, output_rows
from headwater.testing.steps import (
    UNSAID,
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
    Test,
)
from headwater.testing.subjects import Subject
from headwater.testing.test_runner import TestRunner
from headwater.values import nearest, scrub


@dataclass
class StreamTest:
    """Starts runs over test streams; the pytest fixture `stream_test` is one. Its runs stop with it."""

    runner: TestRunner
    _runs: list[StreamTestRun] = field(default_factory=list)
    _environment: ExitStack = field(default_factory=ExitStack)

    def __call__(
        self,
        subject: Callable[..., Any] | str | Path,
        *,
        streams: Mapping[str, Any] | None = None,
        static: Mapping[str, Any] | None = None,
        mode: str = "append",
        given: Mapping[str, Rows | str] | None = None,
        sinks: Sequence[str] = (),
        real: Sequence[str] | Mapping[str, Callable[..., Any] | None] = (),
        day: str | None = None,
        clock: str | None = None,
        no_data_batches: bool | None = None,
        env: Mapping[str, str] | None = None,
    ) -> StreamTestRun:
        """A run of a function over `streams` (schemas by parameter) and `static` (DataFrames or rows).

        Or of a pipeline file, with the `given` rows of its static sources and some of its `sinks`.
        """
        __tracebackhide__ = True
        if mode not in list(Mode):
            raise ValueError(f"{mode!r} is not an output mode; use one of {', '.join(Mode)}")
        if not self._runs:
            # The test's own directory, once, and its variables.
            self._environment.enter_context(self.runner.isolated(env or {}))
        settings = Test(
            "", Path(), (), given=given or {}, day=day, clock=clock, no_data_batches=no_data_batches
        )
        built: Subject
        if callable(subject):
            built = self.runner.function(subject, streams or {}, static or {}, mode)
        else:
            built = self.runner.subject(Path(subject), env or {})
        named = real if isinstance(real, Mapping) else dict.fromkeys(real)
        kept = {name: read for name, read in named.items() if not built.captured(name)}
        chosen = list(dict.fromkeys((*sinks, *named))) or list(built.modes)
        script = self.runner.script(settings, built, kept, chosen)
        run = StreamTestRun(StepRunner(script, lambda path: self.runner.subject(path, env or {})))
        self._runs.append(run)
        run.begin()
        return run

    def close(self) -> None:
        for run in self._runs:
            run.close()
        self._runs.clear()
        self._environment.close()


class StreamTestRun:
    """A pipeline or function under test: each call is a step, and raises AssertionError with the difference.

    Rows are mappings, or lists in column order. If there is only one stream or sink, its name can be omitted.
    Checks: `expect`, `watermark`, `late`, `state`, `idle`, `fails`.
    """

    def __init__(self, steps: StepRunner) -> None:
        self._steps = steps

    def begin(self) -> None:
        """Start the queries; raises HeadwaterError if they cannot start."""
        __tracebackhide__ = True
        with self._steps.script.subject.alone():
            self._steps.start()
        if self._steps.problems:
            raise HeadwaterError(*map(_scrubbed, self._steps.problems))

    def close(self) -> None:
        """Stop everything."""
        self._steps.script.close()

    def feed(
        self, rows: Rows | Mapping[str, Rows] | None = None, /, *, crash: bool = False, **named: Any
    ) -> StepTrace:
        """One data batch; with `crash`, the run dies before it is committed, and restarts."""
        __tracebackhide__ = True
        checks = {key: named.pop(key) for key in _CHECKS if key in named}
        self._refuse_names(named)
        by_name = dict(rows) if isinstance(rows, Mapping) else {self._stream: rows} if rows else {}
        return self._play(Feed({**by_name, **named}, **self._checks(checks)), crash=crash)

    def advance(self, by: str, **checks: Any) -> StepTrace:
        """Advance processing time, for example by `2 hours`."""
        __tracebackhide__ = True
        return self._play(Advance(by, **self._checks(checks)))

    def restart(self, **checks: Any) -> StepTrace:
        __tracebackhide__ = True
        return self._play(Restart(**self._checks(checks)))

    def stop(self, **checks: Any) -> StepTrace:
        __tracebackhide__ = True
        return self._play(Stop(**self._checks(checks)))

    def start(self, **checks: Any) -> StepTrace:
        __tracebackhide__ = True
        return self._play(Start(**self._checks(checks)))

    def crash(self, **checks: Any) -> StepTrace:
        """The run dies after the last batch was written and before it was committed; then it restarts."""
        __tracebackhide__ = True
        return self._play(Crash(**self._checks(checks)))

    def change_to(self, pipeline: str | Path, **checks: Any) -> StepTrace:
        """Continue with another version of the pipeline file."""
        __tracebackhide__ = True
        return self._play(ChangeTo(Path(pipeline), **self._checks(checks)))

    def expect(self, rows: Rows | Mapping[str, Rows], **checks: Any) -> StepTrace:
        """Expect exactly these rows in the last step: new, changed or all, depending on the mode."""
        __tracebackhide__ = True
        return self._play(Check(**self._checks({**checks, "expect": rows})))

    def run_steps(self, *steps: Step) -> TestResult:
        """Steps as objects, one after another, up to the first that fails."""
        __tracebackhide__ = True
        with self._steps.script.subject.alone():
            self._steps.play(steps)
        return self._judged()

    @property
    def rows(self) -> list[Values]:
        """The rows that the only sink received in the last step that did something."""
        return list(output_rows(self._steps.script, self._sink, self._steps.batches()))

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The batches of the only sink in the last step that did something."""
        return tuple(self._steps.batches().get(self._sink, ()))

    @property
    def watermark(self) -> datetime | None:
        """The watermark that the next batch will use, of the only sink's query."""
        return self._steps.script.queries[self._sink].next_watermark

    @property
    def _sink(self) -> str:
        return _only(self._steps.script.sinks, "sink")

    @property
    def _stream(self) -> str:
        return _only(list(self._steps.script.subject.streams), "stream")

    def _play(self, step: Step, *, crash: bool = False) -> StepTrace:
        __tracebackhide__ = True
        return self.run_steps(*([step, Crash()] if crash else [step])).steps[-1]

    def _judged(self) -> TestResult:
        __tracebackhide__ = True
        result = self._steps.result(TestResult("test stream", None, (), 0.0))
        # A failure is raised once and does not fail the next step.
        self._steps.problems = ()
        self._steps.traces = [replace(trace, failures=()) for trace in self._steps.traces]
        if result.problems:
            raise HeadwaterError(*(_scrubbed(problem) for problem in result.problems))
        if not result.passed:
            raise AssertionError(scrub("\n".join([first_line(result), *details(result)])))
        return result

    def _checks(self, checks: Mapping[str, Any]) -> dict[str, Any]:
        unknown = [key for key in checks if key not in _CHECKS]
        if unknown:
            raise TypeError(f"unknown check {unknown[0]!r}; use one of {', '.join(_CHECKS)}")
        by_sink = {
            key: {self._sink: checks[key]}
            for key in ("expect", "state")
            if key in checks and not self._is_by_sink(key, checks[key])
        }
        idle = checks.get("idle", UNSAID)
        return {**checks, **by_sink, "idle": [idle] if isinstance(idle, str) else idle}

    def _refuse_names(self, named: Mapping[str, Any]) -> None:
        known = (*self._steps.script.subject.streams, *_CHECKS)
        for name in named:
            if name not in known and (meant := nearest(name, known)):
                raise TypeError(f"{name!r} is neither a stream nor a check; did you mean {meant!r}?")

    def _is_by_sink(self, key: str, value: Any) -> bool:
        """Rows are lists, so a mapping of them is by sink; parts of a state are also a mapping."""
        if not isinstance(value, Mapping):
            return False
        return key == "expect" or set(value) <= set(self._steps.script.sinks)


_CHECKS = ("expect", "watermark", "late", "state", "idle", "fails")


def _scrubbed(problem: Problem) -> Problem:
    params = {key: scrub(str(value)) for key, value in problem.params.items()}
    return replace(problem, params=params, detail=scrub(problem.detail))


def _only(names: Sequence[str], kind: str) -> str:
    if len(names) != 1:
        raise TypeError(f"name one of the {len(names)} {kind}s: {', '.join(names)}")
    return names[0]
