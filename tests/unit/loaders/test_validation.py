"""A wrong value of any type is reported in plain words."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, Field

from headwater.errors import Problem
from headwater.loaders.keys import Declaration, Part, known_keys
from headwater.loaders.validation import validated
from headwater.spec import SourceOptions
from headwater.values import Position, TextPosition, secret
from tests.unit.loaders.refusing import unclear


def even(number: int) -> int:
    if number % 2:
        raise ValueError(f"`{number}` is odd; write an even number")
    return number


class Options(SourceOptions):
    """Keys with every kind of wish."""

    text: str = Field(default="x", min_length=1, pattern="^[a-z]+$")
    number: int = Field(default=1, ge=1, le=9)
    part: float = Field(default=0.5, gt=0)
    flag: bool | None = None
    at: datetime | None = None
    one: Literal["red", "blue"] = "red"
    several: list[str] = Field(default_factory=list, max_length=2)
    either: int | str = 1
    pairs: dict[str, int] = Field(default_factory=dict)
    odd: Annotated[int, AfterValidator(even)] = 2
    from_: str = Field(default="", alias="from")


class Places:
    def of_key(self, route: tuple[str | int, ...]) -> Position:
        return Position("p.yml", 1)

    of_value = of_key

    def of_text(self, route: tuple[str | int, ...]) -> TextPosition:
        return TextPosition(self.of_key(route))


def judged(**written: Any) -> Options | list[Problem]:
    declaration = Declaration({}, Places(), Path("/project"), "p.yml")
    return validated(Options, Part(written, declaration, ("sources", "a"), "the source `a`"))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"text": 3}, "Source `a`: invalid `text` `3`. Expected a string."),
        ({"text": ""}, "Source `a`: invalid `text` ``. Expected a non-empty string."),
        ({"text": "A"}, "invalid `text` `A`. Expected a string that matches `^[a-z]+$`."),
        ({"text": None}, "Source `a`: `text` is empty. Expected a string."),
        ({"number": 0}, "invalid `number` `0`. Expected a number of at least 1."),
        ({"number": 10}, "invalid `number` `10`. Expected a number of at most 9."),
        ({"number": True}, "invalid `number` `true`. Expected an integer."),
        ({"number": "x"}, "invalid `number` `x`. Expected an integer."),
        ({"part": 0}, "invalid `part` `0`. Expected a number greater than 0."),
        ({"part": "x"}, "invalid `part` `x`. Expected a number."),
        ({"flag": "yes"}, "invalid `flag` `yes`. Expected `true` or `false`."),
        ({"flag": 3}, "invalid `flag` `3`. Expected `true` or `false`."),
        ({"at": "soon"}, "invalid `at` `soon`. Expected a timestamp such as 2026-01-31 12:00:00."),
        ({"one": "rde"}, "Source `a`: invalid `one` `rde`. Expected one of red, blue."),
        ({"one": None}, "Source `a`: `one` is empty. Expected one of red, blue."),
        ({"one": ["red"]}, "invalid `one`. Expected one of red, blue."),
        ({"several": "a"}, "invalid `several` `a`. Expected a list."),
        (
            {"several": ["a", 3]},
            "Source `a`: invalid item 2 of `several`: `3`. Expected a string.",
        ),
        ({"several": ["a", "b", "c"]}, "Source `a`: invalid `several`. Expected at most 2 items, got 3."),
        ({"either": [1]}, "Source `a`: invalid `either`. Expected an integer."),
        (
            {"pairs": {"x": "y"}},
            "Source `a`: invalid `pairs.x` `y`. Expected an integer.",
        ),
        ({"pairs": 3}, "invalid `pairs` `3`. Expected a mapping."),
        ({"odd": 3}, "Source `a`: invalid `odd`: `3` is odd."),
        ({"from": 3}, "Source `a`: invalid `from` `3`. Expected a string."),
        ({"options": {"x": [1]}}, "Source `a`: invalid `options.x`. Expected a string."),
    ],
)
def test_a_wrong_value(written: dict[str, Any], message: str) -> None:
    found = judged(**written)
    assert isinstance(found, list)
    (problem,) = found
    assert (problem.code, problem.message[-len(message) :]) == ("HW-VALUE-INVALID", message)
    assert list(unclear(found)) == []


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ({"one": "rde"}, "Did you mean `red`?"),
        ({"one": 3}, "Use one of these values, such as `red`."),
        ({"odd": 3}, "Write an even number."),
        ({"text": 3}, 'Quote it: `"3"`.'),
    ],
)
def test_what_to_do_about_it(written: dict[str, Any], hint: str) -> None:
    found = judged(**written)
    assert isinstance(found, list)
    assert [problem.hint for problem in found] == [hint]


@pytest.mark.parametrize("key", ["text", "number", "flag", "at", "one", "several", "either", "pairs", "odd"])
def test_a_secret_where_none_may_be(key: str) -> None:
    found = judged(**{key: secret("KEY")})
    assert isinstance(found, list)
    assert [problem.code for problem in found] == ["HW-SECRET-NOT-ALLOWED"]


def test_a_secret_where_it_belongs() -> None:
    assert isinstance(judged(options={"key": secret("KEY")}), Options)


def test_the_keys_of_a_model_are_those_that_users_write() -> None:
    keys = known_keys(Options)
    assert {"from", "options", "text"} <= set(keys)
    assert not {"from_", "position"} & set(keys)
