"""Whatever a connector's model asks for, a wrong value is told in plain words."""

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
    ("written", "sentence"),
    [
        ({"text": 3}, "`text` of the source `a` is not right: text is wanted here, not `3`."),
        ({"text": ""}, "`text` of the source `a` is not right: a longer text is wanted here, not ``."),
        ({"text": "A"}, "it should match pattern '^[a-z]+$', not `A`."),
        ({"text": None}, "it is empty; text is wanted here."),
        ({"number": 0}, "it should be greater than or equal to 1, not `0`."),
        ({"number": 10}, "it should be less than or equal to 9, not `10`."),
        ({"number": True}, "a whole number is wanted here, not `true`."),
        ({"number": "x"}, "a whole number is wanted here, not `x`."),
        ({"part": 0}, "a number greater than 0.0 is wanted here, not `0`."),
        ({"part": "x"}, "a number is wanted here, not `x`."),
        ({"flag": "yes"}, "true or false is wanted here, not `yes`."),
        ({"flag": 3}, "true or false is wanted here, not `3`."),
        ({"at": "soon"}, "a time such as 2026-01-31 12:00:00 is wanted here, not `soon`."),
        ({"one": "rde"}, "one of red, blue is wanted here, not `rde`."),
        ({"one": None}, "it is empty; one of red, blue is wanted here."),
        ({"one": ["red"]}, "one of red, blue is wanted here."),
        ({"several": "a"}, "a list is wanted here, not `a`."),
        (
            {"several": ["a", 3]},
            "Item 2 of `several` of the source `a` is not right: text is wanted here, not `3`.",
        ),
        ({"several": ["a", "b", "c"]}, "it should have at most 2 items, not 3."),
        ({"either": [1]}, "`either` of the source `a` is not right: a whole number is wanted here."),
        (
            {"pairs": {"x": "y"}},
            "`pairs.x` of the source `a` is not right: a whole number is wanted here, not `y`.",
        ),
        ({"pairs": 3}, "keys with values are wanted here, not `3`."),
        ({"odd": 3}, "`3` is odd."),
        ({"from": 3}, "`from` of the source `a` is not right: text is wanted here, not `3`."),
        ({"options": {"x": [1]}}, "`options.x` of the source `a` is not right: text is wanted here."),
    ],
)
def test_a_wrong_value(written: dict[str, Any], sentence: str) -> None:
    found = judged(**written)
    assert isinstance(found, list)
    (problem,) = found
    assert (problem.code, problem.sentence[-len(sentence) :]) == ("HW-VALUE-INVALID", sentence)
    assert list(unclear(found)) == []


@pytest.mark.parametrize(
    ("written", "remedy"),
    [
        ({"one": "rde"}, "Did you mean `red`?"),
        ({"one": 3}, "Write one of them, for instance `red`."),
        ({"odd": 3}, "Write an even number."),
        ({"text": 3}, 'Quote it: `"…"`.'),
    ],
)
def test_what_to_do_about_it(written: dict[str, Any], remedy: str) -> None:
    found = judged(**written)
    assert isinstance(found, list)
    assert [problem.remedy for problem in found] == [remedy]


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
