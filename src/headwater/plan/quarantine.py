"""The quarantine of a source or a table: a sink that nobody declares, with a query of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from headwater.connectors import quarantine_sink, source_side, validates
from headwater.connectors.connector import ValidatesRows
from headwater.plan.graph import Graph
from headwater.run_directory import RunDirectory
from headwater.spec import PipelineSpec, Schema, SinkSpec, SourceSpec, TableSpec
from headwater.values import AvailableNow, BadRows, Every, Once, Otherwise, Secret, Trigger, Unpaced
from headwater.values.secrets import MASK, masked

PREFIX = "quarantine."
"""No declared name has a dot, so the names of these sinks meet no other."""

_REPLAY_SUFFIX = ".again"


def quarantine_of(name: str) -> str:
    """The name of the sink that takes what a source or table quarantines."""
    return f"{PREFIX}{name}"


def replay_stream(name: str) -> str:
    """The name of the stream that brings rows of a source or table once more."""
    return f"{name}{_REPLAY_SUFFIX}"


def is_replay_stream(stream: str) -> bool:
    """Whether a stream brings rows once more."""
    return stream.endswith(_REPLAY_SUFFIX)


def accepts_replay(declared: SourceSpec | TableSpec) -> bool:
    """Whether rows that were quarantined can be read beside its own, whatever becomes of bad ones now."""
    if isinstance(declared, TableSpec):
        return True
    return validates(declared, BadRows.QUARANTINE) and not declared.static


def quarantines_rows(declared: SourceSpec | TableSpec) -> bool:
    """Whether some of its rows may go into a quarantine."""
    if isinstance(declared, SourceSpec):
        return declared.bad_rows is BadRows.QUARANTINE and not declared.static
    return any(each.otherwise is Otherwise.QUARANTINE for each in declared.expect)


def with_quarantine(spec: PipelineSpec) -> PipelineSpec:
    """The pipeline with a sink for every source or table that quarantines rows and that a sink may read."""
    declared: tuple[SourceSpec | TableSpec, ...] = (*spec.sources, *spec.tables)
    quarantined = [each for each in declared if quarantines_rows(each)]
    if not quarantined:
        return spec
    graph = Graph.of(spec)
    more = [
        _sink(spec, each, readers)
        for each in quarantined
        # A table that reads no stream can't quarantine rows, and a rule says so.
        if graph.streaming(each.name) is not False and (readers := graph.possible_readers(each.name))
    ]
    return spec.model_copy(update={"sinks": (*spec.sinks, *more)}) if more else spec


def _sink(spec: PipelineSpec, declared: SourceSpec | TableSpec, readers: list[SinkSpec]) -> SinkSpec:
    key = "bad_rows" if isinstance(declared, SourceSpec) else "expect"
    connector, side = quarantine_sink()
    return SinkSpec(
        name=quarantine_of(declared.name),
        reads=declared.name,
        connector=connector,
        options=side.quarantine_options(RunDirectory(spec.folder).quarantine(declared.name).rows),
        trigger=_trigger(readers),
        is_quarantine=True,
        position=declared.at(key),
    )


def _trigger(readers: list[SinkSpec]) -> Trigger:
    """One that lasts as long as any query that reads it: a quarantine ends by itself only where all do."""
    ending = [sink.trigger for sink in readers if isinstance(sink.trigger, Once | AvailableNow)]
    if len(ending) == len(readers):
        return next((each for each in ending if isinstance(each, AvailableNow)), ending[0])
    lasting = (sink.trigger for sink in readers if isinstance(sink.trigger, Every | Unpaced))
    return next(lasting, Unpaced())


# By what it is decided which rows are quarantined, as a short text that a later start is compared with.

Declared = SourceSpec | TableSpec

_DIGITS = 16


def verdicts_of(spec: PipelineSpec, graph: Graph, name: str) -> dict[str, str]:
    """For each source and table that `name` needs, itself too, and that quarantines rows: by what it does.

    The code of Python functions is no part of it, and secrets never get here.
    """
    named: dict[str, Declared] = {each.name: each for each in spec.sources}
    named |= {each.name: each for each in spec.tables}
    needed = [named[each] for each in graph.upstream(name) if each in named]
    return {
        each.name: _short(_decides(graph, named, each), spec) for each in needed if quarantines_rows(each)
    }


def _decides(graph: Graph, named: Mapping[str, Declared], declared: Declared) -> Any:
    if isinstance(declared, SourceSpec):
        return _of_source(declared)
    # Whether a row passes depends on how it was worked out as well.
    below = [named[each] for each in graph.upstream(declared.name) if each in named]
    return [_of_source(each) if isinstance(each, SourceSpec) else _of_table(each) for each in below]


def _of_source(source: SourceSpec) -> dict[str, Any]:
    side, options = source_side(source.connector), source.options
    keys = side.validity_keys if isinstance(side, ValidatesRows) else ()
    decides = {key: getattr(options, key) for key in keys}
    return {
        "connector": source.connector,
        "bad_rows": source.bad_rows.value,
        "max_row_bytes": source.max_row_bytes,
        "options": _plain("options", decides),
    }


def _of_table(table: TableSpec) -> dict[str, Any]:
    expected = {each.name: [" ".join(each.check.split()), each.otherwise.value] for each in table.expect}
    return {
        "sql": " ".join((table.sql or "").split()),
        "function": str(table.function or ""),
        "distinct": _plain("distinct", table.distinct),
        "expect": expected,
    }


def _plain(key: str, value: Any) -> Any:
    """A value as JSON has it, without what nobody may see."""
    match value:
        case Secret():
            return MASK
        case Schema():
            return [column.ddl for column in value.columns]
        case BaseModel():
            fields = set(type(value).model_fields) - getattr(value, "where_only", frozenset())
            return {name: _plain(name, getattr(value, name)) for name in fields}
        case Mapping():
            return {str(name): _plain(str(name), each) for name, each in value.items()}
        case tuple() | list():
            return [_plain(key, each) for each in value]
        case None | bool() | int() | float():
            return value
    return masked(key, str(value))


def _short(decides: Any, spec: PipelineSpec) -> str:
    # A project that was moved is the same project.
    text = json.dumps(decides, sort_keys=True, ensure_ascii=False).replace(str(spec.root), "")
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
