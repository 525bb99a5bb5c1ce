"""The catalogue of everything that can go wrong, and the error tree that carries it."""

from headwater.errors.problems import (
    CheckpointError,
    CheckpointHeld,
    Entry,
    EnvironmentProblem,
    HeadwaterError,
    Interrupted,
    PipelineError,
    Place,
    Problem,
    QueryFailed,
    UnknownQuery,
    UsageProblem,
    name_entries,
    shown_file,
)

__all__ = [
    "CheckpointError",
    "CheckpointHeld",
    "Entry",
    "EnvironmentProblem",
    "HeadwaterError",
    "Interrupted",
    "PipelineError",
    "Place",
    "Problem",
    "QueryFailed",
    "UnknownQuery",
    "UsageProblem",
    "name_entries",
    "shown_file",
]
