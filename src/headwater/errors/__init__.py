"""The catalogue of all problems that Headwater reports, and the error classes that carry them."""

from headwater.errors.problems import (
    CheckpointError,
    CheckpointLockedError,
    Entry,
    ForcedStopError,
    HeadwaterError,
    PipelineError,
    Place,
    Problem,
    QueryFailedError,
    QueryNotFoundError,
    SetupError,
    UsageError,
    name_entries,
    shown_file,
)

__all__ = [
    "CheckpointError",
    "CheckpointLockedError",
    "Entry",
    "ForcedStopError",
    "HeadwaterError",
    "PipelineError",
    "Place",
    "Problem",
    "QueryFailedError",
    "QueryNotFoundError",
    "SetupError",
    "UsageError",
    "name_entries",
    "shown_file",
]
