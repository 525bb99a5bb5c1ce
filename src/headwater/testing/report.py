"""Exact comparison of rows, and a result as text: what failed, in which batches, at which watermark."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headwater.errors import Problem, shown_file
from headwater.loaders.yaml_syntax import resolve
from headwater.testing.results import Batch, Change, Failure, RowDiff, StepTrace, TestResult, Values
from headwater.testing.values import LocalDay, NotANumber, canonical
from headwater.values import Duration

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# Comparison of two multisets of rows.

_MOST_PAIRS = 200 * 200

_Row = tuple[Hashable, Values]
"""A row in canonical form, and as it is."""


def compare(expected: Sequence[Values], got: Sequence[Values], schema: StructType) -> RowDiff | None:
    """The differences, or None; order does not matter, every duplicate does."""
    wanted = [(canonical(row, schema), row) for row in expected]
    found = [(canonical(row, schema), row) for row in got]
    missing, unexpected = list(_beyond(wanted, found)), list(_beyond(found, wanted))
    if not missing and not unexpected:
        return None
    # Spark guarantees no order of rows, and the same difference should always look the same.
    unexpected.sort(key=lambda row: _order(row[0]))
    pairs = _pairs(missing, unexpected)
    return RowDiff(
        columns=tuple(schema.names),
        missing=_without(missing, {first for first, _ in pairs}),
        unexpected=_without(unexpected, {second for _, second in pairs}),
        changed=tuple(Change(missing[first][1], unexpected[second][1]) for first, second in pairs),
        same=len(wanted) - len(missing),
    )


def _beyond(rows: list[_Row], others: list[_Row]) -> Iterator[_Row]:
    """The rows that the others do not contain, or contain less often."""
    spare = Counter(key for key, _ in others)
    for key, row in rows:
        if spare[key] > 0:
            spare[key] -= 1
        else:
            yield key, row


def _without(rows: list[_Row], taken: set[int]) -> tuple[Values, ...]:
    return tuple(row for index, (_, row) in enumerate(rows) if index not in taken)


def _pairs(missing: list[_Row], unexpected: list[_Row]) -> list[tuple[int, int]]:
    """The rows that most likely correspond to each other, by position; the closest are paired first."""
    if len(missing) * len(unexpected) > _MOST_PAIRS:
        return []
    near = sorted(
        (-agreeing, first, second)
        for first, (wanted, _) in enumerate(missing)
        for second, (found, _) in enumerate(unexpected)
        if (agreeing := _agreeing(wanted, found))
    )
    chosen: dict[int, int] = {}
    taken: set[int] = set()
    for _, first, second in near:
        if first not in chosen and second not in taken:
            chosen[first] = second
            taken.add(second)
    return sorted(chosen.items())


def _agreeing(wanted: Any, found: Any) -> int:
    """How many columns are equal; none are if only nulls are equal."""
    same = [pair[1] for pair, other in zip(wanted, found, strict=True) if pair == other]
    return len(same) if any(value is not None for value in same) else 0


def _order(value: Any) -> tuple[Any, ...]:
    """Sorts canonical values of one type: null first, NaN last."""
    if value is None:
        return (0,)
    if value is NotANumber.NAN:
        return (2,)
    if isinstance(value, tuple):
        return (1, tuple(_order(item) for item in value))
    if isinstance(value, frozenset):
        return (1, tuple(sorted(_order(item) for item in value)))
    return (1, value)


# Values, rows and differences in the notation of a test.

MOST_LINES = 20
_NUMBER_WORDS = {"nan", "infinity", "-infinity", "+infinity"}
_LIKE_TIME = re.compile(r"[0-9]+(?:[-:][0-9]+)+.*")
_BREAKS = re.compile(r"[,{}\[\]\"'#\x00-\x1f\x7f]|: |:$|^[-?&*!|>%@`] ?")
_MILLISECOND = timedelta(milliseconds=1)


def show(value: Any, local: LocalDay) -> str:
    """The value in the notation of a test: `12:07` on the default day in the time zone, `null`, `{a: 1}`."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case datetime():
            return _time(value, local)
        case Mapping():
            pairs = (f"{show(key, local)}: {show(item, local)}" for key, item in value.items())
            return "{" + ", ".join(pairs) + "}"
        case list() | tuple():
            return "[" + ", ".join(show(item, local) for item in value) + "]"
        case float():
            return repr(value).replace("inf", "Infinity").replace("nan", "NaN")
        case Decimal():
            return format(value, "f")
        case timedelta():
            milliseconds, rest = divmod(abs(value), _MILLISECOND)
            length = str(abs(value)) if rest else str(Duration(milliseconds))
            return f"-{length}" if value < timedelta() else length
        case bytes():
            return _bytes(value)
        case _:
            return str(value)


