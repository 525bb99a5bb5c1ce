"""The keys of a test file: models that say of each value what may stand there, and what to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Discriminator, Tag, ValidationInfo

from headwater.scripted.times import BadRow, Reading, read_time
from headwater.spec import Declared
from headwater.values import Duration

ROW_FILES = (".jsonl", ".json", ".csv")
TEST_EXAMPLE = "owls are counted: [{feed: {words: [{word: owl}]}}]"
STEP_EXAMPLE = "- feed: {words: [{word: owl}]}"
READ_EXAMPLE = '{read: "checks.py:read_totals"}'
WORDS = ("restart", "stop", "start", "crash")
ACTIONS = ("feed", "advance", *WORDS, "change_to")
CHECKS = ("expect", "watermark", "late", "state", "idle", "fails")
_ANY_DAY = Reading(date(2026, 1, 1), UTC)


def found_words(value: object) -> str:
    """What stands there, in words for a sentence."""
    match value:
        case None:
            return "nothing"
        case list():
            return "a list"
        case Mapping():
            return "keys with values"
        case bool():
            return f"`{str(value).lower()}`"
        case _:
            return f"`{str(value).splitlines()[0]}`" if str(value).strip() else "an empty text"


def _takes(wanted: str, example: str, fits: Callable[[Any], bool]) -> BeforeValidator:
    """Take what fits; else say what is wanted, and what to write for KEY."""

    def taken(value: object, info: ValidationInfo) -> object:
        if fits(value):
            return value
        written = example.replace("KEY", info.field_name or "")
        raise ValueError(f"{wanted} is wanted here, and there is {found_words(value)}; write `{written}`")

    return BeforeValidator(taken)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_named(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_filled(value: object) -> bool:
    return isinstance(value, Mapping) and len(value) > 0


def _is_scalar(value: object) -> bool:
    return value is not None and not isinstance(value, list | Mapping)


def _is_kind(value: object) -> bool:
    return value in ("real", "captured")


def _is_given(value: object) -> bool:
    return value == "real" or _are_rows(value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


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
    """A time as it was written; the pipeline's zone, in which it is meant, is known later."""

    def taken(value: object) -> str:
        try:
            read_time("" if value is None else value, _ANY_DAY)
        except BadRow as error:
            raise ValueError(f"{error.says}; write `{example}`") from None
        return str(value)

    return taken


def _mark(value: object) -> str | None:
    mark = _time("12:04` or, before there is one, `none")
    return None if value in (None, "none") else mark(value)


def _duration(value: str) -> str:
    try:
        Duration.parse(value)
    except ValueError as error:
        says = str(error).partition(": ")[0].rstrip(".")
        raise ValueError(f"{says}; write for instance `advance: 2 hours`") from None
    return value


def _word(value: object, info: ValidationInfo) -> object:
    if value is True:
        return value
    hint = f"write `- {info.field_name}`, or with checks `- {{{info.field_name}: true, expect: …}}`"
    raise ValueError(f"`true` is all that can stand here; {hint}")


def _form(value: object) -> str:
    return "named" if _is_named(value) else "one"


def _state_form(value: object) -> str:
    return "rows" if isinstance(value, list) else _form(value)


_NAMED = "a mapping by name"
_ROWS = f"a list of rows, or a file of them ({', '.join(ROW_FILES)}),"
_SIZE_EXAMPLE = "4` or `[{key: {word: owl}, value: {count: 1}}]"
RowsKey: TypeAlias = Annotated[Any, _takes(_ROWS, "[{word: owl, n: 1}]` or, for no rows, `[]", _are_rows)]
Word: TypeAlias = Annotated[bool, BeforeValidator(_word)]
Mark: TypeAlias = Annotated[str | None, BeforeValidator(_mark)]
Marks: TypeAlias = Annotated[dict[str, Mark], Tag("named")] | Annotated[Mark, Tag("one")]
Count: TypeAlias = Annotated[int, _takes("a whole number", "1", _is_count)]
Counts: TypeAlias = Annotated[dict[str, Count], Tag("named")] | Annotated[Count, Tag("one")]
StateSize: TypeAlias = Annotated[int, _takes("a whole number", _SIZE_EXAMPLE, _is_count)]
StateRows: TypeAlias = Annotated[Any, _takes("a list of rows", "[{key: {…}, value: {…}}]", _is_list)]
StateParts: TypeAlias = Annotated[dict[str, StateRows], Tag("named")]
State: TypeAlias = StateParts | Annotated[StateRows, Tag("rows")] | Annotated[StateSize, Tag("one")]


class StepKeys(Declared):
    """One step: an action, and what must be true after it; only what was said counts."""

    feed: Annotated[dict[str, RowsKey], _takes(_NAMED, "KEY: {words: [{word: owl}]}", _is_filled)] = {}
    advance: Annotated[str, BeforeValidator(_duration), _takes("text", "KEY: 2 hours", _is_text)] = ""
    restart: Word = False
    stop: Word = False
    start: Word = False
    crash: Word = False
    change_to: Annotated[str, _takes("text", "KEY: version2.yml", _is_text)] = ""
    expect: Annotated[
        dict[str, RowsKey], _takes(_NAMED, "KEY: {counts: [{word: owl, n: 1}]}", _is_named)
    ] = {}
    watermark: Annotated[Marks, Discriminator(_form)] = None
    late: Annotated[Counts, Discriminator(_form)] = 0
    state: Annotated[
        dict[str, Annotated[State, Discriminator(_state_form)]],
        _takes(_NAMED, "KEY: {counts: 4}", _is_named),
    ] = {}
    idle: Annotated[tuple[str, ...], _takes("a list of sources", "KEY: [clicks]", _are_texts)] = ()
    fails: Annotated[str, _takes("text", "KEY: words of the message", _is_text)] = ""


_GIVEN = "a list of rows, a file of them, or `real`,"
Variable: TypeAlias = Annotated[Any, _takes("text", "words", _is_scalar)]
Given: TypeAlias = Annotated[Any, _takes(_GIVEN, "[{word: owl, n: 1}]` or `real", _is_given)]
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
    """How the surroundings of a pipeline are replaced; only what was said counts."""

    day: Annotated[str, _takes("a day", "KEY: 2026-01-31", _is_day)] = ""
    clock: Annotated[str, BeforeValidator(_time("clock: 08:00"))] = ""
    env: Annotated[dict[str, Variable], _takes(_NAMED, "KEY: {TOPIC: words}", _is_named)] = {}
    given: Annotated[dict[str, Given], _takes(_NAMED, "KEY: {ads: [{word: owl, n: 1}]}", _is_named)] = {}
    sinks: Annotated[
        Annotated[dict[str, Sink], Tag("named")] | Annotated[AllSinks, Tag("one")], Discriminator(_form)
    ] = "captured"
    no_data_batches: bool = True


class TestKeys(SettingsKeys):
    """One test; written as a list it has steps alone."""

    __test__ = False

    steps: Annotated[
        Any, _takes("a list of steps", STEP_EXAMPLE, lambda value: not value or isinstance(value, list))
    ]


class FileKeys(SettingsKeys):
    """The top level of a test file."""

    pipeline: Annotated[str, _takes("text", "KEY: my_pipeline.yml", _is_text)]
    tests: Annotated[
        Any,
        _takes(
            "a mapping of names to steps",
            f"KEY: {{{TEST_EXAMPLE}}}",
            lambda value: not value or _is_named(value),
        ),
    ]


class ReadKeys(Declared):
    """How a real sink is read back."""

    read: Annotated[str, _takes("a function of a Python file", READ_EXAMPLE, _is_read)]
