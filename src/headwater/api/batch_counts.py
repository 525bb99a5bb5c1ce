"""What a batch run counted while it wrote: rows that could not be read, and rows that failed expectations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from headwater.connectors import sink_side
from headwater.engine.counted import observed_counts
from headwater.engine.prepare import Prepared, canonical
from headwater.events import Event, Said
from headwater.events.counts import BAD, READ, SourceCounts
from headwater.events.expectations import TableCounts, counts_of
from headwater.spec import SinkSpec, SourceSpec, TableSpec
from headwater.values import BadRows, Otherwise

_BECOMES = {
    BadRows.DROP: "; they are left out",
    BadRows.QUARANTINE: "; only a stream sets rows aside, here they are left out",
    BadRows.KEEP: "; they are kept, with the reason",
}


@dataclass(frozen=True)
class BatchCounts:
    """The counts by source and by table, of those that Spark told of."""

    sources: dict[str, SourceCounts] = field(default_factory=dict)
    tables: dict[str, TableCounts] = field(default_factory=dict)


def in_order(prepared: Prepared, sinks: tuple[SinkSpec, ...]) -> list[SinkSpec]:
    """The sinks as they are to be written: rows are counted once, by whoever asks for them first.

    A console asks for a few rows only, so where anything is counted those that store every row come first.
    """
    counts = prepared.builder.observed or prepared.builder.observed_sources
    return sorted(sinks, key=lambda sink: not sink_side(sink.connector).stores) if counts else list(sinks)


def batch_counts(prepared: Prepared, written: list[SinkSpec], emit: Callable[[Event], None]) -> BatchCounts:
    """What was counted while the sinks were written in this order; what it means for the rows is said."""
    builder, first = prepared.builder, _first(prepared, written)
    told = {name: observed_counts(each) for name, each in builder.observed_sources.items()}
    read = {name: SourceCounts(each[READ], each[BAD]) for name, each in told.items() if each}
    told = {name: observed_counts(each) for name, each in builder.observed.items()}
    judged = {name: counts_of(each) for name, each in told.items() if each}
    said = [text for source in builder.spec.sources for text in _bad(source, read.get(source.name))]
    said += [text for table in builder.spec.tables for text in _failed(table, judged.get(table.name))]
    said += [text for name in (*read, *judged) for text in _short(name, first.get(name))]
    for text in said:
        emit(Said(text=text))
    return BatchCounts(read, judged)


def _first(prepared: Prepared, written: list[SinkSpec]) -> dict[str, SinkSpec]:
    """The sink that was the first to read each source and table."""
    found: dict[str, SinkSpec] = {}
    for sink in written:
        for name in prepared.graph.upstream(canonical(prepared.builder.spec, sink.reads)):
            found.setdefault(name, sink)
    return found


def _bad(source: SourceSpec, counts: SourceCounts | None) -> Iterator[str]:
    if counts and counts.bad:
        becomes = _BECOMES.get(source.bad_rows, "")
        yield f"{source.name}: {counts.bad} of {counts.read} rows can't be read{becomes}"


def _failed(table: TableSpec, counts: TableCounts | None) -> Iterator[str]:
    for each in table.expect if counts else ():
        if counts and (rows := counts.failed[each.name]):
            aside = each.otherwise is Otherwise.QUARANTINE
            what = "; only a stream sets rows aside, here they are dropped" if aside else ""
            yield f"{table.name}: {rows} of {counts.rows} rows fail {each.name}{what}"


def _short(name: str, sink: SinkSpec | None) -> Iterator[str]:
    """A sink that stores no rows may have asked for some of them only."""
    if sink and not sink_side(sink.connector).stores:
        yield f"{name}: counted are the rows that the sink `{sink.name}` asked for, which may not be all"
