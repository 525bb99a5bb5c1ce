"""A test's result in lines of text: what failed, in which batches, at which watermark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from headwater.errors import Problem, shown_file
from headwater.testing.diff import describe, show
from headwater.testing.results import Batch, Failure, StepTrace, TestResult

WORDS = {"passed": "ok", "failed": "FAIL", "refused": "REFUSED"}


def report(result: TestResult, verbose: bool = False) -> list[str]:
    """The lines of one test; the first one tells its outcome, name and time."""
    return [headline(result), *details(result, verbose)]


def headline(result: TestResult) -> str:
    """The outcome in one line."""
    return f"{WORDS[result.outcome]:5} {result.name}  ({result.seconds:.1f} s)"


def first_line(result: TestResult) -> str:
    """The first thing that is wrong, for summaries of one line."""
    sentences = [failure.sentence for step in result.steps for failure in step.failures]
    return next(iter([*sentences, *(f"{each.code}: {each.sentence}" for each in result.problems)]), "passed")


def details(result: TestResult, verbose: bool = False) -> list[str]:
    """Every failed step (with `verbose` every step), the problems, and the sources that are waited for."""
    teller = _Teller(result)
    lines = [
        line
        for index, step in enumerate(result.steps)
        if verbose or step.failures
        for line in teller.step(index, verbose)
    ]
    for problem in result.problems:
        lines += problem_lines(problem, verbose)
    return [*lines, *teller.idle()]


def problem_lines(problem: Problem, verbose: bool = False) -> list[str]:
    """A problem as every command prints it, indented below the test."""
    place = f"{problem.where}: " if problem.place else ""
    lines = [f"{place}error {problem.code}", f"  {problem.sentence}", f"  {problem.remedy}"]
    if verbose and problem.detail:
        lines += problem.detail.splitlines()
    return [f"  {line}" for line in lines]


class _Teller:
    """Tells the steps of one result, with times as the pipeline's zone shows them."""

    def __init__(self, result: TestResult) -> None:
        self.result = result

    def step(self, index: int, verbose: bool) -> Iterator[str]:
        step = self.result.steps[index]
        # A step that only checks looks at the batches of the last one in which something happened.
        acted = (each for each in reversed(self.result.steps[: index + 1]) if each.acted)
        source = next(acted, step)
        none = "no batch ran, the queries are stopped" if source.stopped else "no batch ran"
        told = self._told(source, step.failures) or {"": none}
        head = f"step {step.number}, {step.text}"
        if verbose or len(told) > 1:
            yield f"  {head}"
            yield from (f"    {sink}: {text}" for sink, text in told.items() if not verbose)
        else:
            yield " · ".join([f"  {head}", *told.values()])
        if verbose:
            yield from self._batches(step)
        told_place = ""
        for failure in step.failures:
            at = failure.place or step.place
            place = f"{shown_file(at.file)}:{at.line}" if at else ""
            if place and place != told_place:
                yield f"  {place}"
            told_place = place
            yield from self._failure(failure)

    def idle(self) -> Iterator[str]:
        """The sources for which a watermark waited when the test ended."""
        last = next((step for step in reversed(self.result.steps) if step.batches or step.idle), None)
        for sink, sources in (last.idle if last else {}).items():
            if last and sources:
                mark = self._time(last.watermarks.get(sink))
                them = "it" if len(sources) == 1 else "them"
                yield f"  idle: {', '.join(sources)} – the watermark of {sink} waits for {them} ({mark})"

    def _told(self, step: StepTrace, failures: Sequence[Failure]) -> dict[str, str]:
        """The batches and watermarks of the sinks that a failure is about, or of all."""
        named = {failure.sink for failure in failures if failure.sink} & step.batches.keys()
        every = all(failure.sink for failure in failures)
        sinks = [sink for sink in step.batches if not (named and every) or sink in named]
        return {sink: self._span(step, sink) for sink in sinks}

    def _span(self, step: StepTrace, sink: str) -> str:
        """`batches 3 to 4 · watermark 12:04 → 12:05`."""
        batches = step.batches[sink]
        after = step.watermarks.get(sink)
        if not batches:
            return "no batch" + (f" · watermark {self._time(after)}" if after else "")
        ids = list(dict.fromkeys(batch.id for batch in batches))
        text = f"batch {ids[0]}" if len(ids) == 1 else f"batches {ids[0]} to {ids[-1]}"
        return text + self._watermark(batches[0].watermark, after)

    def _watermark(self, before: datetime | None, after: datetime | None) -> str:
        if before == after:
            return f" · watermark {self._time(after)}" if after else ""
        return f" · watermark {self._time(before)} → {self._time(after)}"

    def _batches(self, step: StepTrace) -> Iterator[str]:
        """Every batch of a step, and where each query then stands."""
        for sink, batches in step.batches.items():
            yield from (f"    {sink}: {self._batch(batch)}" for batch in batches)
            waits = step.idle.get(sink, ())
            after = step.watermarks.get(sink)
            ends = [f"watermark {self._time(after)}"] if after else []
            ends += [f"waits for {', '.join(waits)}"] if waits else []
            if ends:
                yield f"    {sink}: then {', '.join(ends)}"

    def _batch(self, batch: Batch) -> str:
        again = " again" if batch.again else ""
        mark = f"watermark {self._time(batch.watermark)}"
        out = f"{len(batch.rows)} out" if batch.captured else "out to the real sink"
        counts = f"{out}, {batch.late} late, {batch.state} in state"
        rows_in = ", ".join(f"{count} in from {name}" for name, count in batch.rows_in.items()) or "no data"
        return f"batch {batch.id}{again} · {mark} · {rows_in}, {counts}"

    def _failure(self, failure: Failure) -> Iterator[str]:
        yield f"    {failure.sentence}"
        if failure.diff is not None:
            yield from (f"    {line}" for line in describe(failure.diff, self.result.zone, self.result.day))

    def _time(self, time: datetime | None) -> str:
        return "none" if time is None else show(time, self.result.zone, self.result.day)
