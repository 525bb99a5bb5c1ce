"""The history that its benchmark makes up: complete, within its limit of size, and with something to read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bench.history import QUERIES, SCREEN, START, reads, write
from headwater.history.reader import History
from headwater.history.retention import HistoryLimits

EVENTS = 24_000


def test_every_event_is_written(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    write(file, EVENTS, HistoryLimits())
    with History(file) as history:
        kinds = Counter((event.body["event"], event.body.get("query", "")) for event in history.events())
        batches = {query: len(history.batches(query, EVENTS)) for query in QUERIES}
        read = {name: read(history) for name, read in reads(START + EVENTS // 4 * 1_000).items()}
    each = EVENTS // len(QUERIES)
    assert kinds == {("run_started", ""): 1, **{("alert", query): each for query in QUERIES}}
    # The last one is that of the run whose status is read.
    assert batches == dict.fromkeys(QUERIES, each + 1)
    assert all(read.values())
    assert {len(found) for name, found in read.items() if "events" in name} == {SCREEN}


def test_a_file_that_is_full_stays_within_its_limit(tmp_path: Path) -> None:
    file, limits = tmp_path / "history.sqlite", HistoryLimits(max_bytes=10 << 20)
    write(file, EVENTS, limits)
    with History(file) as history:
        kept = [event.seq for event in history.events()]
        batches = sum(point.count for point in history.series("orders", "duration_ms"))
    assert file.stat().st_size <= limits.max_bytes
    assert 0 < len(kept) < EVENTS
    assert kept == list(range(kept[0], EVENTS + 2))
    assert batches == EVENTS // len(QUERIES) + 1
