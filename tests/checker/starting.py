"""A case started for real, with plain Spark, and what came out held against the batch query."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.engine.builder import SPARK_ERRORS
from headwater.spark.errors import sentence_of
from tests.checker.cases import Case

LONGEST = 100.0
IDLE_BATCHES = 8
ENDING = ("available now", "once")


class Outcome(StrEnum):
    """What becomes of a query that is started."""

    WORKS = "works"
    REFUSED = "refused at the start"
    DIES = "dies"
    SILENT = "never emits"
    DIFFERS = "differs from batch"
    ENDLESS = "does not end"
    KEEPS = "never clears its state"


@dataclass(frozen=True)
class Started:
    """What a real start showed."""

    outcome: Outcome
    says: str = ""


def start(case: Case, frame: DataFrame, folder: Path, expected: Callable[[], list[Any] | None]) -> Started:
    """Start a query with Spark's own writer, let it read all there is, and compare."""
    sink = Captured(case, frame, folder)
    try:
        query = sink.writer().start()
    except SPARK_ERRORS as error:
        return Started(Outcome.REFUSED, sentence_of(error))
    try:
        if sink.case.trigger in ENDING:
            if not _ends(query):
                return Started(Outcome.ENDLESS)
            found = _compared(sink.case, sink.rows(), expected())
            keeps = found.outcome is Outcome.WORKS and _keeps_times(query, sink)
            return Started(Outcome.KEEPS) if keeps else found
        return _watched(query, sink, expected())
    except SPARK_ERRORS as error:
        return Started(Outcome.DIES, sentence_of(error))
    finally:
        query.stop()


def _watched(query: StreamingQuery, sink: Captured, expected: list[Any] | None) -> Started:
    """What a query without an end has given once it is all there, or after the longest wait."""
    deadline = time.monotonic() + LONGEST
    while True:
        query.awaitTermination(1)
        failure = query.exception()
        if failure is not None:
            raise failure
        read = any(each.numInputRows for each in query.recentProgress)
        found = _compared(sink.case, sink.rows(), expected) if read else Started(Outcome.SILENT)
        if found.outcome is Outcome.WORKS or time.monotonic() > deadline:
            return found


def _ends(query: StreamingQuery) -> bool:
    """Whether a query comes to its end; not where it goes on with one batch after another without rows."""
    deadline = time.monotonic() + LONGEST
    while not query.awaitTermination(1):
        last = [each.numInputRows for each in query.recentProgress][-IDLE_BATCHES:]
        if time.monotonic() > deadline or (len(last) == IDLE_BATCHES and not any(last)):
            return False
    return True


def _keeps_times(query: StreamingQuery, sink: Captured) -> bool:
    """Whether groups of a time are kept for ever, though a watermark has passed them."""
    types = {field.name: field.dataType.simpleString() for field in sink.frame.schema.fields}
    timed = any(types[key].startswith(("timestamp", "struct<start")) for key in sink.case.keys or ())
    progress = query.recentProgress
    marked = any("watermark" in each.eventTime for each in progress)
    removed = sum(operator.numRowsRemoved for each in progress for operator in each.stateOperators)
    return sink.case.mode == "update" and timed and marked and not removed


def _compared(case: Case, got: list[Any] | None, expected: list[Any] | None) -> Started:
    if got is None:
        return Started(Outcome.WORKS)
    if expected is None:
        return Started(Outcome.WORKS if got else Outcome.SILENT)
    rows = last_per_key(got, case.keys) if case.mode == "update" and case.keys is not None else got
    found, wanted = Counter(map(plain, rows)), Counter(map(plain, expected))
    if found == wanted:
        return Started(Outcome.WORKS)
    says = f"missing {list((wanted - found).elements())}, too many {list((found - wanted).elements())}"
    return Started(Outcome.DIFFERS if rows else Outcome.SILENT, says)


def last_per_key(rows: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    """The newest row of each key."""
    return list({tuple(plain(row[key]) for key in keys): row for row in rows}.values())


def plain(value: Any) -> Any:
    """A value that can be counted."""
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, dict):
        return tuple(sorted((key, plain(each)) for key, each in value.items()))
    return round(value, 9) if isinstance(value, float) else value


@dataclass
class Captured:
    """The sink of a case, made so that its rows can be looked at afterwards."""

    case: Case
    frame: DataFrame
    folder: Path
    batches: dict[int, list[Row]] = field(default_factory=dict)

    def writer(self) -> DataStreamWriter:
        writer = self.frame.writeStream.outputMode(self.case.mode).queryName(self.case.id)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        return self._into(_paced(self.case.trigger, writer))

    def rows(self) -> list[Row] | None:
        """What the sink got, in order: all of it, or in complete mode the last; None if it can't be told."""
        spark = self.frame.sparkSession
        match self.case.sink:
            case "memory":
                return spark.table(self.case.id).collect()
            case "files":
                return spark.read.schema(self.frame.schema).json(str(self.folder / "out")).collect()
            case "foreach_batch":
                kept = [self.batches[number] for number in sorted(self.batches)]
                kept = kept[-1:] if self.case.mode == "complete" else kept
                return [row for batch in kept for row in batch]
            case "foreach":
                return [Row(*json.loads(line)) for line in self._lines()]
            case _:
                return None

    def _into(self, writer: DataStreamWriter) -> DataStreamWriter:
        match self.case.sink:
            case "files":
                return writer.format("json").option("path", str(self.folder / "out"))
            case "foreach_batch":
                return writer.foreachBatch(self._keep)
            case "foreach":
                return writer.foreach(_appending(self.folder / "rows"))
            case _:
                return writer.format(self.case.sink)

    def _keep(self, batch: DataFrame, number: int) -> None:
        self.batches[number] = batch.collect()

    def _lines(self) -> Iterator[str]:
        for file in sorted((self.folder / "rows").glob("*")):
            yield from file.read_text(encoding="utf-8").splitlines()


def _paced(trigger: str, writer: DataStreamWriter) -> DataStreamWriter:
    kind, _, interval = trigger.partition(" ")
    match kind:
        case "available":
            return writer.trigger(availableNow=True)
        case "once":
            return writer.trigger(once=True)
        case "every":
            return writer.trigger(processingTime=interval)
        case "continuous":
            return writer.trigger(continuous=interval)
        case "real":
            jvm: Any = writer._spark._jvm
            real_time = jvm.org.apache.spark.sql.execution.streaming.RealTimeTrigger
            writer._jwrite = writer._jwrite.trigger(real_time.apply(interval.removeprefix("time ")))
            return writer
        case _:
            return writer


def _appending(folder: Path) -> Callable[[Row], None]:
    """A function for executors that keeps each row as a line; values of plain types only."""
    folder.mkdir(parents=True, exist_ok=True)
    path = str(folder)

    def keep(row: Row) -> None:
        import json as text
        import os
        import threading

        name = f"{path}/{os.getpid()}-{threading.get_ident()}"
        with open(name, "a", encoding="utf-8") as file:
            file.write(text.dumps(list(row), default=str) + "\n")

    return keep
