"""Explains the errors of the YAML parser."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.reader import ReaderError

from headwater.errors import Problem
from headwater.errors.catalogue.pipelines import (
    YAML_COMMA,
    YAML_INDENT,
    YAML_LIST,
    YAML_NO_COLON,
    YAML_NO_SPACE,
    YAML_QUOTE_COLON,
    YAML_QUOTE_START,
    YAML_QUOTE_SUBSTITUTION,
    YAML_SYNTAX,
    YAML_TAB,
    YAML_UNCLOSED,
    YAML_UNSUPPORTED,
)
from headwater.values import Position, Secret, TextPosition

# A YAML file as a tree of values with positions.

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
    """A value of the file; `position` is where it starts."""

    position: Position

    @property
    @abstractmethod
    def value(self) -> Any:
        """The value as plain Python; a secret stays a `Secret`."""

    @property
    def kind(self) -> str:
        """The kind of the value, for a message: "a list"."""
        return kind_of(self.value)

    @property
    def parts(self) -> tuple[Node, ...]:
        """The values one level below."""
        return ()

    def step(self, step: Step) -> tuple[Position, Node] | None:
        """The value under a key or index, and the position of the key (or of the item)."""
        return None

    def get(self, key: str) -> Node | None:
        """The value under a key of this mapping."""
        found = self.step(key)
        return found[1] if found else None

    def find(self, route: tuple[Step, ...]) -> Node:
        """The value at the end of a route, or the deepest existing one on the way."""
        return self._walk(route)[1]

    def of_key(self, route: tuple[Step, ...]) -> Position:
        """The position of the key at the end of a route, or of the deepest existing one on the way."""
        return self._walk(route)[0]

    def of_value(self, route: tuple[Step, ...]) -> Position:
        return self.find(route).position

    def of_text(self, route: tuple[Step, ...]) -> TextPosition:
        node = self.find(route)
        return node.text_position if isinstance(node, ScalarNode) else TextPosition(node.position)

    def _walk(self, route: tuple[Step, ...]) -> tuple[Position, Node]:
        place: tuple[Position, Node] = (self.position, self)
        for step in route:
            found = place[1].step(step)
            if found is None:
                break
            place = found
        return place


@dataclass(frozen=True)
class ScalarNode(Node):
    """A string, number, boolean or null.

    `text` is the text in the file (without quotes and folding), `resolved` its value; `plain` means
    unquoted. `substitutions` are the positions of each `${` in the text, if known.
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


@dataclass(frozen=True)
class SequenceNode(Node):
    """A list."""

    position: Position
    children: tuple[Node, ...]

    @property
    def value(self) -> list[Any]:
        return [child.value for child in self.children]

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.children

    def step(self, step: Step) -> tuple[Position, Node] | None:
        if not isinstance(step, int) or not 0 <= step < len(self.children):
            return None
        return self.children[step].position, self.children[step]


@dataclass(frozen=True)
class Pair:
    """One key of a mapping and its value."""

    key: str
    key_position: Position
    node: Node


@dataclass(frozen=True)
class MappingNode(Node):
    """A mapping, in the order of the file."""

    position: Position
    pairs: tuple[Pair, ...]

    @property
    def value(self) -> dict[str, Any]:
        return {pair.key: pair.node.value for pair in self.pairs}

    @property
    def parts(self) -> tuple[Node, ...]:
        return tuple(pair.node for pair in self.pairs)

    def step(self, step: Step) -> tuple[Position, Node] | None:
        return next(((pair.key_position, pair.node) for pair in self.pairs if pair.key == step), None)


