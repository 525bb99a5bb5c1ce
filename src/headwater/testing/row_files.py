"""Rows that a test keeps in a file of its own: .jsonl, .json or .csv."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from headwater.errors import PipelineError
from headwater.errors.catalogue.testing import (
    ROWS_CELLS,
    ROWS_FILE_KIND,
    ROWS_HEADER,
    ROWS_KEY_TWICE,
    ROWS_NO_HEADER,
    ROWS_NOT_CSV,
    ROWS_NOT_JSON,
    ROWS_NOT_LIST,
    ROWS_NOT_ROW,
)
from headwater.loaders.yaml_nodes import Source
from headwater.loaders.yaml_tree import read_text
from headwater.scripted.times import Cell
from headwater.testing.steps import Row
from headwater.values import Position

_SPACES = " \t\r\n"
_LINE_HINT = "Write one whole row on each line; if the file holds one list, let its name end in .json."
_LIST_HINT = 'Write one list of rows: [{"word": "owl"}, {"word": "cat"}].'


def read_rows(file: Path) -> list[Row]:
    """The rows of a file with their places; PipelineError says what can't be read, and where."""
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        ending = f'"{file.suffix}"' if file.suffix else "no known way"
        raise PipelineError(ROWS_FILE_KIND.at(file=file, ending=ending))
    return list(reader(Source(str(file), read_text(file, tuple(_READERS), "a file of rows"))))


class _KeyTwice(Exception):
    """An object gives the same key twice; its first argument is the key."""


@dataclass(frozen=True)
class _Json:
    """A text of JSON, and where its characters stand in the file."""

    text: str
    place: Callable[[int], Position]
    hint: str

    def skip(self, at: int) -> int:
        """The offset of the next character that is no space."""
        while self.text[at : at + 1] and self.text[at] in _SPACES:
            at += 1
        return at

    def value(self, at: int) -> tuple[Any, int]:
        """The value that begins at an offset, and the offset of what follows it."""
        try:
            value, end = _DECODER.raw_decode(self.text, at)
        except _KeyTwice as twice:
            raise PipelineError(ROWS_KEY_TWICE.at(self.place(at), key=twice.args[0])) from None
        except json.JSONDecodeError as error:
            raise self.refused(error.pos, error.msg) from None
        except (ValueError, RecursionError) as error:
            # Numbers of thousands of digits, lists within lists without end.
            raise self.refused(at, str(error)) from None
        return value, self.skip(end)

    def row(self, value: Any, at: int) -> Row:
        if not isinstance(value, dict | list):
            raise PipelineError(ROWS_NOT_ROW.at(self.place(at), kind=_kind(value)))
        return Row(value, self.place(at))

    def refused(self, at: int, reason: str) -> PipelineError:
        return PipelineError(ROWS_NOT_JSON.at(self.place(at), reason=reason, hint=self.hint))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _KeyTwice(key)
        found[key] = value
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


def _kind(value: Any) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return "a text"
        case bool():
            return "true or false"
        case None:
            return "null"
        case _:
            return "a number"


def _json_lines(source: Source) -> Iterator[Row]:
    for number, line in enumerate(source.lines, start=1):
        json_line = _Json(line, partial(_on_line, source.file, number), _LINE_HINT)
        start = json_line.skip(0)
        if start == len(line):
            continue
        value, end = json_line.value(start)
        if end < len(line):
            raise json_line.refused(end, "something follows the row")
        yield json_line.row(value, start)


def _on_line(file: str, line: int, offset: int) -> Position:
    return Position(file, line, offset + 1)


def _json_list(source: Source) -> Iterator[Row]:
    """The list is read row by row, since each row has a place of its own."""
    whole = _Json(source.text, source.at, _LIST_HINT)
    at = whole.skip(0)
    if not whole.text.startswith("[", at):
        raise PipelineError(ROWS_NOT_LIST.at(source.at(at), kind=_kind(whole.value(at)[0])))
    at = whole.skip(at + 1)
    more = not whole.text.startswith("]", at)
    while more:
        value, end = whole.value(at)
        yield whole.row(value, at)
        more = whole.text.startswith(",", end)
        at = whole.skip(end + 1) if more else end
    if not whole.text.startswith("]", at):
        raise whole.refused(at, "a comma or a closing bracket is missing")
    if (end := whole.skip(at + 1)) < len(whole.text):
        raise whole.refused(end, "something follows the list")


def _csv(source: Source) -> Iterator[Row]:
    records = _records(source)
    place, header = next(records, (Position(source.file, 1), []))
    names = [name.strip() for name in header]
    if not names:
        raise PipelineError(ROWS_NO_HEADER.at(place, file=source.file))
    for index, name in enumerate(names):
        if not name or name in names[:index]:
            reason = f'names "{name}" twice' if name else f"has no name for column {index + 1}"
            raise PipelineError(ROWS_HEADER.at(place, file=source.file, reason=reason))
    for place, cells in records:
        if len(cells) != len(names):
            raise PipelineError(ROWS_CELLS.at(place, found=len(cells), wanted=len(names)))
        yield Row(
            {name: Cell(cell) if cell else None for name, cell in zip(names, cells, strict=True)}, place
        )


def _records(source: Source) -> Iterator[tuple[Position, list[str]]]:
    """The cells of every record that is not empty, and the line on which it begins."""
    reader = csv.reader(io.StringIO(source.text, newline=""), strict=True)
    while True:
        place = Position(source.file, reader.line_num + 1)
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise PipelineError(ROWS_NOT_CSV.at(place, reason=error)) from None
        if cells is None:
            return
        if cells:
            yield place, cells


_READERS: dict[str, Callable[[Source], Iterator[Row]]] = {
    ".jsonl": _json_lines,
    ".json": _json_list,
    ".csv": _csv,
}
