"""The catalogue of everything that can go wrong, and the error tree that carries it."""

from headwater.errors.problems import Entry, Place, Problem, shown_file
from headwater.errors.tree import (
    CheckpointError,
    EnvironmentProblem,
    HeadwaterError,
    Held,
    Interrupted,
    PipelineError,
    QueryFailed,
    UnknownQuery,
    UsageProblem,
)

__all__ = [
    "CheckpointError",
    "Entry",
    "EnvironmentProblem",
    "HeadwaterError",
    "Held",
    "Interrupted",
    "PipelineError",
    "Place",
    "Problem",
    "QueryFailed",
    "UnknownQuery",
    "UsageProblem",
    "shown_file",
]
