"""Values between brackets that YAML cuts in pieces: `{cost: decimal(10,2)}`, `{a:1}`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import Problem
from headwater.errors.catalogue.documents import YAML_QUOTE_COMMA
from headwater.loaders.yaml_source import Source, shown

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
