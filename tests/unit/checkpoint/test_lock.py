from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.checkpoint import CheckpointLock, Clock, LocalStore
from headwater.errors import CheckpointError, CheckpointLockedError, HeadwaterError, Problem


class FakeClock(Clock, Protocol):
    moment: datetime
    since_boot: float
    slept: float
    on_sleep: Callable[[], None]


class FailingStore(LocalStore):
    """Refuses one operation, as a full or broken disk does."""

    def __init__(self, root: Path, broken: str = "") -> None:
        super().__init__(root)
        self.broken = broken

    def create(self, name: str, data: bytes) -> bool:
        self._refuse("create")
        return super().create(name, data)

    def replace(self, name: str, data: bytes) -> None:
        self._refuse("replace")
        super().replace(name, data)

    def delete(self, name: str) -> None:
        self._refuse("delete")
        super().delete(name)

    def _refuse(self, operation: str) -> None:
        if operation == self.broken:
            raise OSError(errno.ENOSPC, "No space left on device")


class LateStore(LocalStore):
    """The lock is in the way at the first try and gone when it is looked at."""

    tries = 0

    def create(self, name: str, data: bytes) -> bool:
        self.tries += 1
        return self.tries > 1 and super().create(name, data)


REMAINS = ["orders.lock.epoch", "orders.lock.guard"]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "orders"


def lock_file(checkpoint: Path) -> Path:
    return checkpoint.with_name("orders.lock")


def content(checkpoint: Path) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(lock_file(checkpoint).read_bytes())
    return fields


def plant(checkpoint: Path, clock: FakeClock, **changes: Any) -> None:
    """Leave the lock of an owner elsewhere, last written at its last heartbeat."""
    with CheckpointLock.acquire(checkpoint, "other", clock=clock):
        fields = content(checkpoint)
    fields["place"]["host"] = "elsewhere"
    fields["place"] |= changes.pop("place", {})
    fields |= changes
    lock_file(checkpoint).write_text(json.dumps(fields))
    touch(checkpoint, datetime.fromisoformat(fields["heartbeat"]))


def touch(checkpoint: Path, moment: datetime) -> None:
    os.utime(lock_file(checkpoint), (moment.timestamp(), moment.timestamp()))


