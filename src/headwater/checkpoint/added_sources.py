"""Letting a checkpoint know of sources that its query did not have before.

Spark numbers the sources of a query by their order, keeps `sources/<number>/` for each, and writes a line
for each into `offsets/N`. A query with one source more is refused. Here the checkpoint is made anew beside
the old one: lines with `-` (nothing read yet) for the added sources, and the folders of the others under
their new numbers. Everything else is linked, not copied.

    checkpoints/orders.next/    being made; without `complete` it is worth nothing and is made again
    checkpoints/orders/         moved to the backup, then `orders.next` takes its name

A crash between the two last steps leaves no `orders/`; the next start sees the complete `orders.next` and
ends the work. Nothing of the old checkpoint is ever changed. All of the new one is on the disk before
`complete` is, and that before anything is moved: also a power failure leaves one of the two whole.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from headwater.checkpoint.batches import NUMBER, DamagedFileError, content, json_value, lines_of
from headwater.checkpoint.store import LocalStore, Store, sync_folder
from headwater.errors import CheckpointError
from headwater.errors.catalogue.checkpoints import INPUTS_DAMAGED, SOURCES_NOT_ADDED

_COMPLETE = "complete"
_INPUTS = "headwater-inputs.json"
_NOTHING_YET = "-"


def added(before: Sequence[str], now: Sequence[str]) -> list[int | None] | None:
    """For each source of now its place before, None for an added one; None if more than that has changed."""
    places: list[int | None] = []
    left = list(before)
    for name in now:
        if left and left[0] == name:
            places.append(len(before) - len(left))
            left.pop(0)
        else:
            places.append(None)
    return None if left else places


def inputs_known(checkpoint: Path) -> tuple[str, ...] | None:
    """The sources of a checkpoint that was made here, by their names; None for one that Spark made."""
    store = LocalStore(checkpoint)
    data = content(store, _INPUTS)
    try:
        return None if data is None else _names(data)
    except DamagedFileError as damage:
        problem = INPUTS_DAMAGED.at(file=store.locate(_INPUTS), reason=str(damage))
        raise CheckpointError(problem) from damage


def add_sources(checkpoint: Path, before: Sequence[str], now: Sequence[str], backup: Path) -> None:
    """Make a checkpoint with the sources `before` one with those of `now`; the old one is kept as `backup`.

    A crash may come before anyone else has noted the new sources, so the checkpoint itself lists them.
    """
    places = added(before, now)
    following = following_of(checkpoint)
    try:
        if places is None:
            raise ValueError(f"its sources were {', '.join(before)}, and are {', '.join(now)}")
        if following.exists():
            shutil.rmtree(following)
        shutil.copytree(checkpoint, following, copy_function=_linked, ignore=_numbered(checkpoint))
        made = LocalStore(following)
        _write_offsets(checkpoint / "offsets", made, places)
        _place_sources(checkpoint / "sources", following / "sources", places)
        made.replace(_INPUTS, json.dumps(list(now)).encode())
        for folder, _, _ in os.walk(following):
            sync_folder(Path(folder))
        made.replace(_COMPLETE, b"")
        backup.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.rename(backup)
        sync_folder(backup.parent)
        finish_adding(checkpoint)
    except (OSError, ValueError) as error:
        problem = SOURCES_NOT_ADDED.at(folder=str(checkpoint), reason=str(error))
        raise CheckpointError(problem) from error


def finish_adding(checkpoint: Path) -> None:
    """End what a crash interrupted: a complete new checkpoint takes the place of the one that was moved."""
    following = following_of(checkpoint)
    if checkpoint.exists() or not (following / _COMPLETE).exists():
        return
    following.rename(checkpoint)
    sync_folder(checkpoint.parent)
    LocalStore(checkpoint).delete(_COMPLETE)


def following_of(checkpoint: Path) -> Path:
    """Where the checkpoint is made that is to take its place."""
    return checkpoint.with_name(f"{checkpoint.name}.next")


def _names(data: bytes) -> tuple[str, ...]:
    names = json_value("\n".join(lines_of(data)))
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DamagedFileError("it is no list of names")
    return tuple(names)


def _numbered(checkpoint: Path) -> Callable[[str, list[str]], list[str]]:
    """What is not taken over as it is: the offsets, the folders of the sources, and an older list of them."""
    changed = (checkpoint / "offsets", checkpoint / "sources")

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [
            name for name in names if Path(folder) in changed or Path(folder, name) == checkpoint / _INPUTS
        ]

    return left_out


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
        with open(target, "rb") as copied:
            os.fsync(copied.fileno())


def _write_offsets(before: Path, made: Store, places: Sequence[int | None]) -> None:
    for file in before.iterdir():
        if not NUMBER.fullmatch(file.name):
            continue
        version, metadata, *lines = file.read_text(encoding="utf-8").split("\n")
        known = sum(place is not None for place in places)
        if version != "v1" or len(lines) != known:
            raise ValueError(f"{file} is of version {version} and has {len(lines)} sources, not {known}")
        placed = [_NOTHING_YET if place is None else lines[place] for place in places]
        made.replace(f"offsets/{file.name}", "\n".join((version, metadata, *placed)).encode())


def _place_sources(before: Path, now: Path, places: Sequence[int | None]) -> None:
    for number, place in enumerate(places):
        if place is not None and (before / str(place)).is_dir():
            shutil.copytree(before / str(place), now / str(number), copy_function=_linked)
