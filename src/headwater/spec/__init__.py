"""Immutable models of what was declared; nothing below the loaders knows in which form."""

from headwater.spec.connector import (
    CleanUp,
    Connector,
    ConnectorOptions,
    Delivery,
    Method,
    OptionValue,
    SinkOptions,
    SinkSide,
    SourceOptions,
    SourceSide,
)
from headwater.spec.declared import ClassRef, Declared, FunctionRef
from headwater.spec.pipeline import (
    Distinct,
    FunctionSpec,
    Mode,
    Named,
    PipelineSpec,
    SinkSpec,
    SourceSpec,
    TableSpec,
    Watermark,
    WatermarkPolicy,
)
from headwater.spec.schema import Column, Schema

__all__ = [
    "ClassRef",
    "CleanUp",
    "Column",
    "Connector",
    "ConnectorOptions",
    "Declared",
    "Delivery",
    "Distinct",
    "FunctionRef",
    "FunctionSpec",
    "Method",
    "Mode",
    "Named",
    "OptionValue",
    "PipelineSpec",
    "Schema",
    "SinkOptions",
    "SinkSide",
    "SinkSpec",
    "SourceOptions",
    "SourceSide",
    "SourceSpec",
    "TableSpec",
    "Watermark",
    "WatermarkPolicy",
]
