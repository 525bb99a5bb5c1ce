"""What a step expects against what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headwater.engine.scripted.reading import BadRow
from headwater.engine.scripted.state import state_rows
from headwater.engine.scripted.stream import rows_of
from headwater.engine.scripted.times import read_time
from headwater.errors import PipelineError
from headwater.errors.catalogue.testing import TEST_BAD_TIME, TEST_HAS_FAILED, TEST_QUERY_NAME
from headwater.spec import Mode
from headwater.testing.diff import compare, show
from headwater.testing.refusals import refuse_streams
from headwater.testing.results import Batch, Failure, Values
from headwater.testing.script import Script
from headwater.testing.steps import Rows, Step, Unsaid


@dataclass(frozen=True)
class Checker:
    """The checks of one step, over the batches that it covers."""

    script: Script
    step: Step
    batches: Mapping[str, Sequence[Batch]]

    def failures(self) -> Iterator[Failure]:
        """Everything that is not as expected; PipelineError where nothing can be said."""
        if self.step.fails is None:
            dead = [sink for sink in (*self.step.expect, *self.step.state) if sink in self.script.failed]
            if dead:
                raise PipelineError(TEST_HAS_FAILED.at(self.step.place, name=dead[0]))
        for sink, rows in self.step.expect.items():
            yield from self._rows(sink, rows)
        yield from self._watermarks()
        yield from self._late()
        for sink, kept in self.step.state.items():
            yield from self._state(sink, kept)
        yield from self._idle()

    def _rows(self, sink: str, rows: Rows) -> Iterator[Failure]:
        real = sink in self.script.around.real
        got, schema = (
            self.script.read_back(sink)
            if real
            else (
                handed(self.script, sink, self.batches),
                self.script.frames[sink].schema,
            )
        )
        diff = compare(self.script.read(sink, rows, schema), got, schema)
        if diff:
            yield Failure("rows", f"the rows of {sink} are not as expected", sink, diff)

    def _watermarks(self) -> Iterator[Failure]:
        found = {sink: self.script.watermark(sink) for sink in self.script.sinks}
        for sink, written in self._by_sink("watermark", self.step.watermark, found):
            wanted, got = self._time(written), found[sink]
            if wanted != got:
                says = f"the watermark of {sink} is {self._show(got)}, expected {self._show(wanted)}"
                yield Failure("watermark", says, sink)

    def _late(self) -> Iterator[Failure]:
        # A batch that ran again is one batch.
        once = {sink: {batch.id: batch.late for batch in ran} for sink, ran in self.batches.items()}
        dropped = {sink: sum(once.get(sink, {}).values()) for sink in self.script.sinks}
        for sink, wanted in self._by_sink("late", self.step.late, dropped):
            if dropped[sink] != wanted:
                says = f"{dropped[sink]} rows of {sink} were dropped as late, expected {wanted}"
                yield Failure("late", says, sink)

    def _state(self, sink: str, wanted: Any) -> Iterator[Failure]:
        if isinstance(wanted, int):
            kept = self.script.done[sink][-1].state if self.script.done[sink] else 0
            if kept != wanted:
                yield Failure("state", f"the state of {sink} holds {kept} rows, expected {wanted}", sink)
            return
        parts = wanted if isinstance(wanted, Mapping) else {None: wanted}
        for part, rows in parts.items():
            named = f"`{part}` of {sink}" if part else sink
            if not self.script.done[sink]:
                if rows:
                    yield Failure("state", f"the state of {named} is empty before the first batch", sink)
                continue
            operators = self.script.operators.get(sink, ())
            frame = state_rows(self.script.subject.spark, sink, self.script.checkpoint(sink), part, operators)
            diff = compare(self.script.read(sink, rows, frame.schema), rows_of(frame), frame.schema)
            if diff:
                yield Failure("state", f"the state of {named} is not as expected", sink, diff)

    def _idle(self) -> Iterator[Failure]:
        if isinstance(self.step.idle, Unsaid):
            return
        refuse_streams(self.script.subject, self.step.idle)
        got = sorted({name for sink in self.script.sinks for name in self.script.idle(sink)})
        if got != sorted(self.step.idle):
            says = f"the watermark waits for {', '.join(got) or 'nobody'}"
            yield Failure("idle", f"{says}, expected {', '.join(sorted(self.step.idle)) or 'nobody'}")

    def _by_sink(self, check: str, written: Any, found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Values by the name of the sink, or one for all queries with event time, where they don't differ."""
        if isinstance(written, Unsaid):
            return
        if isinstance(written, Mapping):
            yield from written.items()
            return
        timed = [sink for sink in self.script.sinks if self.script.event_times.get(sink)]
        sinks = timed or list(self.script.sinks)
        if len({found[sink] for sink in sinks}) > 1:
            names = ", ".join(f"{sink} ({found[sink]})" for sink in sinks)
            raise PipelineError(TEST_QUERY_NAME.at(self.step.place, check=check, names=names, first=sinks[0]))
        yield from ((sink, written) for sink in sinks)

    def _time(self, written: Any) -> datetime | None:
        if written is None or written == "none":
            return None
        try:
            return read_time(written, self.script.around.reading)
        except BadRow as bad:
            raise PipelineError(TEST_BAD_TIME.at(self.step.place, key=written, says=bad.says)) from None

    def _show(self, moment: datetime | None) -> str:
        reading = self.script.around.reading
        return "none yet" if moment is None else show(moment, reading.zone, reading.day)


def handed(script: Script, sink: str, batches: Mapping[str, Sequence[Batch]]) -> Sequence[Values]:
    """The rows of some batches; in complete mode the whole table after the last of them."""
    if script.subject.modes[sink] is Mode.COMPLETE:
        whole = batches.get(sink) or script.done[sink]
        return whole[-1].rows if whole else ()
    # A batch that ran again is one batch.
    last = {batch.id: batch for batch in batches.get(sink, ())}
    return [row for batch in last.values() for row in batch.rows]
