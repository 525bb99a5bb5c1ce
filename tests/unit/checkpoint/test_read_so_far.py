"""What a query has read, as its checkpoint tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.checkpoint import Read
from headwater.runtime.records import RunRecords
from tests.checkpoints import handed_out, stopped


def test_only_committed_batches_count(tmp_path: Path) -> None:
    stopped(tmp_path, "out", {"orders": {"t": {"0": 11}}}, planned=[{"t": {"0": 20}}])
    folder = RunRecords(tmp_path)
    assert folder.committed("out") == {"orders": Read(({"t": {"0": 11}},))}
    assert folder.planned("out") == {"orders": Read(({"t": {"0": 20}},))}


def test_files_are_those_up_to_the_committed_batch(tmp_path: Path) -> None:
    inputs = {"orders": {"logOffset": 1}, "orders.again": None, "clicks": 7}
    stopped(tmp_path, "out", inputs)
    handed_out(tmp_path, "out", 0, ["file:///in/a%20b.json"], ["file:///in/c.json"], ["file:///in/d.json"])
    assert RunRecords(tmp_path).committed("out") == {
        "orders": Read((), frozenset({"/in/a b.json", "/in/c.json"})),
        "orders.again": Read(),
        "clicks": Read((7,)),
    }


def test_a_query_that_has_committed_nothing_has_read_nothing(tmp_path: Path) -> None:
    stopped(tmp_path, "out", {"orders": {"t": {"0": 11}}})
    (tmp_path / "checkpoints/out/commits/0").unlink()
    assert RunRecords(tmp_path).committed("out") == {"orders": Read()}


def test_what_can_t_be_told(tmp_path: Path) -> None:
    folder = RunRecords(tmp_path)
    assert (folder.committed("out"), folder.state("out").has_started) == (None, False)
    stopped(tmp_path, "out", {"orders": {"t": {"0": 11}}}, planned=[5, 6])
    assert folder.state("out").has_started
    # A source was added, and a crash came before the facts of it were kept.
    assert folder.planned("out") is None
    (tmp_path / "facts/out.json").unlink()
    assert folder.committed("out") is None
    (tmp_path / "checkpoints/out").rename(tmp_path / "checkpoints/out.next")
    assert (folder.committed("out"), folder.state("out").has_started) == (None, True)


@pytest.mark.parametrize(("offset", "read"), [(10, True), (11, False), (12, False)])
def test_messages(offset: int, read: bool) -> None:
    assert Read(({"t": {"0": 11}},)).has_message("t", 0, offset) is read
    assert not Read(({"t": {"0": 11}},)).has_message("t", 1, 0)
    assert not Read(({"t": {"0": 11}},)).has_message("u", 0, 0)
    assert not Read().has_message("t", 0, 0)


@pytest.mark.parametrize(
    ("mine", "theirs", "far"),
    [
        ({"t": {"0": 5, "1": 5}}, {"t": {"0": 5}}, True),
        ({"t": {"0": 5}}, {"t": {"0": 5, "1": 0}}, False),
        ({"t": {"0": 5, "1": 9}}, {"t": {"0": 6, "1": 1}}, False),
        (7, 7, True),
        (8, 7, True),
        (6, 7, False),
        # Of what a class of the user's counts, it is not known which of two is further.
        ({"left": 3}, {"left": 2}, False),
        ({"left": 3}, {"left": 3}, True),
        (None, 0, False),
    ],
)
def test_how_far_compared(mine: Any, theirs: Any, far: bool) -> None:
    assert Read(() if mine is None else (mine,)).as_far(Read((theirs,))) is far
    assert Read((theirs,)).as_far(Read())


def test_files_compared() -> None:
    some, more = Read((), frozenset("a")), Read((), frozenset("ab"))
    assert (more.as_far(some), some.as_far(more), some.as_far(some)) == (True, False, True)
