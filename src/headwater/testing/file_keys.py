"""The keys of a test file: models that define the valid values, with examples."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Discriminator, Tag, ValidationInfo

from headwater.errors import PipelineError
from headwater.errors.catalogue.testing import (
    ROWS_CELLS_MISMATCH,
    ROWS_CSV_INVALID,
    ROWS_FILE_UNSUPPORTED,
    ROWS_HEADER_INVALID,
    ROWS_HEADER_MISSING,
    ROWS_JSON_INVALID,
    ROWS_KEY_DUPLICATE,
    ROWS_LIST_INVALID,
    ROWS_ROW_INVALID,
)
from headwater.loaders.yaml_form import read_text
from headwater.loaders.yaml_syntax import Source
from headwater.spec import Declared
from headwater.testing.steps import Row
from headwater.testing.values import BadRow, Cell, LocalDay, read_time
from headwater.values import Duration, Position

ROW_FILES = (".jsonl", ".json", ".csv")
TEST_EXAMPLE = "owls are counted: [{feed: {words: [{word: owl}]}}]"
STEP_EXAMPLE = "- feed: {words: [{word: owl}]}"
READ_EXAMPLE = '{read: "checks.py:read_totals"}'
WORDS = ("restart", "stop", "start", "crash")
ACTIONS = ("feed", "advance", *WORDS, "change_to")
CHECKS = ("expect", "watermark", "late", "state", "idle", "fails")
_ANY_DAY = LocalDay(date(2026, 1, 1), UTC)


def found_words(value: object) -> str:
    """A value in a message."""
    match value:
        case None:
            return "nothing"
        case list():
            return "a list"
        case Mapping():
            return "a mapping"
        case bool():
            return f"`{str(value).lower()}`"
        case _:
            return f"`{str(value).splitlines()[0]}`" if str(value).strip() else "an empty string"


def _takes(wanted: str, example: str, fits: Callable[[Any], bool]) -> BeforeValidator:
    """Accept valid values; for others, report what is expected, and what to write for KEY."""

    def taken(value: object, info: ValidationInfo) -> object:
        if fits(value):
            return value
        written = example.replace("KEY", info.field_name or "")
        raise ValueError(f"expected {wanted}, got {found_words(value)}; write `{written}`")

    return BeforeValidator(taken)


def _of(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds)


def _is_filled(value: object) -> bool:
    return isinstance(value, Mapping) and len(value) > 0


def _is_scalar(value: object) -> bool:
    return value is not None and not isinstance(value, list | Mapping)


def _is_kind(value: object) -> bool:
    return value in ("real", "captured")


def _are_sources(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_rows(value: object) -> bool:
    return isinstance(value, list) or (isinstance(value, str) and value.endswith(ROW_FILES))


def _is_day(value: object) -> bool:
    try:
        return isinstance(value, str) and date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _is_read(value: object) -> bool:
    file, _, name = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return file.endswith(".py") and name.isidentifier()


def _time(example: str) -> Callable[[object], str]:
    """A time as written; the pipeline's time zone, which applies to it, is known later."""

    def taken(value: object) -> str:
        try:
            read_time("" if value is None else value, _ANY_DAY)
        except BadRow as error:
            raise ValueError(f"{error.says}; write `{example}`") from None
        return str(value)

    return taken


def _mark(value: object) -> str | None:
    mark = _time("12:04` or, before the first watermark, `none")
    return None if value in (None, "none") else mark(value)


def _duration(value: str) -> str:
    try:
        Duration.parse(value)
    except ValueError as error:
        says = str(error).partition("; ")[0].rstrip(".")
        raise ValueError(f"{says}; write `advance: 2 hours`") from None
    return value


def _word(value: object, info: ValidationInfo) -> object:
    if value is True:
        return value
    hint = f"write `- {info.field_name}`, or with checks `- {{{info.field_name}: true, expect: …}}`"
    raise ValueError(f"expected `true`, got {found_words(value)}; {hint}")


def _form(value: object) -> str:
    return "named" if isinstance(value, Mapping) else "one"


def _state_form(value: object) -> str:
    return "rows" if isinstance(value, list) else _form(value)


