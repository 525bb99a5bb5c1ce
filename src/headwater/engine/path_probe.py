"""The driver's half of the path probe: probe files on local paths, and what the answers of executors mean.

The driver creates a file with a random name in each directory. Executors look for it and, where they will
write, create one of their own, for which the driver looks. A file, and a directory that the driver can't
write, is recognized by what the driver sees there.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from headwater.checks import Finding
from headwater.engine import probe_task
from headwater.engine.probe_task import Answer, Mark, Question, Reply
from headwater.errors import Entry, Place, Problem
from headwater.errors.catalogue.environment import PATH_NOT_SHARED, PATH_NOT_WRITABLE
from headwater.spec.paths import is_uri, plain_path

_PREFIX = ".headwater-probe-"
"""Spark reads no file whose name begins with a dot."""
_MOST_MARKS = 100
_MOST_HOSTS = 5
_UNSEEN = "the driver does not see the files that it creates there"


@dataclass(frozen=True)
class LocalPath:
    """A path on the driver that executors use, and who declared it."""

    written: str
    """The path, with `file:` before it if it was declared so."""
    use: str
    """The beginning of a sentence that ends with the path."""
    key: str
    """The key or option that sets it."""
    place: Place | None
    writes: bool = False
    """Whether executors create files there."""
    created: bool = False
    """Whether the driver creates the directory when the run starts."""
    sink: str = ""

    @property
    def path(self) -> str:
        return plain_path(self.written)

    def is_on_disk(self, default: str) -> bool:
        """Whether Spark takes it as a local path, where `default` is the file system of plain paths."""
        return self.written.startswith("file:") or (default.startswith("file:") and not is_uri(self.written))

    def problem(self, entry: Entry, reasons: Mapping[str, str]) -> Problem:
        """What is wrong with it, by the names of hosts."""
        shown = [f"{host} ({reason})" for host, reason in islice(sorted(reasons.items()), _MOST_HOSTS)]
        more = len(reasons) - len(shown)
        hosts = ", ".join([*shown, *([f"and {more} more"] if more else [])])
        return entry.at(self.place, use=self.use, path=self.path, hosts=hosts, key=self.key)


@dataclass(frozen=True)
class Probe:
    """Everything that was created to ask about some paths, until it is removed."""

    paths: list[LocalPath]
    questions: list[Question] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """Files of executors that the driver does not see, or can't remove."""

    @classmethod
    @contextmanager
    def placed(cls, paths: list[LocalPath]) -> Iterator[Probe]:
        """Create the probe files; everything that the driver can remove is removed afterwards."""
        probe = cls(paths)
        try:
            for path in paths:
                probe.questions.append(_question(path, probe.directories))
            yield probe
        finally:
            probe.left.extend(file for each in probe.questions if each.probe for file in _removed(each))
            for directory in reversed(probe.directories):
                with suppress(OSError):
                    os.rmdir(directory)

    def findings(self, answers: list[Answer]) -> Iterator[Finding]:
        """What the answers have against each path, by hosts."""
        for number, (path, question) in enumerate(zip(self.paths, self.questions, strict=True)):
            replies = [(host, each[number]) for (host, _), each in answers]
            yield from self._against(path, question, replies)

    def _against(
        self, path: LocalPath, question: Question, replies: list[tuple[str, Reply]]
    ) -> Iterator[Finding]:
        not_shared: dict[str, str] = {}
        not_writable: dict[str, str] = {}
        for host, (unshared, created, refused) in replies:
            file = os.path.join(path.path, created)
            if unshared:
                reason, names = unshared
                # What has changed meanwhile on the driver, too, says nothing.
                if not names or any(map(question.is_unchanged, names)):
                    not_shared[host] = reason
            elif refused:
                not_writable[host] = refused
            elif created and not os.path.lexists(file):
                not_shared[host] = _UNSEEN
                self.left.append(file)
        for entry, hosts in ((PATH_NOT_SHARED, not_shared), (PATH_NOT_WRITABLE, not_writable)):
            if hosts:
                yield Finding(path.problem(entry, hosts), sink=path.sink)


def _question(path: LocalPath, made: list[str]) -> Question:
    """How to ask about a path; a directory that a start would create is created now, as that would be."""
    above = (Path(path.path), *Path(path.path).parents)
    # `Path.exists` raises an error where the driver cannot look, such as below an unreadable directory.
    missing = [str(each) for each in above if not os.path.exists(each)]
    probe = f"{_PREFIX}{uuid.uuid4().hex}"
    try:
        for directory in reversed(missing) if path.created else ():
            os.mkdir(directory)
            made.append(directory)
        with open(os.path.join(path.path, probe), "x", encoding="utf-8"):
            return Question(path.path, probe, {}, path.writes)
    except OSError:
        # It is a file, or a directory that the driver only reads. What it can't even create, it will report.
        there = Path(missing[-1]).parent if missing else Path(path.path)
        return Question(str(there), "", {} if missing else _marks(path.path), writes=False)


def _marks(path: str) -> dict[str, Mark]:
    """What there is to recognize: the file itself, what the directory contains, or the empty directory."""
    try:
        if not os.path.isdir(path):
            return {"": probe_task.mark(path)}
        with os.scandir(path) as entries:
            marks = {entry.name: probe_task.mark(entry.path) for entry in islice(entries, _MOST_MARKS)}
        return marks or {"": probe_task.own_mark(path)}
    except OSError:
        # It went meanwhile, or the driver can't read it: Spark will say so.
        return {}


def _removed(question: Question) -> list[str]:
    """Remove the probe and what executors created beside it; what could not be removed."""
    left: list[str] = []
    with suppress(OSError):
        listed = os.listdir(question.path) if question.writes else [question.probe]
        names = [name for name in listed if name.startswith(question.probe)]
        for file in (os.path.join(question.path, name) for name in names):
            try:
                os.remove(file)
            except FileNotFoundError:
                continue
            except OSError:
                left.append(file)
    return left
