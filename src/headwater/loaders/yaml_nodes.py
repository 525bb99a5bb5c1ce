"""A YAML file as a tree of values, each with its place in the file."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from headwater.values import Position, Secret, TextPosition

Step: TypeAlias = str | int
Plain: TypeAlias = str | int | float | bool | None

_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+")
_OTHER_INT = re.compile(r"0o([0-7]+)|0x([0-9a-fA-F]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LONGEST_NUMBER = 100


class Node(ABC):
    """A value of the file; `position` is where it begins."""

    position: Position

    @property
    @abstractmethod
    def value(self) -> Any:
        """The value as plain Python; a secret stays a `Secret`."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """What it is, in words for a sentence: "a list"."""

    @property
    def parts(self) -> tuple[Node, ...]:
        """The values one level below."""
        return ()

    def step(self, step: Step) -> tuple[Position, Node] | None:
        """The value under one key or index, and where its key (or itself) stands."""
        return None

    def get(self, key: str) -> Node | None:
        """The value under a key of this mapping."""
        found = self.step(key)
        return found[1] if found else None

    def find(self, path: tuple[Step, ...]) -> Node:
        """The value at a path, or the deepest one on the way that exists."""
        return self._walk(path)[1]

    def key_position(self, path: tuple[Step, ...]) -> Position:
        """Where the key at the end of a path stands, or the deepest one on the way that exists."""
        return self._walk(path)[0]

    def _walk(self, path: tuple[Step, ...]) -> tuple[Position, Node]:
        place: tuple[Position, Node] = (self.position, self)
        for step in path:
            found = place[1].step(step)
            if found is None:
                break
            place = found
        return place


@dataclass(frozen=True)
class ScalarNode(Node):
    """One text, number, truth value or nothing.

    `text` is what the file says (quotes and folding undone), `resolved` what it means; `plain` says that
    it stands unquoted. `substitutions` are the places of the `${` in the text, where they are known.
    """

    position: Position
    resolved: Plain | Secret
    text: str
    plain: bool
    text_position: TextPosition
    substitutions: tuple[Position, ...] = ()

    @property
    def value(self) -> Plain | Secret:
        return self.resolved

    @property
    def kind(self) -> str:
        match self.resolved:
            case None:
                return "nothing"
            case bool():
                return "true or false"
            case int() | float():
                return "a number"
            case _:
                return "text"


@dataclass(frozen=True)
class SequenceNode(Node):
    """A list."""

    position: Position
    children: tuple[Node, ...]

    @property
    def value(self) -> list[Any]:
        return [child.value for child in self.children]

    @property
    def kind(self) -> str:
        return "a list"

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.children

    def step(self, step: Step) -> tuple[Position, Node] | None:
        if not isinstance(step, int) or not 0 <= step < len(self.children):
            return None
        child = self.children[step]
        return child.position, child


@dataclass(frozen=True)
class Pair:
    """One key of a mapping and its value."""

    key: str
    key_position: Position
    node: Node


@dataclass(frozen=True)
class MappingNode(Node):
    """Keys with values, in the order of the file."""

    position: Position
    pairs: tuple[Pair, ...]

    @property
    def value(self) -> dict[str, Any]:
        return {pair.key: pair.node.value for pair in self.pairs}

    @property
    def kind(self) -> str:
        return "keys with values"

    @property
    def parts(self) -> tuple[Node, ...]:
        return tuple(pair.node for pair in self.pairs)

    def step(self, step: Step) -> tuple[Position, Node] | None:
        return next(((pair.key_position, pair.node) for pair in self.pairs if pair.key == step), None)


def resolve(text: str) -> Plain:
    """What an unquoted text means by the core schema of YAML 1.2."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    # No number that anyone writes is longer, and Python refuses to convert very long ones.
    return text if len(text) > _LONGEST_NUMBER else _number(text)


def _number(text: str) -> Plain:
    if _INT.fullmatch(text):
        return int(text)
    if other := _OTHER_INT.fullmatch(text):
        return int(other[1], 8) if other[1] else int(other[2], 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    if infinite := _INFINITE.fullmatch(text):
        return float("nan") if infinite[1] is None else float(infinite[1] + "inf")
    return text


# The text of a YAML file, with its lines and places.

_LINE_END = re.compile("\r\n|[\n\r]")
_LONGEST_SHOWN = 160


class Source:
    """One file's text; offsets count characters from 0, lines and columns from 1."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text.removeprefix("\ufeff")

    @cached_property
    def lines(self) -> list[str]:
        return _LINE_END.split(self.text)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    def at(self, offset: int) -> Position:
        """The place of the character at an offset."""
        line = bisect_right(self._starts, offset)
        return Position(self.file, line, offset - self._starts[line - 1] + 1)

    def line_at(self, offset: int) -> str:
        """The whole line that an offset is on."""
        return self.lines[self.at(offset).line - 1]

    def with_quotes(self, start: int, end: int) -> str:
        """The line with the text from `start` to `end` quoted, or that text alone if it spans lines."""
        quoted = quote(" ".join(self.text[start:end].split()))
        first, last = self.at(start), self.at(end)
        line = self.lines[first.line - 1]
        if first.line != last.line or len(line) > _LONGEST_SHOWN:
            return shown(quoted)
        return (line[: first.column - 1] + quoted + line[last.column - 1 :]).strip()


def shown(text: str) -> str:
    """The text on one line, short enough for a message."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_SHOWN else line[:_LONGEST_SHOWN] + "…"


def quote(text: str) -> str:
    """The text as a quoted YAML scalar."""
    if '"' in text or "\\" in text:
        return "'" + text.replace("'", "''") + "'"
    return f'"{text}"'