@contextmanager
def guard_in_other_hands(checkpoint: Path) -> Iterator[None]:
    with open(f"{lock_file(checkpoint)}.guard", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield


def problem(act: Callable[[], object], kind: type[HeadwaterError] = CheckpointLockedError) -> Problem:
    with pytest.raises(kind) as caught:
        act()
    assert type(caught.value) is kind
    (found,) = caught.value.problems
    assert found.message
    assert found.hint
    return found


def test_the_lock_says_who_holds_the_checkpoint(checkpoint: Path, clock: FakeClock) -> None:
    with CheckpointLock.acquire(checkpoint, "run-1", clock=clock) as lock:
        fields = content(checkpoint)
        assert lock.took_over is None
        assert lock.owner.token == fields["token"]
    assert fields["version"] == 1
    assert fields["run_id"] == "run-1"
    assert fields["place"]["host"] == socket.gethostname()
    assert fields["process"]["pid"] == os.getpid()
    assert fields["jvm"] is None
    assert fields["since"] == fields["heartbeat"] == "2026-01-01T12:00:00+00:00"


def test_nothing_but_the_guard_and_the_epoch_remains(checkpoint: Path) -> None:
    with CheckpointLock.acquire(checkpoint, "run-1"):
        assert sorted(os.listdir(checkpoint.parent)) == ["orders.lock", *REMAINS]
    assert sorted(os.listdir(checkpoint.parent)) == REMAINS


def kill(checkpoint: Path, noted: int | None = None, without: str = "") -> None:
    """Leave the lock as the kill of its owner would: it names a process that is gone."""
    fields = content(checkpoint)
    fields["process"]["start_time"] = "before all others"
    fields.pop(without, None)
    lock_file(checkpoint).write_text(json.dumps(fields))
    if noted is not None:
        lock_file(checkpoint).with_suffix(".lock.epoch").write_text(f"{noted}\n")


ENDS: dict[str, Callable[[Path, CheckpointLock], object]] = {
    "released": lambda checkpoint, lock: lock.release(),
    "killed": lambda checkpoint, lock: kill(checkpoint),
    "killed, and its lock deleted": lambda checkpoint, lock: lock_file(checkpoint).unlink(),
    "killed before the number was noted": lambda checkpoint, lock: kill(checkpoint, lock.epoch - 1),
    "killed, its lock half written": lambda checkpoint, lock: lock_file(checkpoint).write_text("{"),
    "killed, of a version that knew no epochs": lambda checkpoint, lock: kill(checkpoint, without="epoch"),
}


@pytest.mark.feature("F5", part="the number of a run grows, however the runs before it ended")
@settings(deadline=None)
@given(st.lists(st.sampled_from(sorted(ENDS)), max_size=8))
def test_the_epoch_grows_however_the_owners_end(ends: list[str]) -> None:
    with TemporaryDirectory() as folder:
        checkpoint, seen = Path(folder) / "orders", list[int]()
        for end in ends:
            lock = CheckpointLock.acquire(checkpoint, "run")
            assert content(checkpoint)["epoch"] == lock.epoch
            lock.heartbeat()
            assert lock.epoch > max(seen, default=0)
            seen.append(lock.epoch)
            ENDS[end](checkpoint, lock)


def test_who_is_refused_changes_no_epoch(checkpoint: Path) -> None:
    with CheckpointLock.acquire(checkpoint, "run-1") as lock:
        problem(lambda: CheckpointLock.acquire(checkpoint, "run-2"))
        assert lock_file(checkpoint).with_suffix(".lock.epoch").read_text() == f"{lock.epoch}\n" == "1\n"


def test_an_epoch_that_can_not_be_noted_or_read_is_said_and_nothing_is_held(checkpoint: Path) -> None:
    store = FailingStore(checkpoint.parent, "replace")
    found = problem(lambda: CheckpointLock.acquire(checkpoint, "run-1", store=store), CheckpointError)
    assert found.code == "HW-LOCK-UNUSABLE"
    assert os.listdir(checkpoint.parent) == ["orders.lock.guard"]
    lock_file(checkpoint).with_suffix(".lock.epoch").write_text("seven")
    found = problem(lambda: CheckpointLock.acquire(checkpoint, "run-1"), CheckpointError)
    assert found.params["reason"] == f"{lock_file(checkpoint)}.epoch does not contain a number"


def test_a_released_checkpoint_can_be_held_again(checkpoint: Path) -> None:
    for run in ("run-1", "run-2"):
        with CheckpointLock.acquire(checkpoint, run) as lock:
            assert lock.took_over is None


@pytest.mark.parametrize("spelling", ["orders", "../runs/orders", "link", "inner/../orders"])
def test_the_same_process_is_refused_under_every_spelling(
    checkpoint: Path, clock: FakeClock, spelling: str
) -> None:
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint.parent / "inner").mkdir()
    (checkpoint.parent / "link").symlink_to(checkpoint)
    with CheckpointLock.acquire(checkpoint, "run-1", clock=clock):
        found = problem(lambda: CheckpointLock.acquire(checkpoint.parent / spelling, "run-2"))
    assert found.code == "HW-CHECKPOINT-LOCKED-BY-THIS-PROCESS"
    assert found.params["checkpoint"] == str(checkpoint)
    assert found.params["run"] == "run-1"
    assert found.params["pid"] == os.getpid()
    assert found.params["since"] == "2026-01-01T12:00:00+00:00"


def test_a_heartbeat_renews_and_keeps_the_jvm(checkpoint: Path, clock: FakeClock) -> None:
    with CheckpointLock.acquire(checkpoint, "run-1", clock=clock) as lock:
        lock.name_jvm(4711, "start")
        clock.moment += timedelta(seconds=10)
        lock.heartbeat()
        fields = content(checkpoint)
    assert fields["jvm"] == {"pid": 4711, "start_time": "start"}
    assert fields["since"] == "2026-01-01T12:00:00+00:00"
    assert fields["heartbeat"] == "2026-01-01T12:00:10+00:00"


def test_a_beat_is_left_out_while_a_starter_has_the_guard(checkpoint: Path, clock: FakeClock) -> None:
    with CheckpointLock.acquire(checkpoint, "run-1", clock=clock) as lock:
        with guard_in_other_hands(checkpoint):
            lock.heartbeat()
            assert content(checkpoint)["heartbeat"] == "2026-01-01T12:00:00+00:00"
            lock.name_jvm(4711, "start")
            assert content(checkpoint)["jvm"] == {"pid": 4711, "start_time": "start"}
        lock.heartbeat()
        assert content(checkpoint)["heartbeat"] == clock.moment.isoformat()


