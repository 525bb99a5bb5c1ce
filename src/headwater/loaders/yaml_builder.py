"""Builds the tree from the parser's events, without recursion, and collects what is wrong on the way."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from headwater.errors import Problem
from headwater.errors.catalogue.pipelines import (
    YAML_DUPLICATE_KEY,
    YAML_KEY_NOT_TEXT,
    YAML_LOOP,
    YAML_MERGE,
    YAML_NO_SPACE,
    YAML_QUOTE_COMMA,
    YAML_QUOTE_KEY,
    YAML_TAG,
    YAML_TOO_DEEP,
    YAML_TOO_MANY,
    YAML_UNKNOWN_ALIAS,
)
from headwater.loaders.yaml_nodes import (
    MappingNode,
    Node,
    Pair,
    ScalarNode,
    SequenceNode,
    Source,
    resolve,
    shown,
)
from headwater.loaders.yaml_syntax import glued
from headwater.values import Position, TextPosition

# Values between brackets that YAML cuts in pieces: `{cost: decimal(10,2)}`, `{a:1}`.

_BRACKETS = re.compile(r"\b(?:map|array|struct)<|[()>]", re.IGNORECASE)
# Looking further would find accidents, and take long in a long list.
_MOST_PIECES = 50


@dataclass(frozen=True)
class Span:
    """An unquoted text and where it stands, as offsets."""

    text: str
    start: int
    end: int


# What stands between two commas: unquoted texts (a key and a value, or an item); None for anything else.
Cell = tuple[Span, ...] | None


@dataclass(frozen=True)
class Cut:
    """One value that was cut: the first and the last of its cells."""

    first: int
    last: int
    problem: Problem


def find_cuts(source: Source, cells: Sequence[Cell]) -> list[Cut]:
    """The values with commas in parentheses that were cut at their commas."""
    cuts: list[Cut] = []
    index = 0
    while index < len(cells):
        last = _last_cell(cells, index)
        if last is not None:
            cuts.append(Cut(index, last, _problem(source, cells, index, last)))
        index = index + 1 if last is None else last + 1
    return cuts


def _last_cell(cells: Sequence[Cell], first: int) -> int | None:
    """The cell that closes what the value in `first` opens; None where nothing is open, or never closed."""
    start = cells[first]
    opened = _still_open("", start[-1].text) if start else ""
    if not opened:
        return None
    for index in range(first + 1, min(first + _MOST_PIECES, len(cells))):
        cell = cells[index]
        if cell is None:
            return None
        for span in cell:
            opened = _still_open(opened, span.text)
        if not opened:
            return index
    return None


def _still_open(opened: str, text: str) -> str:
    for found in _BRACKETS.findall(text):
        if found[-1] in "(<":
            opened += found[-1]
        elif opened.endswith({")": "(", ">": "<"}[found]):
            opened = opened[:-1]
    return opened


def _problem(source: Source, cells: Sequence[Cell], first: int, last: int) -> Problem:
    begin, finish = cells[first] or (), cells[last] or ()
    start, end = begin[-1].start, finish[-1].end
    return YAML_QUOTE_COMMA.at(
        source.at(start),
        found=shown(source.text[start:end]),
        pieces=last - first + 1,
        suggestion=source.with_quotes(start, end),
    )


MAX_DEPTH = 50
MAX_NODES = 10_000
_ANCHOR = re.compile(r"&\S+(?:\s+#[^\n\r]*|\s)*")


class _Anchored:
    """A value that aliases may repeat; `node` is None while it is still being read."""

    __slots__ = ("height", "node", "size")

    def __init__(self) -> None:
        self.node: Node | None = None
        self.size = 1
        self.height = 0


class _Open:
    """A mapping or list that is being read."""

    __slots__ = (
        "anchored",
        "as_key",
        "cells",
        "flow",
        "items",
        "key",
        "mapping",
        "offset",
        "pairs",
        "position",
    )

    def __init__(self, event: CollectionStartEvent, source: Source, offset: int, as_key: bool) -> None:
        self.mapping = isinstance(event, MappingStartEvent)
        self.flow = bool(event.flow_style)
        self.offset = offset
        self.position = source.at(offset)
        self.as_key = as_key
        self.anchored = _Anchored()
        self.anchored.height = 1
        self.key: ScalarEvent | Event | None = None
        self.pairs: list[Pair | None] = []
        self.items: list[Node] = []
        self.cells: list[Cell] = []

    @property
    def awaits_key(self) -> bool:
        return self.mapping and self.key is None


class TreeBuilder:
    """Takes events one by one; `root` is the tree, `problems` what is wrong with it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.root: Node | None = None
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._count = 0

    @property
    def bracket(self) -> int | None:
        """The offset of the innermost bracket that is still open."""
        return self._open[-1].offset if self._open and self._open[-1].flow else None

    def feed(self, event: Event) -> bool:
        """Take the next event; False where reading on makes no sense."""
        match event:
            case ScalarEvent():
                return self._scalar(event)
            case AliasEvent():
                return self._alias(event)
            case CollectionStartEvent():
                return self._start(event)
            case CollectionEndEvent():
                self._end(event)
        return True

    def _scalar(self, event: ScalarEvent) -> bool:
        self._refuse_tag(event)
        if self._open and self._open[-1].awaits_key:
            self._check_key(event)
            self._open[-1].key = event
            return True
        anchored = _Anchored()
        anchored.node = self._scalar_node(event)
        self._name(event, anchored)
        return self._add(anchored, event)

    def _alias(self, event: AliasEvent) -> bool:
        place = self.source.at(event.start_mark.index)
        anchored = self._anchors.get(event.anchor)
        if self._open and self._open[-1].awaits_key:
            self.problems.append(YAML_KEY_NOT_TEXT.at(place, kind="an alias"))
            self._open[-1].key = event
            return True
        if anchored is None or anchored.node is None:
            entry = YAML_UNKNOWN_ALIAS if anchored is None else YAML_LOOP
            self.problems.append(entry.at(place, name=event.anchor))
            anchored = _Anchored()
            anchored.node = ScalarNode(place, None, "", True, TextPosition(place))
        return self._add(anchored, event)

    def _start(self, event: CollectionStartEvent) -> bool:
        self._refuse_tag(event)
        as_key = bool(self._open) and self._open[-1].awaits_key
        if as_key and not any(opened.as_key for opened in self._open):
            kind = "a mapping" if isinstance(event, MappingStartEvent) else "a list"
            place = self.source.at(event.start_mark.index)
            self.problems.append(YAML_KEY_NOT_TEXT.at(place, kind=kind))
        opened = _Open(event, self.source, self._begin(event), as_key)
        self._name(event, opened.anchored)
        self._open.append(opened)
        return self._within_limits(1, 0, event)

    def _end(self, event: CollectionEndEvent) -> None:
        done = self._open.pop()
        if done.flow:
            self._refuse_cuts(done)
        if done.mapping:
            pairs = [pair for pair in done.pairs if pair is not None]
            self._refuse_duplicates(pairs)
            done.anchored.node = MappingNode(done.position, tuple(pairs))
        else:
            done.anchored.node = SequenceNode(done.position, tuple(done.items))
        if done.as_key:
            self._open[-1].key = event
        else:
            self._place(done.anchored, None)

    def _add(self, anchored: _Anchored, event: Event) -> bool:
        self._place(anchored, event)
        return self._within_limits(anchored.size, anchored.height, event)

    def _within_limits(self, size: int, height: int, event: Event) -> bool:
        """Whether the file may hold `size` more values, `height` levels deep from here."""
        self._count += size
        place = self.source.at(event.start_mark.index)
        if self._count > MAX_NODES:
            self.problems.append(YAML_TOO_MANY.at(place, limit=MAX_NODES))
            return False
        if len(self._open) + height > MAX_DEPTH:
            self.problems.append(YAML_TOO_DEEP.at(place, limit=MAX_DEPTH))
            return False
        return True

    def _place(self, anchored: _Anchored, event: Event | None) -> None:
        """Put a finished value where it belongs: under its key, into its list, or at the top."""
        node = anchored.node
        if node is None:
            return
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        parent.anchored.size += anchored.size
        parent.anchored.height = max(parent.anchored.height, anchored.height + 1)
        if parent.mapping:
            key, parent.key = parent.key, None
            parent.pairs.append(self._pair(key, node))
            parent.cells.append(_cell(key, event))
        else:
            parent.items.append(node)
            parent.cells.append(_cell(event))

    def _pair(self, key: Event | None, node: Node) -> Pair | None:
        if not isinstance(key, ScalarEvent):
            return None
        return Pair(key.value, self.source.at(self._begin(key)), node)

    def _name(self, event: NodeEvent, anchored: _Anchored) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = anchored

    def _begin(self, event: NodeEvent) -> int:
        """Where the value itself begins, after its anchor."""
        start = int(event.start_mark.index)
        anchor = _ANCHOR.match(self.source.text, start) if event.anchor is not None else None
        return anchor.end() if anchor else start

    def _scalar_node(self, event: ScalarEvent) -> ScalarNode:
        begin, end, text = self._begin(event), int(event.end_mark.index), event.value
        plain = event.style is None
        position = self.source.at(begin)
        if plain:
            self._refuse_glued_lines(begin, end)
        places: tuple[Position, ...] = ()
        if "${" in text:
            found = re.finditer(r"\$\{", self.source.text[begin:end])
            places = tuple(self.source.at(begin + match.start()) for match in found)
        return ScalarNode(
            position,
            resolve(text) if plain else text,
            text,
            plain,
            self._text_position(event, position),
            places if len(places) == text.count("${") else (),
        )

    def _text_position(self, event: ScalarEvent, position: Position) -> TextPosition:
        if event.style == "|":
            return self._block_position(event.value, position)
        if event.style == ">":
            return TextPosition(position, exact=False)
        quoted = 1 if event.style in ("'", '"') else 0
        return TextPosition(Position(position.file, position.line, position.column + quoted))

    def _block_position(self, text: str, header: Position) -> TextPosition:
        """The lines after a `|` are the lines of the text, each behind the same indent."""
        lines = self.source.lines[header.line :]
        for written, line in zip(lines, text.split("\n"), strict=False):
            if line and written.endswith(line):
                start = Position(header.file, header.line + 1, len(written) - len(line) + 1)
                return TextPosition(start, follows_lines=True)
        return TextPosition(header, exact=False)

    def _check_key(self, event: ScalarEvent) -> None:
        place = self.source.at(self._begin(event))
        meant = resolve(event.value) if event.style is None else event.value
        if event.style is None and event.value == "<<":
            self.problems.append(YAML_MERGE.at(place))
        elif not isinstance(meant, str):
            node = ScalarNode(place, meant, event.value, True, TextPosition(place))
            self.problems.append(YAML_QUOTE_KEY.at(place, key=event.value, kind=node.kind))

    def _refuse_tag(self, event: ScalarEvent | CollectionStartEvent) -> None:
        if event.ctag is not None:
            start = int(event.start_mark.index)
            written = re.compile(r"(?:&\S+\s+)?(!\S*)").match(self.source.text, start)
            tag = shown(written[1] if written else str(event.tag))
            self.problems.append(YAML_TAG.at(self.source.at(start), tag=tag))

    def _refuse_duplicates(self, pairs: list[Pair]) -> None:
        first: dict[str, int] = {}
        for pair in pairs:
            line = pair.key_position.line
            # A merge key has its own problem.
            if pair.key in first and pair.key != "<<":
                self.problems.append(
                    YAML_DUPLICATE_KEY.at(pair.key_position, key=pair.key, first=first[pair.key], second=line)
                )
            first.setdefault(pair.key, line)

    def _refuse_glued_keys(self, done: _Open) -> None:
        """`{a:1}` is the key `a:1` without a value."""
        for cell in done.cells:
            if cell and cell[-1].text == "" and (pair := glued(cell[0].text)):
                place = self.source.at(cell[0].start)
                self.problems.append(YAML_NO_SPACE.at(place, found=pair[0], suggestion=pair[1]))

    def _refuse_glued_lines(self, begin: int, end: int) -> None:
        """Several lines that all lack the space after the colon are read as one text."""
        lines = self.source.text[begin:end].split("\n")
        pair = glued(lines[0]) if len(lines) > 1 and all(glued(line) for line in lines) else None
        if pair:
            self.problems.append(YAML_NO_SPACE.at(self.source.at(begin), found=pair[0], suggestion=pair[1]))

    def _refuse_cuts(self, done: _Open) -> None:
        """Report values cut at their commas, and drop the rest of each so that it is reported once."""
        collected: list[Any] = done.pairs if done.mapping else done.items
        for cut in reversed(find_cuts(self.source, done.cells)):
            self.problems.append(cut.problem)
            del collected[cut.first + 1 : cut.last + 1]
            del done.cells[cut.first + 1 : cut.last + 1]
        self._refuse_glued_keys(done)


def _cell(*events: Event | None) -> Cell:
    """The unquoted texts between two commas; None where something else stands there."""
    spans: list[Span] = []
    for event in events:
        if not isinstance(event, ScalarEvent) or event.style is not None:
            return None
        spans.append(Span(event.value, int(event.start_mark.index), int(event.end_mark.index)))
    return tuple(spans)
