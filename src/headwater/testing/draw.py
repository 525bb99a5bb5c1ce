"""A picture of a test: its batches against event time."""

from __future__ import annotations

from headwater.testing.drawing.counts import draw_counts
from headwater.testing.drawing.event_time import draw_event_time
from headwater.testing.drawing.picture import picture_of
from headwater.testing.results import TestResult


def draw(result: TestResult, sink: str | None = None) -> str:
    """A standalone SVG of one sink's query: of the first that ran a batch unless told.

    From left to right stand its batches; upwards goes event time. Where nothing has an event time, the
    picture shows how many rows each batch brought in and gave out.
    """
    picture = picture_of(result, sink)
    dated = any(column.dots or column.boxes for column in picture.columns)
    return draw_event_time(picture) if dated else draw_counts(picture)
