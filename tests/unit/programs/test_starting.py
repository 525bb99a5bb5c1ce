"""What no two running queries of a script may share, and how queries without a name are called."""

from __future__ import annotations

from headwater.engine.plain_facts import Written
from headwater.programs.starting import Started
from headwater.values import Position

HERE, THERE = Position("/jobs/streams.py", 7), Position("/jobs/job.py", 20)


def test_names() -> None:
    started = Started()
    written = Written("console")
    names = [started.name_of(written, places) for places in [(HERE, THERE), (HERE, THERE), (HERE,), (), ()]]
    assert names == [
        "streams.py:7",
        "streams.py:7 (2, from job.py:20)",
        "streams.py:7 (3)",
        "query",
        "query (2)",
    ]
    assert started.name_of(Written("console", name="totals"), (HERE,)) == "totals"
