"""Immutable models of what was declared; nothing below the loaders knows in which form."""

from headwater.spec.connector import (
    Connector,
    ConnectorOptions,
    Delivery,
    OptionValue,
    SinkOptions,
    SinkSide,
    SourceOptions,
    SourceSide,
)
from headwater.spec.declared import Declared, FunctionRef
from headwater.spec.pipeline import (
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
    "Column",
    "Connector",
    "ConnectorOptions",
    "Declared",
    "Delivery",
    "FunctionRef",
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
