"""Values of a test file, read node by node; what is wrong is collected, with its line and what to write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import UTC, date
from pathlib import Path
from typing import TypeVar

from headwater.engine.scripted.reading import BadRow, Reading
from headwater.engine.scripted.times import read_time
from headwater.errors import PipelineError, Problem, shown_file
from headwater.errors.catalogue.pipelines import UNKNOWN_KEY, WRONG_VALUE
from headwater.errors.catalogue.testing_files import TEST_PIPELINE, TEST_ROW, TEST_ROW_FILE
from headwater.loaders.yaml_nodes import MappingNode, Node, Pair, ScalarNode, SequenceNode
from headwater.testing.row_files import read_rows
from headwater.testing.steps import Row, Rows
from headwater.values import Position, nearest

T = TypeVar("T")

PIPELINE_FILES = (".yml", ".yaml", ".py")
ROW_FILES = (".jsonl", ".json", ".csv")
ROWS_EXAMPLE = "[{word: owl, n: 1}]"
_ANY_DAY = Reading(date(2026, 1, 1), UTC)


class Reader:
    """Reads the values of one test file; `problems` holds all that was wrong with them."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def wrong(self, pair: Pair, says: str, hint: str) -> None:
        """The value of a key is not what is wanted."""
        self.problems.append(WRONG_VALUE.at(place_of(pair), what=f"`{pair.key}`", says=says, hint=hint))

    def wanted(self, pair: Pair, wanted: str, example: str) -> None:
        """The value of a key is of another kind than the one that is wanted."""
        found = "nothing" if is_nothing(pair.node) else _found(pair.node)
        self.wrong(pair, f"{wanted} is wanted here, and there is {found}", f"Write `{example}`.")

    def unknown(self, mapping: MappingNode, known: Iterable[str], where: str) -> None:
        """A problem for each key that is not known here, with the nearest one that is."""
        known = tuple(known)
        for pair in mapping.pairs:
            if pair.key not in known:
                meant = nearest(pair.key, known)
                hint = f"Did you mean `{meant}`?" if meant else f"It takes: {', '.join(known)}."
                problem = UNKNOWN_KEY.at(pair.key_position, key=pair.key, where=where, hint=hint)
                self.problems.append(problem)

    def pairs(self, pair: Pair, example: str) -> tuple[Pair, ...]:
        """The names under a key; none where it holds something else."""
        if isinstance(pair.node, MappingNode):
            return pair.node.pairs
        self.wanted(pair, "a mapping by name", example)
        return ()

    def by_name(self, pair: Pair, example: str, read: Callable[[Pair], T | None]) -> dict[str, T]:
        """What a key says of each name."""
        found = {each.key: read(each) for each in self.pairs(pair, example)}
        return {name: value for name, value in found.items() if value is not None}

    def text(self, pair: Pair, example: str) -> str | None:
        """A text, as it was written."""
        if isinstance(pair.node, ScalarNode) and isinstance(pair.node.resolved, str):
            return pair.node.resolved
        self.wanted(pair, "text", example)
        return None

    def number(self, pair: Pair, example: str) -> int | None:
        """A whole number from 0."""
        value = pair.node.value
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        self.wanted(pair, "a whole number", example)
        return None

    def truth(self, pair: Pair) -> bool | None:
        """True or false."""
        value = pair.node.value
        if isinstance(value, bool):
            return value
        self.wanted(pair, "true or false", f"{pair.key}: false")
        return None

    def time(self, pair: Pair, example: str) -> str | None:
        """A time as it was written; the pipeline's zone, in which it is meant, is known later."""
        if is_nothing(pair.node):
            self.wanted(pair, "a time", example)
            return None
        try:
            read_time(pair.node.value, _ANY_DAY)
        except BadRow as error:
            self.wrong(pair, error.says, f"Write `{example}`.")
            return None
        return str(pair.node.value)

    def rows(self, pair: Pair, where: str) -> Rows | None:
        """A list of rows, or the rows of a file beside the test."""
        if isinstance(pair.node, SequenceNode):
            return [row for row in (self.row(node, where) for node in pair.node.children) if row]
        text = pair.node.value
        if isinstance(text, str) and text.endswith(ROW_FILES):
            return self._rows_of_file(text, place_of(pair), where)
        example = f"{pair.key}: {ROWS_EXAMPLE}` or, for no rows, `{pair.key}: []"
        self.wanted(pair, f"a list of rows, or a file of them ({', '.join(ROW_FILES)}),", example)
        return None

    def row(self, node: Node, where: str) -> Row | None:
        """One row: by column, or in the order of the columns."""
        if isinstance(node, MappingNode | SequenceNode):
            return Row(node.value, node.position)
        self.problems.append(TEST_ROW.at(node.position, where=where, kind=_found(node)))
        return None

    def path(self, written: str) -> Path:
        """A path from the folder of the test file."""
        return Path(os.path.abspath(self.file.parent / written))

    def pipeline(self, pair: Pair, written: str) -> Path:
        """A pipeline file; `pipeline.py:name` picks one of several in a Python file."""
        stem, colon, name = written.partition(".py:")
        path = self.path(f"{stem}.py" if colon else written)
        if not path.is_file():
            hint = missing_hint(path, self.file, PIPELINE_FILES)
            problem = TEST_PIPELINE.at(place_of(pair), file=shown_file(str(path)), hint=hint)
            self.problems.append(problem)
        return Path(f"{path}:{name}") if colon else path

    def collected(self, read: Callable[[], T]) -> T | None:
        """What a reader of another file gives; what is wrong there is told together with the rest."""
        try:
            return read()
        except PipelineError as error:
            self.problems += error.problems
            return None

    def _rows_of_file(self, written: str, place: Position, where: str) -> Rows | None:
        path = self.path(written)
        if path.is_file():
            return self.collected(lambda: read_rows(path))
        hint = missing_hint(path, self.file, ROW_FILES)
        self.problems.append(TEST_ROW_FILE.at(place, file=shown_file(str(path)), where=where, hint=hint))
        return None


def is_nothing(node: Node) -> bool:
    """Whether a key stands there without a value."""
    return isinstance(node, ScalarNode) and node.resolved is None


def place_of(pair: Pair) -> Position:
    """Where a value stands; an empty one stands nowhere, so its key has to do."""
    return pair.key_position if is_nothing(pair.node) else pair.node.position


def missing_hint(path: Path, file: Path, suffixes: tuple[str, ...]) -> str:
    """What a path that leads nowhere may stand for, written as the test file would have it."""
    beside = "Paths are read from the folder of the test file."
    if not path.parent.is_dir():
        return f"{beside} There is no folder {path.parent} either."
    names = [each.name for each in path.parent.iterdir() if each.suffix in suffixes]
    close = nearest(path.name, names)
    if close is None:
        return f"{beside} See what is there: `ls {path.parent}`."
    written = os.path.relpath(path.parent / close, os.path.abspath(file.parent))
    return f"{beside} Did you mean `{Path(written).as_posix()}`?"


def _found(node: Node) -> str:
    """What stands there, in words for a sentence."""
    if isinstance(node, ScalarNode) and node.resolved is not None:
        return f"`{node.text.splitlines()[0]}`" if node.text.strip() else "an empty text"
    return node.kind
