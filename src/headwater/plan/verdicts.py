"""By what it is decided which rows are set aside, as a short text that a later start is compared with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from headwater.connectors import source_side
from headwater.plan.graph import Graph
from headwater.plan.quarantine import sets_aside
from headwater.spec import PipelineSpec, Schema, SourceSpec, TableSpec
from headwater.values import Secret
from headwater.values.secret_names import masked
from headwater.values.secrets import MASK

Declared = SourceSpec | TableSpec

_DIGITS = 16


def verdicts_of(spec: PipelineSpec, graph: Graph, name: str) -> dict[str, str]:
    """For each source and table that `name` needs, itself too, and that sets rows aside: by what it does.

    The code of Python functions is no part of it, and secrets never get here.
    """
    named: dict[str, Declared] = {each.name: each for each in spec.sources}
    named |= {each.name: each for each in spec.tables}
    needed = [named[each] for each in graph.upstream(name) if each in named]
    return {each.name: _short(_decides(graph, named, each), spec) for each in needed if sets_aside(each)}


def _decides(graph: Graph, named: Mapping[str, Declared], declared: Declared) -> Any:
    if isinstance(declared, SourceSpec):
        return _of_source(declared)
    # Whether a row passes depends on how it was worked out as well.
    below = [named[each] for each in graph.upstream(declared.name) if each in named]
    return [_of_source(each) if isinstance(each, SourceSpec) else _of_table(each) for each in below]


def _of_source(source: SourceSpec) -> dict[str, Any]:
    side, options = source_side(source.connector), source.options
    decides = {key: getattr(options, key) for key in side.judging_keys}
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
