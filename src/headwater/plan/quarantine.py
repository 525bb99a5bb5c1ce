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


def _quarantining(spec: PipelineSpec) -> list[SourceSpec | TableSpec]:
    return [*filter(quarantines_rows, spec.sources), *filter(quarantines_rows, spec.tables)]


def with_quarantine(spec: PipelineSpec) -> PipelineSpec:
    """The pipeline with a sink for every source or table that quarantines rows and that a sink may read."""
    quarantining = _quarantining(spec)
    if not quarantining:
        return spec
    graph = Graph.of(spec)
    more = [
        _sink(spec, each, readers)
        for each in quarantining
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


def quarantine_fingerprints(spec: PipelineSpec, graph: Graph, name: str) -> dict[str, str]:
    """For each source and table that `name` needs, itself too, and that quarantines rows: by what it does.

    The code of Python functions is no part of it, and secrets never get here.
    """
    parts = {each.name: _of_source(each) for each in spec.sources}
    parts |= {each.name: _of_table(each) for each in spec.tables}
    quarantining = {each.name for each in _quarantining(spec)}
    sources = {each.name for each in spec.sources}
    found = {}
    for each in (each for each in graph.upstream(name) if each in quarantining):
        # Whether a row of a table passes depends on how it was worked out as well.
        below = [parts[other] for other in graph.upstream(each) if other in parts]
        text = json.dumps(parts[each] if each in sources else below, sort_keys=True, ensure_ascii=False)
        # A project that was moved is the same project.
        found[each] = hashlib.sha256(text.replace(str(spec.root), "").encode()).hexdigest()[:16]
    return found


def _of_source(source: SourceSpec) -> dict[str, Any]:
    side = source_side(source.connector)
    keys = side.validity_keys if isinstance(side, ValidatesRows) else ()
    return {
        "connector": source.connector,
        "bad_rows": source.bad_rows.value,
        "max_row_bytes": source.max_row_bytes,
        "options": _plain("options", {key: getattr(source.options, key) for key in keys}),
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
