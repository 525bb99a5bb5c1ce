"""Typed constructors and the connectors' models say the same."""

from __future__ import annotations

import inspect
import keyword
from typing import Any

import pytest

import headwater
from headwater.connectors import Connector, all_connectors
from headwater.loaders import python_form
from headwater.loaders.keys import known_keys
from headwater.loaders.python_form import ConnectorCall

BUILT_IN = sorted(name for name, each in all_connectors().items() if each.built_in)


def sides(connector: Connector) -> list[Any]:
    return [side.options for side in (connector.source, connector.sink) if side]


def parameter(key: str) -> str:
    """The name that Python allows: `class_` for `class`."""
    return f"{key}_" if keyword.iskeyword(key) else key


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_constructor_takes_exactly_the_keys_of_the_connector(name: str) -> None:
    function = getattr(python_form, name)
    keys = {parameter(key) for model in sides(all_connectors()[name]) for key in known_keys(model)}
    assert set(inspect.signature(function).parameters) == keys
    assert getattr(headwater, name) is function
    assert function.__doc__


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_constructor_wants_what_every_side_wants(name: str) -> None:
    parameters = inspect.signature(getattr(python_form, name)).parameters.values()
    wanted = {each.name for each in parameters if each.default is inspect.Parameter.empty}
    required = [
        {parameter(field.alias or key) for key, field in model.model_fields.items() if field.is_required()}
        for model in sides(all_connectors()[name])
    ]
    assert wanted == set.intersection(*required)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_key_is_given_by_its_name(name: str) -> None:
    parameters = inspect.signature(getattr(python_form, name)).parameters.values()
    assert {each.kind for each in parameters} <= {inspect.Parameter.KEYWORD_ONLY}


def test_what_is_not_given_is_not_there() -> None:
    call = headwater.files(path="in", format="csv", header=False, options={"a": 1})
    assert call == ConnectorCall(
        "files", {"path": "in", "format": "csv", "header": False, "options": {"a": 1}}
    )
    assert headwater.python(class_="a.py:B", schema="id int") == ConnectorCall(
        "python", {"class": "a.py:B", "schema": "id int"}
    )
    assert headwater.connector("mine", name="x", other=None) == ConnectorCall("mine", {"name": "x"})
