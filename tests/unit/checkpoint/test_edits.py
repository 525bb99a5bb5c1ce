"""Edits of a checkpoint: killed after every single file operation, and compared with what was always written.

`tests/golden/checkpoint_edits.json` holds checkpoints before and after each editor, recorded when every one
of them wrote its files itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.checkpoint import CheckpointEdit, LocalStore, Store
from headwater.checkpoint.editors import (
    NewFile,
    add_sources,
    alignment,
    change_files,
    change_source,
    convert_trigger,
    exchange,
    forget_start,
    inputs_known,
    reset,
    swap_in_sources,
    take_back_commit,
)
from headwater.checkpoint.edits import checksum_of, finish_swap

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "checkpoint_edits.json").read_text("utf-8"))
MADE = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'
Files = dict[str, bytes]


class Killed(BaseException):
    """The process is gone."""


class Machine:
    """Counts file operations and ends before the n-th."""

    def __init__(self, operations: int = 1_000_000) -> None:
        self.left = operations

    def work(self) -> None:
        if not self.left:
            raise Killed
        self.left -= 1


class MemoryStore:
    """Files in a dict."""

    def __init__(self, files: Files, machine: Machine | None = None) -> None:
        self.files = files
        self.machine = machine or Machine()

    def locate(self, name: str) -> str:
        return f"/{name}"

    def names(self, folder: str) -> tuple[str, ...]:
        prefix = f"{folder}/" if folder else ""
        below = [name.removeprefix(prefix) for name in self.files if name.startswith(prefix)]
        return tuple(sorted({name.partition("/")[0] for name in below}))

    def read(self, name: str) -> bytes:
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def exists(self, name: str) -> bool:
        return name in self.files

    def modified(self, name: str) -> float:
        return 0.0

    def create(self, name: str, data: bytes) -> bool:
        raise NotImplementedError

    def replace(self, name: str, data: bytes) -> None:
        self.machine.work()
        self.files[name] = data

    def delete(self, name: str) -> None:
        self.machine.work()
        self.files.pop(name, None)

    def delete_tree(self, name: str) -> None:
        for each in [each for each in self.files if each == name or each.startswith(f"{name}/")]:
            self.delete(each)

    def make_folder(self, name: str) -> None:
        """There are none."""


def killed_at_each_step(run: Callable[[Machine], None]) -> Iterator[None]:
    """Run with a kill before the first operation, the second one and so on; once more without."""
    for operations in range(1000):
        try:
            run(Machine(operations))
        except Killed:
            yield
        else:
            yield
            return
    raise AssertionError("it never ends")


NAMES = st.sampled_from(["metadata", "offsets/1", "offsets/2", "commits/1", "sources/0/0"])
BYTES = st.binary(max_size=3)
BEFORE = st.dictionaries(NAMES, st.tuples(BYTES, st.booleans()))
AFTER = st.lists(st.tuples(NAMES, st.none() | BYTES), unique_by=lambda each: each[0]).map(dict)


def with_checksums(files: dict[str, tuple[bytes, bool]]) -> Files:
    sums = {checksum_of(name): b"crc" for name, (_, has_sum) in files.items() if has_sum}
    return {**{name: data for name, (data, _) in files.items()}, **sums}


@given(BEFORE, AFTER)
def test_a_kill_at_any_point_and_the_same_edit_again(
    files: dict[str, tuple[bytes, bool]], after: dict[str, bytes | None]
) -> None:
    before = with_checksums(files)
    edit = CheckpointEdit.of(MemoryStore(before), after)
    wanted = MemoryStore(dict(before))
    edit.apply(wanted)
    assert {name: wanted.files.get(name) for name in after} == after
    changed = [name for name in after if files.get(name, (None,))[0] != after[name]]
    assert not any(checksum_of(name) in wanted.files for name in changed)

    found, kept = dict(before), Files()

    def run(machine: Machine) -> None:
        found.clear()
        found.update(before)
        kept.clear()
        edit.apply(MemoryStore(found, machine), MemoryStore(kept, machine))

    for _ in killed_at_each_step(run):
        # Nothing is touched before all that is old is kept.
        old = {change.name: change.before for change in edit.changes if change.before is not None}
        assert found == before or kept == old
        # At no time has a file that was changed the checksum of what it was.
        for name in changed:
            assert found.get(name) == before.get(name) or checksum_of(name) not in found
        edit.apply(MemoryStore(found), MemoryStore(kept))
        assert (found, kept) == (wanted.files, old)


def to_start(offsets: Any) -> Any:
    return {**offsets, "clicks": {"0": 0, "1": 0}} if "clicks" in offsets else offsets


def converted(store: Store, *, continuous: bool) -> CheckpointEdit:
    return convert_trigger(store, alignment(store, continuous=continuous), lambda: MADE)


def exchanged(store: Store) -> CheckpointEdit | None:
    old = frozenset({"file:///out/a", "file:///out/b"})
    return exchange(store, 9, {NewFile("new", 2, 6, "file:///out/a"): old})


MOVED = {"file:///in/b": "file:///kept/x", "file:///in/a": "file:///never"}
EDITORS: dict[str, Callable[[Store], CheckpointEdit | None]] = {
    "batches after a crash in epochs": lambda store: converted(store, continuous=False),
    "batches after epochs, never a batch": lambda store: converted(store, continuous=False),
    "epochs after a batch that did not end": lambda store: converted(store, continuous=True),
    "no epoch was committed": lambda store: converted(store, continuous=False),
    "source: committed": lambda store: change_source(store, 1, to_start),
    "source: planned": lambda store: change_source(store, 1, to_start),
    "source: first batch": lambda store: change_source(store, 1, to_start),
    "source: version 2": lambda store: change_source(store, 1, to_start),
    "files: planned": lambda store: change_files(store, 0, MOVED),
    "sink log": exchanged,
    "reset": reset,
    "forgotten start": lambda store: forget_start(store, [1]),
    "start that counts": lambda store: forget_start(store, [1]),
    "taken back commit": take_back_commit,
}


def recorded(case: str, when: str) -> Files:
    return {name: text.encode() for name, text in GOLDEN[case][when].items()}


def test_every_recorded_case_is_compared() -> None:
    assert {*EDITORS, "added sources"} == GOLDEN.keys()


@pytest.mark.parametrize("case", EDITORS)
def test_an_editor_writes_what_it_always_wrote(case: str) -> None:
    """Also after a kill at any point, when the next start reads the checkpoint and edits it again."""
    before, after, found = recorded(case, "before"), recorded(case, "after"), Files()

    def run(machine: Machine) -> None:
        found.clear()
        found.update(before)
        store = MemoryStore(found, machine)
        edit = EDITORS[case](store)
        assert edit is not None
        edit.apply(store)

    for _ in killed_at_each_step(run):
        # A commit that is taken back is the crash itself: a test that is killed there starts anew.
        again = EDITORS[case](MemoryStore(found)) if found != after else None
        if again is not None:
            again.apply(MemoryStore(found))
        assert found == after


def put(root: Path, files: Files) -> None:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def read(root: Path) -> Files:
    return {
        each.relative_to(root).as_posix(): each.read_bytes() for each in root.rglob("*") if each.is_file()
    }


@contextmanager
def working_on(machine: Machine) -> Iterator[None]:
    """Whatever changes a file or a name is an operation of the machine."""

    def counted(really: Callable[..., Any]) -> Callable[..., Any]:
        def work(*given: Any, **named: Any) -> Any:
            machine.work()
            return really(*given, **named)

        return work

    with pytest.MonkeyPatch.context() as patch:
        for name in ("link", "replace", "rename", "unlink", "mkdir"):
            patch.setattr(os, name, counted(getattr(os, name)))
        yield


def test_a_swap_writes_what_it_always_wrote(tmp_path: Path) -> None:
    before, after = recorded("added sources", "before"), recorded("added sources", "after")
    then, now = ("a", "b"), ("a", "a.again", "b", "b.again")
    edit = add_sources(MemoryStore(before), then, now)
    numbers = iter(range(1000))
    place = tmp_path

    def run(machine: Machine) -> None:
        nonlocal place
        place = tmp_path / str(next(numbers))
        put(place / "checkpoint", before)
        with working_on(machine):
            edit.swap(place / "checkpoint", place / "backups" / "1")

    for _ in killed_at_each_step(run):
        checkpoint, backups = place / "checkpoint", place / "backups"
        finish_swap(checkpoint)
        if inputs_known(LocalStore(checkpoint)) is None:
            assert read(checkpoint) == before
            swap_in_sources(checkpoint, then, now, backups / "1")
        assert read(checkpoint) == after
        assert read(backups / "1") == before
