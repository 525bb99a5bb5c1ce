"""The quarantine of a source or a table: an implicit sink with its own query."""

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
from headwater.values import AvailableNow, BadRows, Every, Once, OnViolation, Secret, Trigger, Unpaced
from headwater.values.secrets import MASK, masked

PREFIX = "quarantine."
"""Declared names contain no dot, so the names of these sinks are unique."""

_REPLAY_SUFFIX = ".again"


def quarantine_of(name: str) -> str:
    """The name of the sink for the quarantined rows of a source or table."""
    return f"{PREFIX}{name}"


def replay_stream(name: str) -> str:
    """The name of the stream of replayed rows of a source or table."""
    return f"{name}{_REPLAY_SUFFIX}"


def is_replay_stream(stream: str) -> bool:
    """Whether a stream delivers replayed rows."""
    return stream.endswith(_REPLAY_SUFFIX)


def accepts_replay(declared: SourceSpec | TableSpec) -> bool:
    """Whether quarantined rows can be replayed along with its own, regardless of the current `bad_rows`."""
    if isinstance(declared, TableSpec):
        return True
    return validates(declared, BadRows.QUARANTINE) and not declared.static


def quarantines_rows(declared: SourceSpec | TableSpec) -> bool:
    """Whether it can quarantine rows."""
    if isinstance(declared, SourceSpec):
        return declared.bad_rows is BadRows.QUARANTINE and not declared.static
    return any(each.on_violation is OnViolation.QUARANTINE for each in declared.expect)


def _quarantining(spec: PipelineSpec) -> list[SourceSpec | TableSpec]:
    return [*filter(quarantines_rows, spec.sources), *filter(quarantines_rows, spec.tables)]


def with_quarantine(spec: PipelineSpec) -> PipelineSpec:
    """The pipeline with a sink for every source or table that quarantines rows and that a sink can read."""
    quarantining = _quarantining(spec)
    if not quarantining:
        return spec
    graph = Graph.of(spec)
    more = [
        _sink(spec, each, readers)
        for each in quarantining
        # A table that reads no stream cannot quarantine rows; a rule reports that.
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
        options=side.quarantine_options(RunDirectory(spec.run_dir).quarantine(declared.name).rows),
        trigger=_trigger(readers),
        is_quarantine=True,
        position=declared.at(key),
    )


def _trigger(readers: list[SinkSpec]) -> Trigger:
    """A trigger that runs as long as any reader: a quarantine stops automatically only if all readers do."""
    ending = [sink.trigger for sink in readers if isinstance(sink.trigger, Once | AvailableNow)]
    if len(ending) == len(readers):
        return next((each for each in ending if isinstance(each, AvailableNow)), ending[0])
    lasting = (sink.trigger for sink in readers if isinstance(sink.trigger, Every | Unpaced))
    return next(lasting, Unpaced())


# A fingerprint of the rules that decide which rows are quarantined, to compare with a later start.


def quarantine_fingerprints(spec: PipelineSpec, graph: Graph, name: str) -> dict[str, str]:
    """The fingerprint of each source and table that `name` needs (including itself) and that quarantines rows.

    It does not include the code of Python functions or secrets.
    """
    parts = {each.name: _of_source(each) for each in spec.sources}
    parts |= {each.name: _of_table(each) for each in spec.tables}
    quarantining = {each.name for each in _quarantining(spec)}
    sources = {each.name for each in spec.sources}
    found = {}
    for each in (each for each in graph.upstream(name) if each in quarantining):
        # Whether a row of a table passes also depends on how it is computed.
        below = [parts[other] for other in graph.upstream(each) if other in parts]
        text = json.dumps(parts[each] if each in sources else below, sort_keys=True, ensure_ascii=False)
        # A moved project is the same project.
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
    expected = {
        each.name: [" ".join(each.condition.split()), each.on_violation.value] for each in table.expect
    }
    return {
        "sql": " ".join((table.sql or "").split()),
        "function": str(table.function or ""),
        "deduplicate": _plain("deduplicate", table.deduplicate),
        "expect": expected,
    }


def _plain(key: str, value: Any) -> Any:
    """A value as JSON, without secrets."""
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
