"""Small types parsed once at the edge: durations, triggers, secrets, positions."""

from headwater.values.bad_rows import BadRows, Otherwise
from headwater.values.durations import Duration
from headwater.values.nearest import nearest
from headwater.values.positions import Position, TextPosition
from headwater.values.refresh import EveryBatch, Never, Refresh, RefreshField, parse_refresh
from headwater.values.secrets import Secret, scrub, scrub_within, secret
from headwater.values.triggers import (
    AvailableNow,
    Continuous,
    Every,
    Once,
    RealTime,
    Trigger,
    TriggerField,
    Unpaced,
    parse_trigger,
)

__all__ = [
    "AvailableNow",
    "BadRows",
    "Continuous",
    "Duration",
    "Every",
    "EveryBatch",
    "Never",
    "Once",
    "Otherwise",
    "Position",
    "RealTime",
    "Refresh",
    "RefreshField",
    "Secret",
    "TextPosition",
    "Trigger",
    "TriggerField",
    "Unpaced",
    "nearest",
    "parse_refresh",
    "parse_trigger",
    "scrub",
    "scrub_within",
    "secret",
]