def test_a_lock_that_was_removed_is_no_longer_ours(checkpoint: Path) -> None:
    lock = CheckpointLock.acquire(checkpoint, "run-1")
    lock_file(checkpoint).unlink()
    found = problem(lock.heartbeat)
    assert (found.code, found.params) == ("HW-LOCK-REMOVED", {"file": str(lock_file(checkpoint))})


def test_a_folder_that_was_removed_takes_the_lock_with_it(checkpoint: Path) -> None:
    lock = CheckpointLock.acquire(checkpoint, "run-1")
    shutil.rmtree(checkpoint.parent)
    assert problem(lock.heartbeat).code == "HW-LOCK-REMOVED"
    lock.release()


def test_a_lock_that_was_taken_is_named_and_left_alone(checkpoint: Path, clock: FakeClock) -> None:
    lock = CheckpointLock.acquire(checkpoint, "run-1", clock=clock)
    lock_file(checkpoint).rename(checkpoint.with_name("moved"))
    plant(checkpoint, clock, run_id="run-2")
    found = problem(lock.heartbeat)
    assert (found.code, found.params["run"]) == ("HW-LOCK-LOST", "run-2")
    lock.release()
    assert content(checkpoint)["run_id"] == "run-2"


def test_after_the_release_nothing_happens(checkpoint: Path) -> None:
    lock = CheckpointLock.acquire(checkpoint, "run-1")
    lock.release()
    lock.release()
    lock.heartbeat()
    assert not lock_file(checkpoint).exists()


def test_a_forked_child_does_not_release_its_parents_lock(checkpoint: Path) -> None:
    lock = CheckpointLock.acquire(checkpoint, "run-1")
    child = os.fork()
    if child == 0:
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)
    assert content(checkpoint)["run_id"] == "run-1"
    lock.release()


def test_an_owner_elsewhere_is_alive_while_it_is_heard(checkpoint: Path, clock: FakeClock) -> None:
    plant(checkpoint, clock)
    clock.moment += timedelta(seconds=59)
    found = problem(lambda: CheckpointLock.acquire(checkpoint, "run-2", clock=clock))
    assert found.code == "HW-CHECKPOINT-LOCKED-ELSEWHERE"
    assert found.params["host"] == "elsewhere"
    assert found.params["seen"] == "2026-01-01T12:00:00+00:00"
    assert found.params["free_at"] == "2026-01-01T12:01:00+00:00"
    assert found.entry.retryable


def test_a_silent_owner_elsewhere_is_replaced(checkpoint: Path, clock: FakeClock) -> None:
    plant(checkpoint, clock)
    clock.moment += timedelta(seconds=60)
    with CheckpointLock.acquire(checkpoint, "run-2", clock=clock) as lock:
        assert lock.took_over is not None
        assert lock.took_over.run_id == "other"
        assert lock.took_over.place.host == "elsewhere"
        assert content(checkpoint)["run_id"] == "run-2"


def test_an_owner_whose_clock_is_behind_is_heard_by_the_files_time(
    checkpoint: Path, clock: FakeClock
) -> None:
    plant(checkpoint, clock, heartbeat="2026-01-01T11:00:00+00:00")
    touch(checkpoint, datetime(2026, 1, 1, 11, 59, 30, tzinfo=UTC))
    found = problem(lambda: CheckpointLock.acquire(checkpoint, "run-2", clock=clock))
    assert found.params["seen"] == "2026-01-01T11:59:30+00:00"


def test_a_process_in_another_container_is_judged_by_its_heartbeat(
    checkpoint: Path, clock: FakeClock
) -> None:
    plant(checkpoint, clock, place={"host": socket.gethostname(), "pid_namespace": "pid:[1]"})
    code = problem(lambda: CheckpointLock.acquire(checkpoint, "run-2", clock=clock)).code
    assert code == "HW-CHECKPOINT-LOCKED-ELSEWHERE"


def test_after_a_restart_of_the_machine_nobody_waits(checkpoint: Path, clock: FakeClock) -> None:
    plant(checkpoint, clock, place={"host": socket.gethostname(), "boot_id": "the one before"})
    clock.moment += timedelta(seconds=30)
    clock.since_boot = 20
    with CheckpointLock.acquire(checkpoint, "run-2", clock=clock) as lock:
        assert lock.took_over is not None


