"""The locks of a run from the moment they are taken."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.errors import CheckpointLockedError
from headwater.runtime import locks as module
from headwater.runtime.locks import RunLocks
from tests.unit.runtime.queries import SECONDS


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunLocks]:
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.01)
    held = RunLocks([tmp_path / "a", tmp_path / "b"], "run")
    yield held
    held.release()


def code(held: CheckpointLockedError) -> str:
    return held.problems[0].code


def test_the_locks_are_renewed_before_anybody_asks_for_the_loss(locks: RunLocks, tmp_path: Path) -> None:
    file = tmp_path / "b.lock"
    first = file.read_bytes()
    locks.keep_alive()
    deadline = time.monotonic() + SECONDS
    while file.read_bytes() == first:
        assert time.monotonic() < deadline


def test_a_loss_is_kept_for_the_next_step_and_for_who_asks_later(locks: RunLocks, tmp_path: Path) -> None:
    locks.refuse_if_lost()
    locks.confirm()
    (tmp_path / "b.lock").unlink()
    locks.keep_alive()
    locks._thread.join(SECONDS)
    assert not locks._thread.is_alive()
    for refuse in (locks.refuse_if_lost, locks.confirm):
        with pytest.raises(CheckpointLockedError) as caught:
            refuse()
        assert code(caught.value) == "HW-LOCK-REMOVED"
    told: list[CheckpointLockedError] = []
    locks.when_lost(told.append)
    assert [code(held) for held in told] == ["HW-LOCK-REMOVED"]


def test_a_loss_is_told_once_to_who_asked_before(locks: RunLocks, tmp_path: Path) -> None:
    told: list[CheckpointLockedError] = []
    locks.when_lost(told.append)
    assert told == []
    (tmp_path / "a.lock").unlink()
    locks.keep_alive()
    locks._thread.join(SECONDS)
    assert [code(held) for held in told] == ["HW-LOCK-REMOVED"]


def test_release_ends_the_heartbeat(locks: RunLocks, tmp_path: Path) -> None:
    locks.keep_alive()
    locks.release()
    locks._thread.join(SECONDS)
    assert not locks._thread.is_alive()
    assert not (tmp_path / "a.lock").exists()
    locks.refuse_if_lost()