_NAMED = "a mapping of names"
_ROWS = f"a list of rows, or a file of rows ({', '.join(ROW_FILES)})"
_SIZE_EXAMPLE = "4` or `[{key: {word: owl}, value: {count: 1}}]"
RowsKey: TypeAlias = Annotated[Any, _takes(_ROWS, "[{word: owl, n: 1}]` or, for no rows, `[]", _are_rows)]
Word: TypeAlias = Annotated[bool, BeforeValidator(_word)]
Mark: TypeAlias = Annotated[str | None, BeforeValidator(_mark)]
Marks: TypeAlias = Annotated[dict[str, Mark], Tag("named")] | Annotated[Mark, Tag("one")]
Count: TypeAlias = Annotated[int, _takes("an integer", "1", _is_count)]
Counts: TypeAlias = Annotated[dict[str, Count], Tag("named")] | Annotated[Count, Tag("one")]
StateSize: TypeAlias = Annotated[int, _takes("an integer", _SIZE_EXAMPLE, _is_count)]
StateRows: TypeAlias = Annotated[Any, _takes("a list of rows", "[{key: {…}, value: {…}}]", _of(list))]
StateParts: TypeAlias = Annotated[dict[str, StateRows], Tag("named")]
State: TypeAlias = StateParts | Annotated[StateRows, Tag("rows")] | Annotated[StateSize, Tag("one")]


class StepKeys(Declared):
    """One step: an action, and what must be true after it; only keys that are set count."""

    feed: Annotated[dict[str, RowsKey], _takes(_NAMED, "KEY: {words: [{word: owl}]}", _is_filled)] = {}
    advance: Annotated[str, BeforeValidator(_duration), _takes("a string", "KEY: 2 hours", _of(str))] = ""
    restart: Word = False
    stop: Word = False
    start: Word = False
    crash: Word = False
    change_to: Annotated[str, _takes("a string", "KEY: version2.yml", _of(str))] = ""
    expect: Annotated[
        dict[str, RowsKey], _takes(_NAMED, "KEY: {counts: [{word: owl, n: 1}]}", _of(Mapping))
    ] = {}
    watermark: Annotated[Marks, Discriminator(_form)] = None
    late: Annotated[Counts, Discriminator(_form)] = 0
    state: Annotated[
        dict[str, Annotated[State, Discriminator(_state_form)]],
        _takes(_NAMED, "KEY: {counts: 4}", _of(Mapping)),
    ] = {}
    idle: Annotated[tuple[str, ...], _takes("a list of sources", "KEY: [clicks]", _are_sources)] = ()
    fails: Annotated[str, _takes("a string", "KEY: words of the message", _of(str))] = ""


_GIVEN = "a list of rows, a file of rows, or `real`"
Variable: TypeAlias = Annotated[Any, _takes("text", "words", _is_scalar)]
Given: TypeAlias = Annotated[
    Any, _takes(_GIVEN, "[{word: owl, n: 1}]` or `real", lambda value: value == "real" or _are_rows(value))
]
Sink: TypeAlias = Annotated[
    Any,
    _takes(
        f"`captured`, `real` or `{READ_EXAMPLE}`", "real", lambda value: _is_filled(value) or _is_kind(value)
    ),
]
AllSinks: TypeAlias = Annotated[
    Any, _takes("`captured` or `real`", "KEY: real` or `KEY: {counts: real}", _is_kind)
]


class SettingsKeys(Declared):
    """How the environment of a pipeline is replaced; only keys that are set count."""

    day: Annotated[str, _takes("a day", "KEY: 2026-01-31", _is_day)] = ""
    clock: Annotated[str, BeforeValidator(_time("clock: 08:00"))] = ""
    env: Annotated[dict[str, Variable], _takes(_NAMED, "KEY: {TOPIC: words}", _of(Mapping))] = {}
    given: Annotated[dict[str, Given], _takes(_NAMED, "KEY: {ads: [{word: owl, n: 1}]}", _of(Mapping))] = {}
    sinks: Annotated[
        Annotated[dict[str, Sink], Tag("named")] | Annotated[AllSinks, Tag("one")], Discriminator(_form)
    ] = "captured"
    no_data_batches: bool = True


class TestKeys(SettingsKeys):
    """One test; if it is a list, it has only steps."""

    __test__ = False

    steps: Annotated[
        Any, _takes("a list of steps", STEP_EXAMPLE, lambda value: not value or isinstance(value, list))
    ]


class FileKeys(SettingsKeys):
    """The top level of a test file."""

    pipeline: Annotated[str, _takes("a string", "KEY: my_pipeline.yml", _of(str))]
    tests: Annotated[
        Any,
        _takes(
            "a mapping of names to steps",
            f"KEY: {{{TEST_EXAMPLE}}}",
            lambda value: not value or isinstance(value, Mapping),
        ),
    ]


class ReadKeys(Declared):
    """How a real sink is read back."""

    read: Annotated[str, _takes("a function in a Python file", READ_EXAMPLE, _is_read)]


# Rows that a test stores in a separate file: .jsonl, .json or .csv.

