"""What scratch sinks contain, as multisets of rows: after a batch run, after a run, and at any moment in between."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headwater.connectors import sink_side
from headwater.connectors.connector import KnowsContents, ReadsBack
from headwater.connectors.contract import Held
from headwater.connectors.proving import HasReadFunction, MakesScratch, ShowsContents
from headwater.engine.builder import SPARK_ERRORS
from headwater.engine.prepare import Prepared
from headwater.errors import HeadwaterError, Problem, QueryFailedError
from headwater.errors.catalogue.proving import PROVE_READ_FAILED, PROVE_SCRATCH_LEFT
from headwater.proof.points import Needs
from headwater.spark.session import active
from headwater.spec import FunctionRef, SinkSpec
from headwater.values.user_frames import user_line

Rows = Counter[tuple[Hashable, ...]]
SHOWN_ROWS = 5
_READ_SECONDS = 30.0


@dataclass(frozen=True)
class Seen:
    """The rows of a sink at one moment, and the newest batch in them if its store shows that."""

    rows: Rows
    batch: int | None = None


@dataclass(frozen=True)
class Difference:
    """Two multisets that differ: how many rows, and a few of them."""

    missing: int
    extra: int
    missing_rows: tuple[str, ...]
    extra_rows: tuple[str, ...]

    @classmethod
    def of(cls, expected: Rows, found: Rows, *, partial: bool = False) -> Difference | None:
        """None if they are equal; with `partial`, rows can still be missing."""
        missing, extra = (Counter() if partial else expected - found), found - expected
        if not missing and not extra:
            return None
        return cls(missing.total(), extra.total(), _shown(missing), _shown(extra))

    def __str__(self) -> str:
        parts = []
        for count, rows, what in (
            (self.missing, self.missing_rows, "missing"),
            (self.extra, self.extra_rows, "extra"),
        ):
            if count:
                shown = ", ".join(rows) + (" …" if count > len(rows) else "")
                parts.append(f"{count:,} {'row' if count == 1 else 'rows'} {what}: {shown}")
        return "; ".join(parts)


def _shown(rows: Rows) -> tuple[str, ...]:
    # The same rows in each run.
    return tuple(sorted(map(repr, rows.elements()))[:SHOWN_ROWS])


def as_rows(found: Iterable[Iterable[Any]]) -> Rows:
    """Rows of any driver as a multiset."""
    return Counter(tuple(_hashable(value) for value in row) for row in found)


def _hashable(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        pairs = ((_hashable(key), _hashable(each)) for key, each in value.items())
        return tuple(sorted(pairs, key=repr))
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        # The time zone of the client does not matter.
        return value.timestamp()
    if isinstance(value, tuple | list | set | frozenset):
        return tuple(map(_hashable, value))
    return value  # type: ignore[no-any-return]


class Contents:
    """Reads the scratch sinks of one pipeline."""

    def __init__(self, prepared: Prepared, sinks: tuple[SinkSpec, ...]) -> None:
        self._prepared = prepared
        self.sinks = {sink.name: sink for sink in sinks}

    def write_batch(self, name: str) -> None:
        """Write the batch result of a sink."""
        sink = self.sinks[name]
        with active(self._prepared.session.spark):
            sink_side(sink.connector).write_batch(
                self._prepared.frames[name], sink.options, self._prepared.builder.context(sink)
            )

    def read(self, name: str) -> Seen | None:
        """The rows of a sink; None if they cannot be read at this moment, QueryFailedError if a value cannot be."""
        try:
            return self._read(name)
        except (ValueError, OverflowError) as error:
            # For example a time that Python does not have.
            says = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(". ")
            place = self.sinks[name].position
            raise QueryFailedError(PROVE_READ_FAILED.at(place, sink=name, says=says)) from error

    def _read(self, name: str) -> Seen | None:
        sink = self.sinks[name]
        side: object = sink_side(sink.connector)
        if isinstance(side, ShowsContents):
            found = side.snapshot(sink.options, self._prepared.builder.context(sink))
            return None if found is None else Seen(as_rows(found.rows), found.batch)
        spark, before = self._prepared.session.spark, self.newest_batch(name)
        with active(spark):
            if isinstance(side, ReadsBack):
                frame = side.read_back(spark, sink.options, self._prepared.frames[name].schema)
                rows = as_rows(frame.collect())
            else:
                assert isinstance(side, HasReadFunction), "the plan has only sinks that can be read"
                rows = self._rows_of_code(sink, side.read_function(sink.options))
        # A batch that was committed meanwhile can be in the rows or not.
        return Seen(rows, before) if before == self.newest_batch(name) else None

    def _rows_of_code(self, sink: SinkSpec, function: FunctionRef | None) -> Rows:
        """The rows that the user's function returns; QueryFailedError if it fails."""
        assert function is not None, "the plan has only sinks that can be read"
        builder = self._prepared.builder
        try:
            return as_rows(builder.load(function)(builder.spark).collect())
        except Exception as error:  # user code: report any exception at the user's line
            place = user_line(error.__traceback__, builder.spec.root) or sink.position
            says = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(". ")
            raise QueryFailedError(PROVE_READ_FAILED.at(place, sink=sink.name, says=says)) from error

    def read_finally(self, name: str) -> Rows:
        """The rows of a sink that no run writes anymore; QueryFailedError if they cannot be read."""
        deadline = time.monotonic() + _READ_SECONDS
        while (seen := self.read(name)) is None:
            if time.monotonic() > deadline:
                says = "its store was not available"
                place = self.sinks[name].position
                raise QueryFailedError(PROVE_READ_FAILED.at(place, sink=name, says=says))
            # A process that was killed can hold a lock a little longer.
            time.sleep(0.1)
        return seen.rows

    def try_read(self, name: str) -> Seen | None:
        """The same during a run: what a reader cannot read now, it reads later."""
        with suppress(HeadwaterError, *SPARK_ERRORS, OSError):
            return self.read(name)
        return None

    def newest_batch(self, name: str) -> int | None:
        """The newest batch in a sink; None if it has none, or does not know."""
        sink = self.sinks[name]
        side: object = sink_side(sink.connector)
        if isinstance(side, ShowsContents):
            return side.newest_batch(sink.options, self._prepared.builder.context(sink))
        if isinstance(side, KnowsContents):
            return side.stored_batch(self._prepared.session.spark, sink.options)
        return None

    def abilities(self, name: str) -> frozenset[Needs]:
        """What the sink has for the points of kills."""
        side: object = sink_side(self.sinks[name].connector)
        found = set()
        if isinstance(side, ShowsContents | KnowsContents):
            found.add(Needs.BATCHES)
        if isinstance(side, ShowsContents) and side.ledgers:
            found.add(Needs.LEDGER)
        if isinstance(side, ShowsContents) and side.connections:
            found.add(Needs.CONNECTIONS)
        return frozenset(found)

    def hold(self, name: str) -> AbstractContextManager[Held | None]:
        """Let the commits of a sink wait."""
        sink = self.sinks[name]
        side: object = sink_side(sink.connector)
        if isinstance(side, ShowsContents):
            return side.hold(sink.options, self._prepared.builder.context(sink))
        return nullcontext()

    def places(self) -> tuple[str, ...]:
        """Where the scratch copies are: tables and directories."""
        return tuple(
            place for sink in self.sinks.values() for place in sink_side(sink.connector).places(sink.options)
        )

    def discard(self) -> None:
        """Remove what is outside of the scratch directory; QueryFailedError that names what is left."""
        left: list[Problem] = []
        for sink in self.sinks.values():
            side = sink_side(sink.connector)
            assert isinstance(side, MakesScratch), "the plan has only such sinks"
            try:
                side.discard(sink.options, self._prepared.builder.context(sink))
            except HeadwaterError as error:
                place = ", ".join(side.places(sink.options))
                says = str(error.problems[0].message).rstrip(".")
                left.append(PROVE_SCRATCH_LEFT.at(sink.position, sink=sink.name, place=place, says=says))
        if left:
            raise QueryFailedError(*left)
