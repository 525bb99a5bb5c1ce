"""The columns of a declared source, told without Spark."""

from __future__ import annotations

from headwater.connectors.judged import KEPT_REASON, KEPT_TEXT
from headwater.connectors.registry import source_side
from headwater.spec import Column, Schema, SourceSpec
from headwater.values import BadRows

_KEPT = (Column(KEPT_REASON, "string"), Column(KEPT_TEXT, "string"))


def source_columns(source: SourceSpec) -> Schema | None:
    """All columns of its rows; None where only Spark can tell."""
    schema = source_side(source.connector).columns(source.options)
    if schema is None or source.bad_rows is not BadRows.KEEP:
        return schema
    return Schema((*schema.columns, *_KEPT))