def kind_of(value: object) -> str:
    """The kind of a value, for a message."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return "a string"


def resolve(text: str) -> Plain:
    """The value of an unquoted scalar by the core schema of YAML 1.2."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    # Real numbers are shorter, and Python does not convert very long ones.
    if len(text) > _LONGEST_NUMBER:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if other := _OTHER_INT.fullmatch(text):
        return int(other[1], 8) if other[1] else int(other[2], 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    if infinite := _INFINITE.fullmatch(text):
        return float("nan") if infinite[1] is None else float(infinite[1] + "inf")
    return text


# The text of a YAML file, with its lines and positions.

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
        """The position of the character at an offset."""
        line = bisect_right(self._starts, offset)
        return Position(self.file, line, offset - self._starts[line - 1] + 1)

    def line_at(self, offset: int) -> str:
        """The line that contains an offset."""
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


_CLOSING = {"{": "}", "[": "]"}
_KEY_WITH_VALUE = re.compile(r"\s*(?:- +)*(?:[^\s:#'\"][^:#]*|'[^']*'|\"[^\"]*\"):\s+(?=\S)")
_VALUE_WITH_COLON = re.compile(r"(?:\$\{[^}\n\r]*\}|[^,\[\]{}\n\r])*")
_VALUE = re.compile(r"(?:\$\{[^}\n\r]*\}|:(?!\s)|[^:,\[\]{}\n\r])*")
_OPEN_VALUE = re.compile(r":\s+[^,\[\]{}]*$")
_GLUED = re.compile(r"\s*(?:- +)*([A-Za-z_][\w.-]*):(?!//)([^\s:].*)")


@dataclass(frozen=True)
class _Stumble:
    """A parser error, with the offsets of the problem and of its context."""

    source: Source
    says: str
    offset: int
    context: int

    @property
    def line(self) -> str:
        return self.source.line_at(self.offset)


def explain(error: Exception, source: Source, reached: int, bracket: int | None) -> Problem:
    """The problem behind a parser error.

    `reached` is the offset the parser had reached, `bracket` the offset of the innermost open bracket.
    """
    stumble = _stumble(error, source, reached)
    if bracket is not None and "while parsing a flow" in stumble.says:
        stumble = replace(stumble, context=bracket)
    translate = next((each for words, each in _TRANSLATIONS if words in stumble.says), _plain_words)
    problem = _tab(stumble) or translate(stumble)
    return replace(problem, detail=str(error))


def glued(line: str) -> tuple[str, str] | None:
    """The text and the likely intended text of a line without a space after its colon."""
    match = _GLUED.fullmatch(line.rstrip())
    return (shown(f"{match[1]}:{match[2]}"), shown(f"{match[1]}: {match[2]}")) if match else None


def _stumble(error: Exception, source: Source, reached: int) -> _Stumble:
    if isinstance(error, ReaderError):
        reached = error.position
    if not isinstance(error, MarkedYAMLError):
        return _Stumble(source, "", reached, reached)
    # The position of the problem is more precise, but some errors have only that of the context.
    marks = [mark.index for mark in (error.problem_mark, error.context_mark) if mark is not None] or [reached]
    return _Stumble(source, f"{error.context or ''} | {error.problem or ''}", marks[0], marks[-1])


def _tab(stumble: _Stumble) -> Problem | None:
    indent = stumble.line[: len(stumble.line) - len(stumble.line.lstrip())]
    if "\t" not in indent:
        return None
    start = stumble.source.at(stumble.offset)
    return YAML_TAB.at(replace(start, column=indent.index("\t") + 1))


def _plain_words(stumble: _Stumble) -> Problem:
    return YAML_SYNTAX.at(stumble.source.at(stumble.offset), line=shown(stumble.line))


def _stray_colon(stumble: _Stumble) -> Problem:
    """A misplaced colon: in an unquoted value, or on a line that continues the one above."""
    source, place = stumble.source, stumble.source.at(stumble.offset)
    key = _KEY_WITH_VALUE.match(stumble.line)
    if key and key.end() < place.column:
        start = stumble.offset - place.column + 1
        value = re.sub(r"\s#.*", "", stumble.line[key.end() :]).rstrip()
        suggestion = source.with_quotes(start + key.end(), start + key.end() + len(value))
        return YAML_QUOTE_COLON.at(replace(place, column=key.end() + 1), suggestion=suggestion)
    above = _line_above(source, place.line)
    if above is None:
        return _plain_words(stumble)
    indented = ": " in source.lines[above - 1]
    return YAML_INDENT.at(replace(place, column=1)) if indented else _no_key(source, above)


def _line_above(source: Source, line: int) -> int | None:
    """The number of the first line of the text that continues at `line`."""
    above = [
        number
        for number in range(1, line)
        if source.lines[number - 1].strip() and not source.lines[number - 1].lstrip().startswith("#")
    ]
    if not above:
        return None
    first = above.pop()
    while above and glued(source.lines[above[-1] - 1]):
        first = above.pop()
    return first


def _no_key(source: Source, number: int) -> Problem:
    """A line that should be `key: value`."""
    line = source.lines[number - 1]
    place = replace(source.at(0), line=number, column=len(line) - len(line.lstrip()) + 1)
    if pair := glued(line):
        return YAML_NO_SPACE.at(place, found=pair[0], suggestion=pair[1])
    return YAML_NO_COLON.at(place, line=shown(line))


def _bracket(stumble: _Stumble) -> Problem:
    """A malformed flow mapping or list."""
    source, text = stumble.source, stumble.source.text
    if text[max(stumble.offset - 1, 0) : stumble.offset + 1] == "${":
        return _substitution(stumble)
    opened = text[stumble.context : stumble.context + 1]
    if opened not in _CLOSING:
        return _plain_words(stumble)
    closing = _CLOSING[opened]
    if closing not in text[stumble.offset :]:
        return YAML_UNCLOSED.at(source.at(stumble.context), opened=f"`{opened}`", closing=f"`{closing}`")
    place = source.at(stumble.offset)
    if text[stumble.offset] == ":" and _OPEN_VALUE.search(stumble.line[: place.column - 1]):
        value = _flow_value(text, stumble.offset, _VALUE_WITH_COLON)
        return YAML_QUOTE_COLON.at(source.at(value[0]), suggestion=source.with_quotes(*value))
    return YAML_COMMA.at(place, closing=f"`{closing}`")


def _substitution(stumble: _Stumble) -> Problem:
    source = stumble.source
    start, end = _flow_value(source.text, stumble.offset - 1, _VALUE)
    found = shown(source.text[stumble.offset - 1 : end].partition("}")[0] + "}")
    return YAML_QUOTE_SUBSTITUTION.at(
        source.at(stumble.offset - 1), found=found, suggestion=source.with_quotes(start, end)
    )


def _flow_value(text: str, offset: int, shape: re.Pattern[str]) -> tuple[int, int]:
    """The start and end of the unquoted value around an offset, including its `${…}`."""
    line_start = max(text.rfind(end, 0, offset) for end in "\n\r") + 1
    before = re.split(r":\s+|,\s*|[\[{]\s*", text[line_start:offset])[-1]
    after = shape.match(text, offset)
    tail = after[0].rstrip() if after else ""
    return offset - len(before), offset + len(tail)


def _start(stumble: _Stumble) -> Problem:
    """A value that starts with a special character of YAML."""
    source, offset = stumble.source, stumble.context
    rest = re.match(r"[^\n\r]*?(?=\s+#|\s*$|[\n\r])", source.text[offset:], re.MULTILINE)
    end = offset + max(len(rest[0]) if rest else 0, 1)
    return YAML_QUOTE_START.at(
        source.at(offset),
        character=f"`{source.text[offset : offset + 1]}`",
        suggestion=source.with_quotes(offset, min(end, len(source.text))),
    )


def _block_end(stumble: _Stumble) -> Problem:
    place = stumble.source.at(stumble.offset)
    alone = not stumble.line[: place.column - 1].strip(" -")
    return YAML_INDENT.at(place) if alone and "<block " in stumble.says else _plain_words(stumble)


def _unclosed_quote(stumble: _Stumble) -> Problem:
    mark = stumble.source.text[stumble.context]
    return YAML_UNCLOSED.at(stumble.source.at(stumble.context), opened="quote", closing=f"`{mark}`")


def _tag(stumble: _Stumble) -> Problem:
    found = shown(stumble.source.text[stumble.context :].partition(" ")[0]) or "!"
    return YAML_UNSUPPORTED.at(stumble.source.at(stumble.context), what="YAML tags", found=found)


# How to explain a parser error, by the part of its message that identifies it; the first match wins.
_TRANSLATIONS: tuple[tuple[str, Callable[[_Stumble], Problem]], ...] = (
    ("mapping values are not allowed here", _stray_colon),
    ("could not find expected ':'", lambda at: _no_key(at.source, at.source.at(at.context).line)),
    ("sequence entries are not allowed here", lambda at: YAML_LIST.at(at.source.at(at.offset))),
    ("that cannot start any token", _start),
    ("while parsing a flow", _bracket),
    ("unexpected end of stream", _unclosed_quote),
    ("unexpected document separator", _unclosed_quote),
    ("while scanning an alias", _start),
    ("while scanning an anchor", _start),
    ("while scanning a block scalar", _start),
    ("tag", _tag),
    ("expected <block end>", _block_end),
    ("expected '<document start>'", _block_end),
)
