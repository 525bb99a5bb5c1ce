"""Triggers as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from headwater.values import (
    AvailableNow,
    Continuous,
    Duration,
    Every,
    Once,
    RealTime,
    Trigger,
    TriggerField,
    Unpaced,
    parse_trigger,
)


@pytest.mark.parametrize(
    ("text", "trigger", "written"),
    [
        ("every 10 seconds", Every(Duration(10_000)), "every 10 seconds"),
        ("every 60s", Every(Duration(60_000)), "every 1 minute"),
        ("Every 1 hour 30 minutes", Every(Duration(5_400_000)), "every 1 hour 30 minutes"),
        ("continuous 1 second", Continuous(Duration(1000)), "continuous 1 second"),
        (" Continuous  500ms", Continuous(Duration(500)), "continuous 500 milliseconds"),
        ("real time 5 minutes", RealTime(Duration(300_000)), "real time 5 minutes"),
        ("Real  Time 300s", RealTime(Duration(300_000)), "real time 5 minutes"),
        ("once", Once(), "once"),
        ("available now", AvailableNow(), "available now"),
        (" Available  Now ", AvailableNow(), "available now"),
    ],
)
def test_reads_and_writes(text: str, trigger: Trigger, written: str) -> None:
    assert parse_trigger(text) == trigger
    assert str(trigger) == written
    assert parse_trigger(written) == trigger


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("10 seconds", "did you mean `every 10 seconds`?"),
        ("evry 10 seconds", "did you mean `every 10 seconds`?"),
        ("onec", "did you mean `once`?"),
        ("available_now", "did you mean `available now`?"),
        ("availableNow", "did you mean `available now`?"),
        ("continous 1 second", "did you mean `continuous 1 second`?"),
        ("realtime 5 minutes", "did you mean `real time 5 minutes`?"),
        ("real-time 5 minutes", "did you mean `real time 5 minutes`?"),
        ("continuous", "write `continuous 1 second`"),
        ("real time", "write `real time 5 minutes`"),
        ("real time 5", "has no unit"),
        ("every", "needs an interval"),
        ("every 10", "has no unit"),
        ("every 10 secnds", "did you mean `seconds`?"),
        ("whenever", "write "),
        ("", "write "),
    ],
)
def test_refuses_with_the_nearest_word(text: str, hint: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_trigger(text)
    assert hint in str(refused.value)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        trigger = parse_trigger(text)
    except ValueError:
        return
    assert parse_trigger(str(trigger)) == trigger


class Model(BaseModel):
    trigger: TriggerField = Unpaced()


@pytest.mark.parametrize(
    ("given_value", "trigger", "json"),
    [
        ("every 10 seconds", Every(Duration(10_000)), '{"trigger":"every 10 seconds"}'),
        (Once(), Once(), '{"trigger":"once"}'),
        (None, Unpaced(), '{"trigger":null}'),
    ],
)
def test_a_model_takes_text_or_a_trigger(given_value: object, trigger: Trigger, json: str) -> None:
    model = Model.model_validate({"trigger": given_value})
    assert model.trigger == trigger
    assert Model.model_validate(model.model_dump()) == model
    assert model.model_dump_json() == json
    assert Model.model_validate_json(json) == model


@pytest.mark.parametrize("given_value", [10, "10", True, {"every": "10 seconds"}])
def test_a_model_refuses_the_rest(given_value: object) -> None:
    with pytest.raises(ValidationError):
        Model.model_validate({"trigger": given_value})


def test_the_json_schema_is_a_text_with_examples() -> None:
    schema = Model.model_json_schema()["properties"]["trigger"]
    assert schema["type"] == "string"
    assert [parse_trigger(example) for example in schema["examples"]]
