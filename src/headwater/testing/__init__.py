"""Pipelines under test: scripted streams on real Spark, batch by batch, with a clock that stands still."""

from headwater.testing.steps import Advance, ChangeTo, Check, Crash, Feed, Restart, Row, Start, Step, Stop

__all__ = ["Advance", "ChangeTo", "Check", "Crash", "Feed", "Restart", "Row", "Start", "Step", "Stop"]
