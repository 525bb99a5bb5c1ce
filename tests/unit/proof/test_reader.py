"""What the concurrent reader reports."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.proof.contents import Difference, Rows, Seen, as_rows
from headwater.proof.reader import Reader, Watched
from headwater.spec import Mode


class Sinks:
    """One sink with contents that a test sets."""

    def __init__(self, mode: Mode) -> None:
        self.sinks = {"out": SimpleNamespace(mode=mode)}
        self.seen: Seen | None = None

    def try_read(self, name: str) -> Seen | None:
        return self.seen


def look(mode: Mode, expected: list[Any], *contents: Seen | None) -> list[str]:
    """What a reader reports that sees these contents, one after another."""
    sinks, found = Sinks(mode), list[str]()
    reader = Reader(sinks, {"out": rows(*expected)}, lambda sink, what, difference: found.append(what))  # type: ignore[arg-type]
    for seen in contents:
        sinks.seen = seen
        reader.look()
    assert reader.reads == {"out": sum(seen is not None for seen in contents)}
    return found


def rows(*values: Any) -> Rows:
    return as_rows((value,) for value in values)


def test_a_right_sink_grows_batch_by_batch() -> None:
    contents = (Seen(rows()), None, Seen(rows(1), 0), Seen(rows(1), 0), Seen(rows(1, 2), 1))
    assert look(Mode.APPEND, [1, 2], *contents) == []


def test_a_duplicate_is_seen_in_append_mode_only() -> None:
    seen = Seen(rows(1, 1))
    assert look(Mode.APPEND, [1, 2], seen) == ["a reader saw rows that the result does not have"]
    assert look(Mode.UPDATE, [1, 2], seen) == []


@pytest.mark.parametrize("mode", list(Mode))
def test_all_readers_see_the_same_rows_after_a_batch(mode: Mode) -> None:
    contents = (Seen(rows(1), 0), Seen(rows(1, 2), 0))
    assert look(mode, [1, 2], *contents) == ["two readers saw different rows after batch 0"]


def test_a_complete_table_is_never_empty_after_it_has_had_rows() -> None:
    contents = (Seen(rows(), 0), Seen(rows(1), 1), Seen(rows(), 2))
    assert look(Mode.COMPLETE, [1], *contents) == ["a reader saw an empty table after batch 2"]
    assert look(Mode.UPDATE, [1], *contents) == []
    later = (Seen(rows(1), 0), Seen(rows(1), 1), Seen(rows(), 5))
    assert look(Mode.COMPLETE, [1], *later) == ["a reader saw an empty table after batch 5"]


def test_only_the_rows_of_the_newest_batch_stay_in_memory() -> None:
    sinks = Sinks(Mode.UPDATE)
    reader = Reader(sinks, {"out": rows(1)}, lambda *wrong: None)  # type: ignore[arg-type]
    for batch in range(3):
        sinks.seen = Seen(rows(batch), batch)
        reader.look()
    assert reader._watched == {"out": Watched(2, rows(2), had_rows=True)}


def test_a_reset_forgets_what_was_seen() -> None:
    sinks, found = Sinks(Mode.UPDATE), list[str]()
    reader = Reader(sinks, {"out": rows(1)}, lambda *wrong: found.append(wrong[1]))  # type: ignore[arg-type]
    sinks.seen = Seen(rows(1), 0)
    reader.look()
    with reader.paused():
        sinks.seen = Seen(rows(2), 0)
    reader.look()
    assert found == []


def test_a_reader_that_fails_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.proof.reader._PAUSE_SECONDS", 0.001)

    class Broken(Sinks):
        def try_read(self, name: str) -> Seen | None:
            raise RuntimeError("no rows")

    failed, found = threading.Event(), list[tuple[str, str]]()

    def report(sink: str, what: str, difference: Difference | None) -> None:
        found.append((sink, what))
        failed.set()

    reader = Reader(Broken(Mode.APPEND), {"out": rows(1)}, report)  # type: ignore[arg-type]
    with reader.running():
        assert failed.wait(30)
    assert found == [("", "the concurrent reader failed: RuntimeError: no rows")]
