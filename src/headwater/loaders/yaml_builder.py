"""Builds the tree from the events of the YAML parser, and collects problems on the way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from headwater.errors import Problem
from headwater.errors.catalogue.pipelines import (
    YAML_ALIAS_NOT_FOUND,
    YAML_DOCUMENTS,
    YAML_DUPLICATE_KEY,
    YAML_KEY_INVALID,
    YAML_NO_SPACE,
    YAML_QUOTE_COMMA,
    YAML_TOO_LARGE,
    YAML_UNSUPPORTED,
)
from headwater.loaders.yaml_syntax import (
    MappingNode,
    Node,
    Pair,
    ScalarNode,
    SequenceNode,
    Source,
    explain,
    glued,
    kind_of,
    resolve,
    shown,
)
from headwater.values import Position, TextPosition

MAX_DEPTH = 50
MAX_NODES = 10_000
_ANCHOR = re.compile(r"&\S+(?:\s+#[^\n\r]*|\s)*")
_TAG = re.compile(r"(?:&\S+\s+)?(!\S*)")
_BRACKETS = re.compile(r"\b(?:map|array|struct)<|[()>]", re.IGNORECASE)
# A longer search would be slow for long lists, and find accidental matches.
_MOST_PIECES = 50
# The content between two commas: unquoted scalars (a key and a value, or an item); None for anything else.
Cell = tuple[ScalarEvent, ...] | None


class _LimitError(Exception):
    """The file exceeds a limit."""


class TreeBuilder:
    """Reads a text once and collects its `problems`.

    It recurses into nested values, so the depth is checked before it descends.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self._events = self._read()
        self._reached = 0
        self._brackets: list[int] = []
        """The offsets of open brackets."""
        self._anchors: dict[str, Node | None] = {}
        """Values that aliases can repeat; None while they are being read."""
        self._depth = 0
        self._count = 0
        self._in_key = False

    def build(self) -> Node | None:
        """The tree; None if the text is empty or could not be parsed."""
        root, documents = None, 0
        try:
            for event in self._events:
                documents += isinstance(event, DocumentStartEvent)
                if documents > 1:
                    self._add(YAML_DOCUMENTS.at(self._place(event)))
                    break
                if isinstance(event, NodeEvent):
                    root = self._node(event)
        except _LimitError:
            pass
        except (YAMLError, ValueError, OverflowError) as error:
            # Escapes such as "\UFFFFFFFF" leave the parser as a ValueError or an OverflowError.
            bracket = self._brackets[-1] if self._brackets else None
            self._add(explain(error, self.source, self._reached, bracket))
        return root

    def _add(self, problem: Problem) -> None:
        self.problems.append(problem)

    def _place(self, event: Event) -> Position:
        return self.source.at(event.start_mark.index)

    def _read(self) -> Iterator[Event]:
        for event in YAML(typ="safe", pure=True).parse(self.source.text):
            self._reached = event.end_mark.index
            yield event

    def _node(self, event: Any) -> Node:
        """The value that an event starts."""
        if isinstance(event, AliasEvent):
            return self._alias(event)
        self._refuse_tag(event)
        if isinstance(event, CollectionStartEvent):
            return self._collection(event)
        self._limit(event, 1)
        node = self._scalar(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _limit(self, event: Event, size: int, height: int = 0) -> None:
        """Check that `size` more values, `height` levels deep, stay within the limits."""
        self._count += size
        most = f"{MAX_NODES:,} values" if self._count > MAX_NODES else None
        if self._depth + height > MAX_DEPTH:
            most = most or f"{MAX_DEPTH} levels of nested values"
        if most:
            self._add(YAML_TOO_LARGE.at(self._place(event), file=self.source.file, limit=most))
            raise _LimitError

    def _alias(self, event: AliasEvent) -> Node:
        node = self._anchors.get(event.anchor)
        if node is None:
            place = self._place(event)
            self._add(YAML_ALIAS_NOT_FOUND.at(place, name=event.anchor))
            node = ScalarNode(place, None, "", True, TextPosition(place))
        self._limit(event, *_measure(node))
        return node

    def _collection(self, event: CollectionStartEvent) -> Node:
        begin = self._begin(event)
        self._depth += 1
        self._limit(event, 1)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        if event.flow_style:
            self._brackets.append(begin)
        position, mapping = self.source.at(begin), isinstance(event, MappingStartEvent)
        pairs, items, cells = self._content(mapping)
        if event.flow_style:
            self._brackets.pop()
            self._refuse_cuts(cells, pairs if mapping else items)
        self._depth -= 1
        node: Node = SequenceNode(position, tuple(items))
        if mapping:
            kept = tuple(pair for pair in pairs if pair is not None)
            self._refuse_duplicates(kept)
            node = MappingNode(position, kept)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _content(self, mapping: bool) -> tuple[list[Pair | None], list[Node], list[Cell]]:
        """The pairs of a mapping or the items of a list, and the content between the commas."""
        pairs: list[Pair | None] = []
        items: list[Node] = []
        cells: list[Cell] = []
        while not isinstance(event := next(self._events), CollectionEndEvent):
            if not mapping:
                items.append(self._node(event))
                cells.append(_cell(event))
                continue
            key = self._key(event)
            value = next(self._events)
            node = self._node(value)
            pairs.append(Pair(*key, node) if key else None)
            cells.append(_cell(event, value))
        return pairs, items, cells

    def _key(self, event: Event) -> tuple[str, Position] | None:
        """A key and its position; None if the value cannot be a key."""
        if isinstance(event, ScalarEvent):
            self._refuse_tag(event)
            place = self.source.at(self._begin(event))
            meant = resolve(event.value) if event.style is None else event.value
            if event.style is None and event.value == "<<":
                self._add(YAML_UNSUPPORTED.at(place, what="Merge keys", found="<<"))
            elif not isinstance(meant, str):
                kind = f"`{event.value}`, which is read as {kind_of(meant)}"
                self._add(YAML_KEY_INVALID.at(place, kind=kind))
            return event.value, place
        kind = "a mapping" if isinstance(event, MappingStartEvent) else "a list"
        if isinstance(event, AliasEvent):
            self._add(YAML_KEY_INVALID.at(self._place(event), kind="an alias"))
            return None
        outermost, self._in_key = not self._in_key, True
        if outermost:
            self._add(YAML_KEY_INVALID.at(self._place(event), kind=kind))
        self._node(event)
        self._in_key = not outermost
        return None

    def _begin(self, event: NodeEvent) -> int:
        """The offset at which the value starts, after its anchor."""
        start = int(event.start_mark.index)
        anchor = _ANCHOR.match(self.source.text, start) if event.anchor is not None else None
        return anchor.end() if anchor else start

    def _scalar(self, event: ScalarEvent) -> ScalarNode:
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
            # The lines after a `|` are the lines of the text, with the same indentation.
            lines = self.source.lines[position.line :]
            for written, line in zip(lines, event.value.split("\n"), strict=False):
                if line and written.endswith(line):
                    start = Position(position.file, position.line + 1, len(written) - len(line) + 1)
                    return TextPosition(start, follows_lines=True)
        if event.style in ("|", ">"):
            return TextPosition(position, exact=False)
        quoted = 1 if event.style in ("'", '"') else 0
        return TextPosition(Position(position.file, position.line, position.column + quoted))

    def _refuse_tag(self, event: Any) -> None:
        if event.ctag is not None:
            written = _TAG.match(self.source.text, event.start_mark.index)
            tag = shown(written[1] if written else str(event.tag))
            self._add(YAML_UNSUPPORTED.at(self._place(event), what="YAML tags", found=tag))

    def _refuse_duplicates(self, pairs: Sequence[Pair]) -> None:
        first: dict[str, int] = {}
        for pair in pairs:
            place = pair.key_position
            # A merge key has its own problem.
            if pair.key in first and pair.key != "<<":
                more = {"first": first[pair.key], "second": place.line}
                self._add(YAML_DUPLICATE_KEY.at(place, key=pair.key, **more))
            first.setdefault(pair.key, place.line)

    def _refuse_glued_lines(self, begin: int, end: int) -> None:
        """Report several lines without a space after the colon, which YAML reads as one string."""
        lines = self.source.text[begin:end].split("\n")
        pair = glued(lines[0]) if len(lines) > 1 and all(glued(line) for line in lines) else None
        if pair:
            self._add(YAML_NO_SPACE.at(self.source.at(begin), found=pair[0], suggestion=pair[1]))

    def _refuse_cuts(self, cells: list[Cell], collected: list[Any]) -> None:
        """Report values in brackets that YAML reads differently than intended.

        YAML splits `{cost: decimal(10,2)}` at its comma; the rest is dropped, so that it is reported once.
        `{a:1}` is the key `a:1` without a value.
        """
        for first, last in reversed(list(_cuts(cells))):
            begin, finish = cells[first] or (), cells[last] or ()
            start, end = int(begin[-1].start_mark.index), int(finish[-1].end_mark.index)
            found, suggestion = shown(self.source.text[start:end]), self.source.with_quotes(start, end)
            pieces = last - first + 1
            place = self.source.at(start)
            self._add(YAML_QUOTE_COMMA.at(place, found=found, pieces=pieces, suggestion=suggestion))
            del collected[first + 1 : last + 1], cells[first + 1 : last + 1]
        for cell in cells:
            if cell and cell[-1].value == "" and (pair := glued(cell[0].value)):
                self._add(YAML_NO_SPACE.at(self._place(cell[0]), found=pair[0], suggestion=pair[1]))


def _measure(node: Node) -> tuple[int, int]:
    """The number of values of a node, including itself, and the number of levels."""
    inside = [_measure(part) for part in node.parts]
    levels = 0 if isinstance(node, ScalarNode) else 1 + max((height for _, height in inside), default=0)
    return 1 + sum(size for size, _ in inside), levels


def _cell(*events: Event) -> Cell:
    """The unquoted scalars between two commas; None for anything else."""
    plain = tuple(event for event in events if isinstance(event, ScalarEvent) and event.style is None)
    return plain if len(plain) == len(events) else None


def _cuts(cells: Sequence[Cell]) -> Iterator[tuple[int, int]]:
    """The first and last cell of each value that was split at the commas in its parentheses."""
    index = 0
    while index < len(cells):
        last = _last_cell(cells, index)
        if last is not None:
            yield index, last
        index = (index if last is None else last) + 1


def _last_cell(cells: Sequence[Cell], first: int) -> int | None:
    """The cell that closes the parentheses opened in `first`; None if none are open or they never close."""
    start = cells[first]
    opened = _still_open("", start[-1].value) if start else ""
    for index in range(first + 1, min(first + _MOST_PIECES, len(cells))) if opened else ():
        cell = cells[index]
        if cell is None:
            return None
        for event in cell:
            opened = _still_open(opened, event.value)
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
