"""Where something was declared: a file, a line, a column."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Position:
    """A place in a user's file; lines and columns count from 1."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class TextPosition:
    """Where a longer text (SQL) begins, and whether its lines follow the file's lines.

    In a YAML block scalar (`|`) line n of the text is a line of the file, shifted by the indent. In every
    other YAML form only its first line can be told (`exact`), in Python only the call.
    """

    start: Position
    follows_lines: bool = False
    exact: bool = True

    def at(self, line: int, column: int = 1) -> Position:
        """The place in the file of a line and column (from 1) of the text."""
        if not self.exact:
            return self.start
        if not self.follows_lines:
            if line == 1:
                return Position(self.start.file, self.start.line, self.start.column + column - 1)
            return self.start
        return Position(self.start.file, self.start.line + line - 1, self.start.column + column - 1)