_SPACES = " \t\r\n"
_LINE_HINT = "Write one complete row per line. If the file contains one list, rename it to end in .json."
_LIST_HINT = 'Write one list of rows: [{"word": "owl"}, {"word": "cat"}].'


def read_rows(file: Path) -> list[Row]:
    """The rows of a file with their positions; PipelineError reports what is invalid, and where."""
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        ending = f"`{file.suffix}`" if file.suffix else "none"
        raise PipelineError(ROWS_FILE_UNSUPPORTED.at(file=file, ending=ending))
    return list(reader(Source(str(file), read_text(file, tuple(_READERS), "a row file"))))


class _KeyTwice(Exception):
    """An object has the same key twice; its first argument is the key."""


@dataclass(frozen=True)
class _Json:
    """A JSON text: a whole file, or one line of it."""

    source: Source
    text: str
    hint: str
    line: int | None = None

    def place(self, at: int) -> Position:
        return Position(self.source.file, self.line, at + 1) if self.line else self.source.at(at)

    def skip(self, at: int) -> int:
        """The offset of the next character that is not a space."""
        while self.text[at : at + 1] and self.text[at] in _SPACES:
            at += 1
        return at

    def value(self, at: int) -> tuple[Any, int]:
        """The value that starts at an offset, and the offset of what follows it."""
        try:
            value, end = _DECODER.raw_decode(self.text, at)
        except _KeyTwice as twice:
            raise PipelineError(ROWS_KEY_DUPLICATE.at(self.place(at), key=twice.args[0])) from None
        except json.JSONDecodeError as error:
            raise self.refused(error.pos, error.msg) from None
        except (ValueError, RecursionError) as error:
            # Numbers with thousands of digits, deeply nested lists.
            raise self.refused(at, str(error)) from None
        return value, self.skip(end)

    def row(self, value: Any, at: int) -> Row:
        if not isinstance(value, dict | list):
            raise PipelineError(ROWS_ROW_INVALID.at(self.place(at), kind=_KINDS.get(type(value), "a number")))
        return Row(value, self.place(at))

    def refused(self, at: int, reason: str) -> PipelineError:
        return PipelineError(ROWS_JSON_INVALID.at(self.place(at), reason=reason, hint=self.hint))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _KeyTwice(key)
        found[key] = value
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}


def _json_lines(source: Source) -> Iterator[Row]:
    for number, line in enumerate(source.lines, start=1):
        json_line = _Json(source, line, _LINE_HINT, number)
        start = json_line.skip(0)
        if start == len(line):
            continue
        value, end = json_line.value(start)
        if end < len(line):
            raise json_line.refused(end, "unexpected text after the row")
        yield json_line.row(value, start)


def _json_list(source: Source) -> Iterator[Row]:
    """Read the list row by row, so that each row has its own position."""
    whole = _Json(source, source.text, _LIST_HINT)
    at = whole.skip(0)
    if not whole.text.startswith("[", at):
        raise PipelineError(
            ROWS_LIST_INVALID.at(source.at(at), kind=_KINDS.get(type(whole.value(at)[0]), "a number"))
        )
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
        raise whole.refused(end, "unexpected text after the list")


def _csv(source: Source) -> Iterator[Row]:
    records = _records(source)
    place, header = next(records, (Position(source.file, 1), []))
    names = [name.strip() for name in header]
    if not names:
        raise PipelineError(ROWS_HEADER_MISSING.at(place, file=source.file))
    for index, name in enumerate(names):
        if not name or name in names[:index]:
            reason = f'has the column "{name}" twice' if name else f"has no name for column {index + 1}"
            raise PipelineError(ROWS_HEADER_INVALID.at(place, file=source.file, reason=reason))
    for place, cells in records:
        if len(cells) != len(names):
            raise PipelineError(ROWS_CELLS_MISMATCH.at(place, found=len(cells), wanted=len(names)))
        yield Row(
            {name: Cell(cell) if cell else None for name, cell in zip(names, cells, strict=True)}, place
        )


def _records(source: Source) -> Iterator[tuple[Position, list[str]]]:
    """The cells of every record that is not empty, and the line on which it starts."""
    reader = csv.reader(io.StringIO(source.text, newline=""), strict=True)
    while True:
        place = Position(source.file, reader.line_num + 1)
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise PipelineError(ROWS_CSV_INVALID.at(place, reason=error)) from None
        if cells is None:
            return
        if cells:
            yield place, cells


_READERS: dict[str, Callable[[Source], Iterator[Row]]] = {
    ".jsonl": _json_lines,
    ".json": _json_list,
    ".csv": _csv,
}
