"""Durations as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from headwater.values import Duration


@pytest.mark.parametrize(
    ("text", "milliseconds", "canonical"),
    [
        ("10 minutes", 600_000, "10 minutes"),
        ("10 seconds", 10_000, "10 seconds"),
        ("60s", 60_000, "1 minute"),
        ("500 ms", 500, "500 milliseconds"),
        ("1ms", 1, "1 millisecond"),
        ("2h", 7_200_000, "2 hours"),
        ("1 hour 30 minutes", 5_400_000, "1 hour 30 minutes"),
        ("1h30m", 5_400_000, "1 hour 30 minutes"),
        ("90 min", 5_400_000, "1 hour 30 minutes"),
        ("1 day", 86_400_000, "1 day"),
        ("2 weeks", 1_209_600_000, "14 days"),
        ("1.5 hours", 5_400_000, "1 hour 30 minutes"),
        ("  5  SECONDS ", 5_000, "5 seconds"),
        ("0 seconds", 0, "0 seconds"),
    ],
)
def test_reads_and_writes(text: str, milliseconds: int, canonical: str) -> None:
    duration = Duration.parse(text)
    assert duration == Duration(milliseconds)
    assert str(duration) == canonical


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "write a number and a unit"),
        ("10", "has no unit"),
        ("ten minutes", "write a number and a unit"),
        ("10 minuts", "did you mean `minutes`?"),
        ("10 secnds", "did you mean `seconds`?"),
        ("1 month", "write a number and a unit"),
        ("-5 seconds", "is negative"),
        ("1 hour and 5 minutes", "is not a duration"),
        ("0.0001 seconds", "not a multiple of 1 ms"),
        ("9999999999999 weeks", "exceeds Spark's maximum"),
        ("10 minutes!", "is not a duration"),
    ],
)
def test_refuses_in_a_plain_sentence(text: str, hint: str) -> None:
    with pytest.raises(ValueError) as refused:
        Duration.parse(text)
    assert hint in str(refused.value)


def test_negative_is_refused_however_it_is_made() -> None:
    with pytest.raises(ValueError):
        Duration(-1)


def test_seconds_and_order() -> None:
    assert Duration(1_500).seconds == 1.5
    assert Duration.parse("59s") < Duration.parse("1 minute")


@given(st.integers(min_value=0, max_value=2**63 // 1_000))
def test_the_written_form_reads_back(milliseconds: int) -> None:
    assert Duration.parse(str(Duration(milliseconds))) == Duration(milliseconds)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        duration = Duration.parse(text)
    except ValueError:
        return
    assert Duration.parse(str(duration)) == duration


class Model(BaseModel):
    delay: Duration


@pytest.mark.parametrize("given_value", ["2 hours", "120 min", Duration(7_200_000)])
def test_a_model_takes_text_or_a_duration(given_value: object) -> None:
    model = Model.model_validate({"delay": given_value})
    assert model.delay == Duration(7_200_000)
    assert model.model_dump() == {"delay": Duration(7_200_000)}
    assert model.model_dump_json() == '{"delay":"2 hours"}'
    assert Model.model_validate_json(model.model_dump_json()) == model


@pytest.mark.parametrize("given_value", [10, None, "10", ["1 hour"]])
def test_a_model_refuses_the_rest(given_value: object) -> None:
    with pytest.raises(ValidationError):
        Model.model_validate({"delay": given_value})


def test_the_json_schema_is_a_text_with_examples() -> None:
    schema = Model.model_json_schema()["properties"]["delay"]
    assert schema["type"] == "string"
    assert [Duration.parse(example) for example in schema["examples"]]
