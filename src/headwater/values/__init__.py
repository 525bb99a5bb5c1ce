"""Small types, parsed once at the edge: durations, triggers, secrets, positions, words for messages."""

from headwater.values.durations import Duration
from headwater.values.secrets import Secret, scrub, scrub_within, secret
from headwater.values.triggers import (
    AvailableNow,
    BadRows,
    Continuous,
    Every,
    EveryBatch,
    Never,
    Once,
    OnViolation,
    RealTime,
    Refresh,
    RefreshField,
    Trigger,
    TriggerField,
    Unpaced,
    parse_refresh,
    parse_trigger,
)
from headwater.values.user_frames import Position, TextPosition
from headwater.values.words import capitalized, count_of, did_you_mean, nearest, quoted

__all__ = [
    "AvailableNow",
    "BadRows",
    "Continuous",
    "Duration",
    "Every",
    "EveryBatch",
    "Never",
    "OnViolation",
    "Once",
    "Position",
    "RealTime",
    "Refresh",
    "RefreshField",
    "Secret",
    "TextPosition",
    "Trigger",
    "TriggerField",
    "Unpaced",
    "capitalized",
    "count_of",
    "did_you_mean",
    "nearest",
    "parse_refresh",
    "parse_trigger",
    "quoted",
    "scrub",
    "scrub_within",
    "secret",
]
