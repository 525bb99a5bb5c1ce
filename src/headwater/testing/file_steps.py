"""The steps of a test as they are written in a test file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date
from pathlib import Path
from typing import Any, TypeVar

from headwater.errors import PipelineError, Problem, shown_file
from headwater.errors.catalogue.pipelines import UNKNOWN_KEY, WRONG_VALUE
from headwater.errors.catalogue.testing import (
    TEST_PIPELINE,
    TEST_ROW,
    TEST_ROW_FILE,
    TEST_STEP_EMPTY,
    TEST_STEP_WORD,
    TEST_TWO_ACTIONS,
)
from headwater.loaders.yaml_nodes import MappingNode, Node, Pair, ScalarNode, SequenceNode
from headwater.scripted.times import BadRow, Reading, read_time
from headwater.testing.row_files import read_rows
from headwater.testing.steps import (
    Advance,
    ChangeTo,
    Check,
    Crash,
    Feed,
    Restart,
    Row,
    Rows,
    Start,
    Step,
    Stop,
)
from headwater.values import Duration, Position, nearest

# Values of a test file, read node by node; what is wrong is collected, with its line and what to write.

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


WORDS: Mapping[str, Callable[..., Step]] = {
    "restart": Restart,
    "stop": Stop,
    "start": Start,
    "crash": Crash,
}
EXAMPLES = {
    "feed": "feed: {words: [{word: owl}]}",
    "advance": "advance: 2 hours",
    "change_to": "change_to: version2.yml",
}
ACTIONS = ("feed", "advance", *WORDS, "change_to")
CHECKS = ("expect", "watermark", "late", "state", "idle", "fails")


class StepReader:
    """Reads steps, and gives every problem to the reader of the file."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def step(self, node: Node) -> Step | None:
        """One step; None where it is wrong."""
        if isinstance(node, MappingNode):
            return self._mapping(node)
        if is_nothing(node):
            self._empty(node)
        elif isinstance(node, ScalarNode) and node.text in WORDS:
            return WORDS[node.text](place=node.position)
        else:
            self._no_word(node)
        return None

    def _mapping(self, node: MappingNode) -> Step | None:
        self.reader.unknown(node, (*ACTIONS, *CHECKS), "a step")
        actions = [pair for pair in node.pairs if pair.key in ACTIONS]
        checks = self._checks([pair for pair in node.pairs if pair.key in CHECKS])
        if not node.pairs:
            self._empty(node)
        for other in actions[1:]:
            first, second = actions[0].key, other.key
            self.reader.problems.append(TEST_TWO_ACTIONS.at(other.key_position, first=first, second=second))
        # Every action is read, so that each mistake is told.
        made = [self._action(action, {**checks, "place": node.position}) for action in actions]
        return made[0] if made else Check(**checks, place=node.position)

    def _action(self, pair: Pair, checks: dict[str, Any]) -> Step | None:
        match pair.key:
            case "feed":
                return self._feed(pair, checks)
            case "advance":
                return self._advance(pair, checks)
            case "change_to":
                return self._change_to(pair, checks)
            case word:
                if pair.node.value is not True:
                    hint = f"Write `- {word}`, or with checks `- {{{word}: true, expect: …}}`."
                    self.reader.wrong(pair, "`true` is all that can stand here", hint)
                return WORDS[word](**checks)

    def _feed(self, pair: Pair, checks: dict[str, Any]) -> Step:
        rows = self.reader.by_name(
            pair, EXAMPLES["feed"], lambda each: self.reader.rows(each, f"`feed` to `{each.key}`")
        )
        if isinstance(pair.node, MappingNode) and not pair.node.pairs:
            self.reader.wrong(pair, "it names no source", f"Write `{EXAMPLES['feed']}`.")
        return Feed(rows, **checks)

    def _advance(self, pair: Pair, checks: dict[str, Any]) -> Step | None:
        by = self.reader.text(pair, EXAMPLES["advance"])
        if by is None:
            return None
        try:
            Duration.parse(by)
        except ValueError as error:
            self.reader.wrong(pair, str(error).rstrip("."), f"Write for instance `{EXAMPLES['advance']}`.")
        return Advance(by, **checks)

    def _change_to(self, pair: Pair, checks: dict[str, Any]) -> Step | None:
        written = self.reader.text(pair, EXAMPLES["change_to"])
        if written is None:
            return None
        return ChangeTo(self.reader.pipeline(pair, written), **checks)

    def _checks(self, pairs: list[Pair]) -> dict[str, Any]:
        """What must be true after the step; what is wrong is left out."""
        read: dict[str, Callable[[Pair], Any]] = {
            "expect": self._expect,
            "watermark": self._watermark,
            "late": self._late,
            "state": self._state,
            "idle": self._idle,
            "fails": self._fails,
        }
        found: dict[str, Any] = {}
        for pair in pairs:
            before = len(self.reader.problems)
            value = read[pair.key](pair)
            if len(self.reader.problems) == before:
                found[pair.key] = value
        return found

    def _expect(self, pair: Pair) -> Any:
        example = "expect: {counts: [{word: owl, n: 1}]}"
        return self.reader.by_name(
            pair, example, lambda each: self.reader.rows(each, f"`expect` of `{each.key}`")
        )

    def _watermark(self, pair: Pair) -> Any:
        if isinstance(pair.node, MappingNode):
            return {each.key: self._mark(each) for each in pair.node.pairs}
        return self._mark(pair)

    def _mark(self, pair: Pair) -> str | None:
        if is_nothing(pair.node) or pair.node.value == "none":
            return None
        return self.reader.time(pair, f"{pair.key}: 12:04` or, before there is one, `{pair.key}: none")

    def _late(self, pair: Pair) -> Any:
        if isinstance(pair.node, MappingNode):
            example = "late: {counts: 1}"
            return self.reader.by_name(pair, example, lambda each: self.reader.number(each, example))
        return self.reader.number(pair, "late: 1")

    def _state(self, pair: Pair) -> Any:
        return self.reader.by_name(pair, "state: {counts: 4}", self._kept)

    def _kept(self, pair: Pair) -> Any:
        """The number of rows of state, the rows, or rows by operator, side of a join or state variable."""
        if isinstance(pair.node, MappingNode):
            return {each.key: self._kept_rows(each) for each in pair.node.pairs}
        return self._kept_rows(pair) if isinstance(pair.node, SequenceNode) else self._number_kept(pair)

    def _number_kept(self, pair: Pair) -> Any:
        return self.reader.number(
            pair, f"{pair.key}: 4` or `{pair.key}: [{{key: {{word: owl}}, value: {{count: 1}}}}]"
        )

    def _kept_rows(self, pair: Pair) -> list[Row]:
        if not isinstance(pair.node, SequenceNode):
            self.reader.wanted(pair, "a list of rows", f"{pair.key}: [{{key: {{…}}, value: {{…}}}}]")
            return []
        rows = [self.reader.row(node, f"`state` of `{pair.key}`") for node in pair.node.children]
        for row in rows:
            if row and not isinstance(row.values, Mapping):
                self.reader.wrong(pair, "a row of state has names", "Write `{key: {…}, value: {…}}` for it.")
        return [row for row in rows if isinstance(row, Row)]

    def _idle(self, pair: Pair) -> Any:
        names = pair.node.value
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return tuple(names)
        name = names if isinstance(names, str) else "clicks"
        self.reader.wanted(pair, "a list of sources", f"idle: [{name}]")
        return None

    def _fails(self, pair: Pair) -> Any:
        return self.reader.text(pair, "fails: words of the message")

    def _empty(self, node: Node) -> None:
        known = ", ".join((*ACTIONS, *CHECKS))
        self.reader.problems.append(TEST_STEP_EMPTY.at(node.position, known=known))

    def _no_word(self, node: Node) -> None:
        word = node.text if isinstance(node, ScalarNode) else node.kind
        self.reader.problems.append(TEST_STEP_WORD.at(node.position, word=word, hint=_word_hint(word)))


def _word_hint(word: str) -> str:
    """What to write in the place of a word that is no step."""
    if word in EXAMPLES:
        return f"It needs a value: write `- {EXAMPLES[word]}`."
    if word in CHECKS:
        return f"It needs a value: write `- {word}: …`."
    meant = nearest(word, (*ACTIONS, *CHECKS))
    if meant:
        return f"Did you mean `{meant}`?"
    return f"A step is one of the words {', '.join(WORDS)}, or keys with values: `{EXAMPLES['feed']}`."
