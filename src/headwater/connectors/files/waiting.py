"""What lies in a folder before the first batch: counted quickly, and not to the end of a very full one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from headwater.connectors.files.partition_folders import is_hidden
from headwater.spec import OptionValue, Waiting
from headwater.spec.globs import local_matches
from headwater.spec.paths import is_uri

MOST = 20_000
"""So many files of a path are looked at; that is a fraction of a second."""

KEYS = {"max_files_per_batch": "maxfilespertrigger", "max_bytes_per_batch": "maxbytespertrigger"}
"""What limits a batch, each with the option of Spark that it is."""


def waiting_at(
    globs: Iterable[str], limits: Mapping[str, int | None], options: Mapping[str, OptionValue]
) -> Waiting | None:
    """What is to be read there under these limits; None for what is on no disk of this machine."""
    if any(is_uri(glob) for glob in globs):
        return None
    found = [list(islice(sizes(glob), MOST + 1)) for glob in globs]
    key, limit = _limit(limits, options)
    return Waiting(
        files=sum(min(len(each), MOST) for each in found),
        bytes=sum(sum(each[:MOST]) for each in found),
        more=any(len(each) > MOST for each in found),
        keys=tuple(KEYS),
        limit=key,
        at_most=limit,
        # Each path is read by itself, so that the fullest one decides.
        batches=max((_batches(key, limit, each) for each in found), default=1),
    )


def sizes(pattern: str) -> Iterator[int]:
    """The sizes of the files that a stream over a path would read."""
    for start in local_matches(pattern):
        if os.path.isdir(start):
            yield from _below(start)
        elif not is_hidden(os.path.basename(start)):
            yield os.path.getsize(start)


def _below(folder: str) -> Iterator[int]:
    """In a folder and in its key=value folders; nothing is read from others."""
    try:
        entries = os.scandir(folder)
    except OSError:
        # A folder that can't be listed is told where it matters, when Spark reads it.
        return
    with entries:
        for entry in entries:
            if is_hidden(entry.name):
                continue
            try:
                if not entry.is_dir():
                    yield entry.stat().st_size
                elif "=" in entry.name:
                    yield from _below(entry.path)
            except FileNotFoundError:
                # It was there a moment ago.
                continue


def ignored_at(globs: Iterable[str]) -> tuple[str, ...]:
    """The directories below these paths that are not read, as far as a quick look finds them."""
    starts = [start for glob in globs if not is_uri(glob) for start in local_matches(glob)]
    return tuple(sorted({found for start in starts for found in islice(_ignored(start), MOST)}))


def _ignored(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            below = [
                each.path for each in islice(entries, MOST) if each.is_dir() and not is_hidden(each.name)
            ]
    except OSError:
        # A file, or a directory that can't be listed: Spark says so where it matters.
        return
    # Beside key=value directories, a file in another one fails the query.
    if not any("=" in os.path.basename(each) for each in below):
        yield from below


def _limit(limits: Mapping[str, int | None], options: Mapping[str, OptionValue]) -> tuple[str, int]:
    given = {name.lower(): value for name, value in options.items()}
    for key, option in KEYS.items():
        written = given.get(option)
        if limits.get(key):
            return key, limits[key] or 0
        if isinstance(written, str) and written.isdigit() and int(written):
            return key, int(written)
    return "", 0


def _batches(key: str, limit: int, found: list[int]) -> int:
    taken = sum(found) if key == "max_bytes_per_batch" else len(found)
    return max(1, -(-taken // limit)) if limit else 1
