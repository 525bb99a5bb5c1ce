"""Test files in directories, and the selection of tests by name (`-k`)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from headwater.errors import UsageError
from headwater.errors.catalogue.testing import TEST_PATH_NOT_FOUND, TEST_SELECTION_INVALID
from headwater.values import nearest

PATTERNS = ("test_*.yml", "test_*.yaml", "*_test.yml", "*_test.yaml")
SKIPPED = {"node_modules", "__pycache__"}
_KEYS = tuple(re.compile(rf"^[\"']?{key}[\"']?[ \t]*:", re.MULTILINE) for key in ("pipeline", "tests"))
_MOST_BYTES = 1024 * 1024
_TOKEN = re.compile(r"\s*(?:([()])|'([^']*)'|\"([^\"]*)\"|([^\s()'\"]+))")

Choice = Callable[[str], bool]


def find_tests(paths: Sequence[Path]) -> list[Path]:
    """Files as given, and the test files of directories, each once."""
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise UsageError.of(
            [TEST_PATH_NOT_FOUND.at(None, path=str(path), hint=_hint(path)) for path in missing]
        )
    found: dict[str, Path] = {}
    for path in paths:
        for file in sorted(_below(path)) if path.is_dir() else [path]:
            found.setdefault(os.path.realpath(file), file)
    return list(found.values())


def is_test_file(file: Path) -> bool:
    """Whether a file has the name and the content of a test file."""
    if not any(fnmatch(file.name, pattern) for pattern in PATTERNS):
        return False
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return False
    return all(key.search(text) for key in _KEYS)


def _below(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        # Hidden directories contain no tests: `.venv`, `.git`, run directories.
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
        yield from (file for file in (Path(place, name) for name in names) if is_test_file(file))


def _hint(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"Check the path: directory {folder} does not exist."
    close = nearest(path.name, (entry.name for entry in folder.iterdir()))
    return f"Did you mean {folder / close}?" if close else f"List the existing files: `ls {folder}`."


def chosen(expression: str) -> Choice:
    """Whether a name matches an expression of words, `and`, `or`, `not` and parentheses.

    A word matches anywhere in the name, regardless of case; words without an operator between them are one
    phrase.
    """
    return _Selection(expression).choice()


class _Selection:
    """Reads one expression from left to right."""

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.tokens = list(_tokens(expression))
        self.at = 0

    def choice(self) -> Choice:
        if not self.tokens:
            raise self._bad("it is empty")
        choice = self._any()
        if self.at < len(self.tokens):
            raise self._bad(f"unexpected `{self.tokens[self.at][0]}`")
        return choice

    def _any(self) -> Choice:
        parts = [self._all()]
        while self._took("or"):
            parts.append(self._all())
        return lambda name: any(part(name) for part in parts)

    def _all(self) -> Choice:
        parts = [self._one()]
        while self._took("and"):
            parts.append(self._one())
        return lambda name: all(part(name) for part in parts)

    def _one(self) -> Choice:
        if self._took("not"):
            inner = self._one()
            return lambda name: not inner(name)
        if self._took("("):
            inner = self._any()
            if not self._took(")"):
                raise self._bad("a `)` is missing")
            return inner
        return self._phrase()

    def _phrase(self) -> Choice:
        words: list[str] = []
        while self.at < len(self.tokens) and self.tokens[self.at][1]:
            words.append(self.tokens[self.at][0])
            self.at += 1
        if not words:
            before = f"before `{self.tokens[self.at][0]}`" if self.at < len(self.tokens) else "at the end"
            raise self._bad(f"a word is missing {before}")
        phrase = " ".join(words).lower()
        return lambda name: phrase in " ".join(name.split()).lower()

    def _took(self, operator: str) -> bool:
        there = self.at < len(self.tokens) and self.tokens[self.at] == (operator, False)
        self.at += there
        return there

    def _bad(self, says: str) -> UsageError:
        return UsageError(TEST_SELECTION_INVALID.at(None, expression=self.expression, says=says))


def _tokens(expression: str) -> Iterator[tuple[str, bool]]:
    """Operators and words; True for a word."""
    for token in _TOKEN.finditer(expression):
        bracket, single, double, bare = token.groups()
        if bracket:
            yield bracket, False
        elif bare is not None and bare.lower() in ("and", "or", "not"):
            yield bare.lower(), False
        else:
            yield next(part for part in (single, double, bare) if part is not None), True
