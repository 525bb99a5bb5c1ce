"""Pipelines under test: test streams on real Spark, batch by batch, with a clock that the test controls."""

from headwater.testing.steps import Advance, ChangeTo, Check, Crash, Feed, Restart, Row, Start, Step, Stop

__all__ = ["Advance", "ChangeTo", "Check", "Crash", "Feed", "Restart", "Row", "Start", "Step", "Stop"]
