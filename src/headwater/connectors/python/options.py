"""The keys of a source or sink that a class of the user's brings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from headwater.connectors.call import ConnectorCall, Options, connector
from headwater.connectors.options import SchemaField, read_schema
from headwater.spec import Schema, SinkOptions, SourceOptions
from headwater.spec.pipeline import ClassField


class PythonSource(SourceOptions):
    """Rows of a class of yours: `streamReader` or `simpleStreamReader` streams, `reader` reads at once."""

    python_class: ClassField = Field(
        alias="class", description='The DataSource, as `"feeds.py:Tickers"`, relative to the pipeline file.'
    )
    columns: SchemaField | None = Field(
        default=None,
        alias="schema",
        description="The columns, where the class leaves them to you; else its `schema()` says them.",
    )

    @field_validator("columns", mode="before")
    @classmethod
    def _read_columns(cls, written: Any, info: ValidationInfo) -> Schema:
        return read_schema(written, info)


class PythonSink(SinkOptions):
    """Hands rows to a class of yours: to its `streamWriter`, in a batch run to its `writer`."""

    python_class: ClassField = Field(
        alias="class", description='The DataSource, as `"out.py:Post"`, relative to the pipeline file.'
    )


def python(
    *,
    class_: str | type,
    schema: str | Mapping[str, Any] | None = None,
    options: Options | None = None,
) -> ConnectorCall:
    """A class of yours, written for Spark's Python Data Source API, as a source or as a sink."""
    return connector("python", **{"class": class_, "schema": schema, "options": options})