def _text(text: str) -> str:
    """The text, in quotes if it would be ambiguous without."""
    mistaken = (
        text != text.strip()
        or not isinstance(resolve(text), str)
        or text.lower() in _NUMBER_WORDS
        or _LIKE_TIME.fullmatch(text)
        or _BREAKS.search(text)
    )
    return json.dumps(text, ensure_ascii=False) if mistaken else text


def _bytes(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    return _text(text) if text.isprintable() and (text or not value) else f"0x{value.hex()}"


def _time(value: datetime, local: LocalDay) -> str:
    moment = value.astimezone(local.zone) if value.tzinfo else value
    clock = moment.strftime("%H:%M:%S" if moment.second or moment.microsecond else "%H:%M")
    clock += f"{moment:.%f}".rstrip("0") if moment.microsecond else ""
    shown = clock if moment.date() == local.day else f"{moment.date()} {clock}"
    # When clocks are set back, they show a time twice.
    twice = moment.replace(fold=0).utcoffset() != moment.replace(fold=1).utcoffset()
    return shown + (moment.strftime("%z") if twice else "")


def describe(diff: RowDiff, local: LocalDay) -> list[str]:
    """The differences in lines: how many of each kind, then the rows."""

    def row(values: Values) -> str:
        return show({name: values.get(name) for name in diff.columns}, local)

    def changed(change: Change) -> str:
        pairs = {name: (change.expected.get(name), change.got.get(name)) for name in diff.columns}
        shown = {name: (show(one, local), show(other, local)) for name, (one, other) in pairs.items()}
        # NaN does not equal NaN, and looks the same.
        differ = [name for name, (one, other) in pairs.items() if one != other and len({*shown[name]}) > 1]
        told = (f"{name}: expected {shown[name][0]}, got {shown[name][1]}" for name in differ)
        return f"{row(change.expected)}   {'; '.join(told)}"

    kinds = {
        "missing": ("-", list(map(row, diff.missing))),
        "unexpected": ("+", list(map(row, diff.unexpected))),
        "changed": ("~", list(map(changed, diff.changed))),
    }
    same = f"{diff.same or 'no'} {'row' if diff.same == 1 else 'rows'} as expected"
    lines = ["  " + ", ".join([same, *(f"{len(rows)} {kind}" for kind, (_, rows) in kinds.items() if rows)])]
    for kind, (sign, rows) in kinds.items():
        # One line per different row; equal ones are counted.
        times = list(Counter(rows).items())
        for text, count in times[:MOST_LINES]:
            lines.append(f"  {sign} {kind:10}  {text}" + (f"   ({count} times)" if count > 1 else ""))
        if rest := sum(count for _, count in times[MOST_LINES:]):
            lines.append(f"  … and {rest} more {kind}")
    return lines


# A test's result.

WORDS = {"passed": "ok", "failed": "FAIL", "error": "ERROR"}


def report(result: TestResult, verbose: bool = False) -> list[str]:
    """The lines of one test; the first one has its outcome, name and time."""
    return [headline(result), *details(result, verbose)]


def headline(result: TestResult) -> str:
    """The outcome in one line."""
    return f"{WORDS[result.outcome]:5} {result.name}  ({result.seconds:.1f} s)"


def first_line(result: TestResult) -> str:
    """The first problem, for summaries of one line."""
    sentences = [failure.message for step in result.steps for failure in step.failures]
    return next(iter([*sentences, *(f"{each.code}: {each.message}" for each in result.problems)]), "passed")


def details(result: TestResult, verbose: bool = False) -> list[str]:
    """Every failed step (with `verbose`, every step), the problems, and the idle sources."""
    steps = _StepReport(result)
    lines = [
        line
        for index, step in enumerate(result.steps)
        if verbose or step.failures
        for line in steps.step(index, verbose)
    ]
    for problem in result.problems:
        lines += problem_lines(problem, verbose)
    return [*lines, *steps.idle()]


def problem_lines(problem: Problem, verbose: bool = False) -> list[str]:
    """A problem as every command prints it, indented below the test."""
    place = f"{problem.location}: " if problem.place else ""
    lines = [f"{place}error {problem.code}", f"  {problem.message}", f"  {problem.hint}"]
    if verbose and problem.detail:
        lines += problem.detail.splitlines()
    return [f"  {line}" for line in lines]


class _StepReport:
    """The steps of one result in lines, with times in the pipeline's time zone."""

    def __init__(self, result: TestResult) -> None:
        self.result = result

    @cached_property
    def local(self) -> LocalDay:
        """Needed, and guaranteed to have a day, only if a step ran."""
        return self.result.local_day

    def step(self, index: int, verbose: bool) -> Iterator[str]:
        step = self.result.steps[index]
        # A step that only checks covers the batches of the last step that did something.
        acted = (each for each in reversed(self.result.steps[: index + 1]) if each.acted)
        source = next(acted, step)
        none = "no batch ran (queries stopped)" if source.stopped else "no batch ran"
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
            yield f"    {failure.message}"
            if failure.diff is not None:
                yield from (f"    {line}" for line in describe(failure.diff, self.local))

    def idle(self) -> Iterator[str]:
        """The idle sources that blocked a watermark when the test ended."""
        last = next((step for step in reversed(self.result.steps) if step.batches or step.idle), None)
        for sink, sources in (last.idle if last else {}).items():
            if last and sources:
                mark = self._time(last.watermarks.get(sink))
                blocks = "blocks" if len(sources) == 1 else "block"
                yield f"  idle: {', '.join(sources)} ({blocks} the watermark of {sink}: {mark})"

    def _told(self, step: StepTrace, failures: Sequence[Failure]) -> dict[str, str]:
        """The batches and watermarks of the sinks that a failure concerns, or of all."""
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
        before = batches[0].watermark
        if before == after:
            return text + (f" · watermark {self._time(after)}" if after else "")
        return f"{text} · watermark {self._time(before)} → {self._time(after)}"

    def _batches(self, step: StepTrace) -> Iterator[str]:
        """Every batch of a step, and the status of each query after it."""
        for sink, batches in step.batches.items():
            yield from (f"    {sink}: {self._batch(batch)}" for batch in batches)
            waits = step.idle.get(sink, ())
            after = step.watermarks.get(sink)
            ends = [f"watermark {self._time(after)}"] if after else []
            ends += [f"idle: {', '.join(waits)}"] if waits else []
            if ends:
                yield f"    {sink}: then {', '.join(ends)}"

    def _batch(self, batch: Batch) -> str:
        again = " (retry)" if batch.retried else ""
        mark = f"watermark {self._time(batch.watermark)}"
        out = f"{len(batch.rows)} out" if batch.captured else "out to the real sink"
        counts = f"{out}, {batch.late} late, {batch.state} in state"
        rows_in = ", ".join(f"{count} in from {name}" for name, count in batch.rows_in.items()) or "no data"
        return f"batch {batch.id}{again} · {mark} · {rows_in}, {counts}"

    def _time(self, time: datetime | None) -> str:
        return "none" if time is None else show(time, self.local)
