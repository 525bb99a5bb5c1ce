"""The query of a sink group: each batch is read and computed once, and every sink writes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from headwater.connectors import sink_side
from headwater.connectors.connector import BatchWriter, WritesBatches
from headwater.engine.builder import Builder
from headwater.engine.listener import observed_counts
from headwater.events.counts import TABLE_COUNTS, BranchCounts
from headwater.plan.groups import branch, group_table, tables_read
from headwater.spark.interception import hold_persisted
from headwater.spark.query import thread_query
from headwater.spark.session import active
from headwater.spec import Delivery, QuerySpec, SinkSpec


@contextmanager
def cached(rows: DataFrame) -> Iterator[None]:
    """Compute rows once, and keep them for everything that reads them meanwhile."""
    # Code that receives the DataFrame may be kept from releasing it.
    release = rows.unpersist
    rows.persist()
    try:
        rows.count()
        yield
    finally:
        release()


@dataclass
class GroupWriter:
    """Writes the batches of a group, for one start of its query.

    The rows of the common table are cached first, so Spark reads and computes each batch once, counts its rows once,
    and stores the state of a batch that every sink skips. The tables between the common table and a sink are then
    built from these rows. If a sink fails, so does the batch: it is retried, and each sink recognizes what it has.
    """

    builder: Builder
    query: QuerySpec
    counts: BranchCounts
    writing: str = ""
    """The sink that is being written; after a failure, the one that failed. Empty while the batch is computed."""
    _writers: dict[str, BatchWriter] = field(default_factory=dict)
    _common: str = ""
    _branches: tuple[tuple[str, ...], ...] = ()
    """The tables from the common table to each sink."""

    def prepare(self, frames: Mapping[str, DataFrame]) -> None:
        """Check each sink against its rows and its target, as the start of its own query would."""
        graph = self.builder.graph
        self._common = group_table(graph, self.query)
        read = tables_read(graph, self.query) or ()
        self._branches = tuple(branch(graph, self._common, each) for each in read)
        for sink in self.query.sinks:
            side, context = sink_side(sink.connector), self.builder.context(sink)
            assert isinstance(side, WritesBatches), "others are rejected when the pipeline is loaded"
            side.outgoing(frames[sink.name], sink.options, context)
            self._writers[sink.name] = side.batch_writer(sink.options, context)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch; called by Spark."""
        self.writing = ""
        with active(batch.sparkSession), cached(batch):
            # Functions written for plain Spark persist a batch and release it too early for the other sinks.
            hold_persisted(batch)
            self._write(batch, batch_id)

    def _write(self, rows: DataFrame, batch_id: int) -> None:
        built = self.builder.of_batch(self._common, rows)
        uses = Counter(table for tables in self._branches for table in tables)
        observed: dict[str, Mapping[str, int]] = {}
        with ExitStack() as kept:
            for sink, tables in zip(self.query.sinks, self._branches, strict=True):
                self.writing = sink.name
                for table in (each for each in tables if each not in built.frames):
                    frame, counts = built.build(table), built.nodes[table].counts
                    own = table == tables[-1] and _may_compute_again(sink)
                    if counts is not None or uses[table] > 1 or own:
                        kept.enter_context(cached(frame))
                    if counts is not None:
                        observed[f"{TABLE_COUNTS}{table}"] = observed_counts(counts) or {}
                self._writers[sink.name](built.frames[tables[-1] if tables else self._common], batch_id)
        self.writing = ""
        query = thread_query(rows.sparkSession.sparkContext)
        if observed and query:
            self.counts.put(query.query_id, batch_id, {name: each for name, each in observed.items() if each})


def _may_compute_again(sink: SinkSpec) -> bool:
    """Whether user code writes the rows, which may compute them several times, or not at all."""
    side = sink_side(sink.connector)
    return isinstance(side, WritesBatches) and side.delivers_batches(sink.options) is Delivery.USER
