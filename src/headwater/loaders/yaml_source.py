"""The text of a YAML file, with its lines and places."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from headwater.values import Position

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
