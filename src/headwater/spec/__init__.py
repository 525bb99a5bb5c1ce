"""Immutable models of a declared pipeline, independent of the form (YAML or Python) it was declared in."""

from headwater.spec.connector import (
    ClassRef,
    CleanUp,
    ConnectorOptions,
    Declared,
    Delivery,
    FunctionRef,
    Method,
    OptionValue,
    SinkOptions,
    SourceOptions,
    Waiting,
)
from headwater.spec.pipeline import (
    Deduplication,
    Expectation,
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
from headwater.spec.restarts import OnFailure, RestartPolicy
from headwater.spec.schema import Column, Schema

__all__ = [
    "ClassRef",
    "CleanUp",
    "Column",
    "ConnectorOptions",
    "Declared",
    "Deduplication",
    "Delivery",
    "Expectation",
    "FunctionRef",
    "FunctionSpec",
    "Method",
    "Mode",
    "Named",
    "OnFailure",
    "OptionValue",
    "PipelineSpec",
    "RestartPolicy",
    "Schema",
    "SinkOptions",
    "SinkSpec",
    "SourceOptions",
    "SourceSpec",
    "TableSpec",
    "Waiting",
    "Watermark",
    "WatermarkPolicy",
]
