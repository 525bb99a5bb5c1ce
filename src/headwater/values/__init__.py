"""Small types parsed once at the edge: durations, triggers, secrets, positions."""

from headwater.values.durations import Duration
from headwater.values.nearest import nearest
from headwater.values.positions import Position, TextPosition
from headwater.values.secrets import Secret, scrub, secret
from headwater.values.triggers import (
    AvailableNow,
    Every,
    Once,
    Trigger,
    TriggerField,
    Unpaced,
    parse_trigger,
)

__all__ = [
    "AvailableNow",
    "Duration",
    "Every",
    "Once",
    "Position",
    "Secret",
    "TextPosition",
    "Trigger",
    "TriggerField",
    "Unpaced",
    "nearest",
    "parse_trigger",
    "scrub",
    "secret",
]
