"""The executor's half of the path probe: is a local path here the same as on the driver?

Tasks run this module where Headwater may not be installed, so it imports only the standard library and
returns plain tuples.
"""

from __future__ import annotations

import os
import socket
import stat
import uuid
from collections.abc import Iterable
from typing import NamedTuple

Mark = tuple[int, int]
"""Size and time of a file; a directory has the size -1."""

NO_DIRECTORY, NO_FILE = "no such directory", "no such file"
OTHER_DIRECTORY, OTHER_FILE = "a different directory of the same name", "a different file of the same name"


class Question(NamedTuple):
    """One path, and how an executor recognizes it."""

    path: str
    probe: str
    """A file that the driver has created in this directory; empty if it could not."""
    marks: dict[str, Mark]
    """Without a probe: what the driver sees there, by name; an empty name is the path itself."""
    writes: bool
    """Whether executors create files there."""

    def is_unchanged(self, name: str) -> bool:
        """Whether the entry with this name looks the same here as on the driver."""
        path = os.path.join(self.path, name) if name else self.path
        try:
            now = own_mark(path) if not name and os.path.isdir(path) else mark(path)
        except OSError:
            return False
        return now == self.marks[name]


Unshared = tuple[str, tuple[str, ...]]
"""Why a path is not shared, and the names whose marks showed it."""
Reply = tuple[Unshared | None, str, str]
"""Why the path is not shared; the name of the file that was created there; why none could be."""
Answer = tuple[tuple[str, int], list[Reply]]
"""The executor, by host and process, and one reply per question."""


def answer(questions: list[Question], _: Iterable[int]) -> list[Answer]:
    """What the executor of this task sees."""
    # Python workers are children of a process that belongs to one executor.
    executor = (socket.gethostname(), os.getppid())
    return [(executor, [_reply(question) for question in questions])]


def remove(files: list[str], _: Iterable[int]) -> list[Answer]:
    """Remove files that executors have created and the driver could not remove."""
    for file in files:
        try:
            os.remove(file)
        except OSError:
            continue
    return [((socket.gethostname(), os.getppid()), [])]


def mark(path: str) -> Mark:
    """How a file is recognized; for a directory, only that it is one."""
    found = os.stat(path)
    # Network file systems truncate fractions of a second.
    return (-1, 0) if stat.S_ISDIR(found.st_mode) else (found.st_size, int(found.st_mtime))


def own_mark(directory: str) -> Mark:
    """How an empty directory is recognized."""
    return -1, os.stat(directory).st_mtime_ns


def _reply(question: Question) -> Reply:
    unshared = _unshared(question)
    if unshared or not question.writes or not question.probe:
        return unshared, "", ""
    name = f"{question.probe}.{uuid.uuid4().hex}"
    try:
        with open(os.path.join(question.path, name), "x", encoding="utf-8"):
            return None, name, ""
    except OSError as error:
        return None, "", os.strerror(error.errno or 0)


def _unshared(question: Question) -> Unshared | None:
    is_file = question.marks.get("", (-1, 0))[0] >= 0
    try:
        os.stat(question.path)
        if question.probe:
            os.stat(os.path.join(question.path, question.probe))
    except (FileNotFoundError, NotADirectoryError):
        if os.path.isdir(question.path):
            return OTHER_DIRECTORY, ()
        return (NO_FILE if is_file else NO_DIRECTORY), ()
    except OSError as error:
        return os.strerror(error.errno or 0), ()
    different = tuple(name for name in question.marks if not question.is_unchanged(name))
    return ((OTHER_FILE if is_file else OTHER_DIRECTORY), different) if different else None
