"""The installed connectors, built in or from other packages, found through one entry point group."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from headwater.connectors.connector import Connector, KeepsQuarantine, Sink, Source, ValidatesRows
from headwater.connectors.contract import KEPT_REASON, KEPT_TEXT
from headwater.errors import SetupError
from headwater.errors.catalogue.connectors import CONNECTOR_LOAD_FAILED, CONNECTOR_NAME_CONFLICT
from headwater.spec import Column, Schema, SourceSpec
from headwater.values import BadRows

GROUP = "headwater.connectors"
EXAMPLES = {"source": "files", "sink": "console"}
"""The examples in messages about a missing connector."""


@cache
def all_connectors() -> dict[str, Connector]:
    """Every installed connector by name."""
    found: dict[str, Connector] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        connector = _load(point)
        if connector.name in found and found[connector.name] is not connector:
            raise SetupError(CONNECTOR_NAME_CONFLICT.at(None, name=connector.name, other=point.value))
        found[connector.name] = connector
    return found


def source_side(name: str) -> Source[Any]:
    """The source of a connector in a loaded spec."""
    side = all_connectors()[name].source
    if side is None:
        raise KeyError(name)
    return side


def sink_side(name: str) -> Sink[Any]:
    """The sink of a connector in a loaded spec."""
    side = all_connectors()[name].sink
    if side is None:
        raise KeyError(name)
    return side


def quarantine_sink() -> tuple[str, KeepsQuarantine]:
    """The name and the sink of the connector that writes quarantines."""
    for each in all_connectors().values():
        sink: object = each.sink
        if each.built_in and isinstance(sink, KeepsQuarantine):
            return each.name, sink
    raise LookupError("no connector keeps quarantines")


def validates(source: SourceSpec, bad_rows: BadRows) -> bool:
    """Whether a source validates each row with this setting of `bad_rows`."""
    side = source_side(source.connector)
    return isinstance(side, ValidatesRows) and side.validates(source.options, bad_rows)


def _load(point: EntryPoint) -> Connector:
    try:
        connector = point.load()
    except (Exception, SystemExit) as error:  # code of another package can raise anything
        problem = CONNECTOR_LOAD_FAILED.at(None, name=point.name, module=point.value, error=repr(error))
        raise SetupError(problem) from error
    if not isinstance(connector, Connector) or connector.name != point.name:
        says = "not a Connector with this name"
        raise SetupError(CONNECTOR_LOAD_FAILED.at(None, name=point.name, module=point.value, error=says))
    return connector


# The columns of a declared source, found without Spark.

_KEPT = (Column(KEPT_REASON, "string"), Column(KEPT_TEXT, "string"))


def source_columns(source: SourceSpec) -> Schema | None:
    """All columns of its rows; None if only Spark knows them."""
    schema = source_side(source.connector).columns(source.options)
    if schema is None or source.bad_rows is not BadRows.KEEP:
        return schema
    return Schema((*schema.columns, *_KEPT))