def test_another_machine_of_the_same_name_is_heard(checkpoint: Path, clock: FakeClock) -> None:
    plant(checkpoint, clock, place={"host": socket.gethostname(), "boot_id": "of the twin"})
    clock.moment += timedelta(seconds=30)
    clock.since_boot = 40
    code = problem(lambda: CheckpointLock.acquire(checkpoint, "run-2", clock=clock)).code
    assert code == "HW-CHECKPOINT-LOCKED-ELSEWHERE"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0\0",
        "{",
        "[]",
        "7",
        "{}",
        '{"version":1}',
        '{"version":1,"token":"t","run_id":"r","user":"u","place":{"host":"h"}}',
        "[" * 100_000,
    ],
)
def test_half_a_lock_is_what_a_crash_left(checkpoint: Path, text: str) -> None:
    checkpoint.parent.mkdir()
    lock_file(checkpoint).write_text(text)
    with CheckpointLock.acquire(checkpoint, "run-1") as lock:
        assert lock.took_over is None
        assert content(checkpoint)["run_id"] == "run-1"


def test_a_time_without_its_zone_is_half_a_lock(checkpoint: Path, clock: FakeClock) -> None:
    plant(checkpoint, clock, since="2026-01-01T12:00:00")
    with CheckpointLock.acquire(checkpoint, "run-1", clock=clock) as lock:
        assert lock.took_over is None


def test_a_lock_of_another_version_is_not_touched(checkpoint: Path) -> None:
    checkpoint.parent.mkdir()
    lock_file(checkpoint).write_text('{"version":2}')
    found = problem(lambda: CheckpointLock.acquire(checkpoint, "run-1"), CheckpointError)
    assert found.code == "HW-LOCK-VERSION-UNSUPPORTED"
    assert found.params == {"file": str(lock_file(checkpoint)), "version": 2, "known": 1}
    assert lock_file(checkpoint).read_text() == '{"version":2}'


def test_a_starter_that_never_ends_makes_the_checkpoint_busy(checkpoint: Path, clock: FakeClock) -> None:
    checkpoint.parent.mkdir()
    with guard_in_other_hands(checkpoint):
        found = problem(lambda: CheckpointLock.acquire(checkpoint, "run-1", clock=clock))
    assert found.code == "HW-CHECKPOINT-BUSY"
    assert found.params["checkpoint"] == str(checkpoint)
    assert found.entry.retryable
    assert 30 <= clock.slept <= 31


def test_a_lock_that_goes_away_while_it_is_looked_at(checkpoint: Path) -> None:
    checkpoint.parent.mkdir()
    with CheckpointLock.acquire(checkpoint, "run-1", store=LateStore(checkpoint.parent)):
        assert content(checkpoint)["run_id"] == "run-1"


def test_a_full_disk_is_said_and_nothing_is_left(checkpoint: Path) -> None:
    store = FailingStore(checkpoint.parent, "create")
    found = problem(lambda: CheckpointLock.acquire(checkpoint, "run-1", store=store), CheckpointError)
    assert found.code == "HW-LOCK-UNUSABLE"
    assert found.params["file"] == str(lock_file(checkpoint))
    assert found.params["reason"] == "No space left on device"
    assert os.listdir(checkpoint.parent) == ["orders.lock.guard"]


def test_a_beat_that_fails_can_be_made_up_for(checkpoint: Path, clock: FakeClock) -> None:
    store = FailingStore(checkpoint.parent)
    with CheckpointLock.acquire(checkpoint, "run-1", store=store, clock=clock) as lock:
        store.broken = "replace"
        clock.moment += timedelta(seconds=10)
        found = problem(lock.heartbeat, CheckpointError)
        assert (found.code, found.entry.retryable) == ("HW-LOCK-UNUSABLE", True)
        store.broken = ""
        lock.heartbeat()
        assert content(checkpoint)["heartbeat"] == "2026-01-01T12:00:10+00:00"


def test_a_release_that_fails_does_not_hide_why_the_run_ended(checkpoint: Path) -> None:
    store = FailingStore(checkpoint.parent, "delete")
    with (
        pytest.raises(ZeroDivisionError),
        CheckpointLock.acquire(checkpoint, "run-1", store=store),
    ):
        raise ZeroDivisionError
    os.remove(lock_file(checkpoint))

    def run() -> None:
        with CheckpointLock.acquire(checkpoint, "run-1", store=store):
            pass

    assert problem(run, CheckpointError).code == "HW-LOCK-UNUSABLE"
