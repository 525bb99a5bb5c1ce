"""Connectors are found through entry points, and what they can do is data."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from headwater.connectors import Connector, all_connectors, registry, sink_side, source_side
from headwater.errors import HeadwaterError, SetupError
from headwater.spec import Delivery

NOTHING = Connector("nothing", "Nothing.")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Entry points of the test's own."""
    points: list[Any] = []
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    all_connectors.cache_clear()
    yield points
    all_connectors.cache_clear()


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, registry.GROUP)


def codes() -> list[str]:
    with pytest.raises(HeadwaterError) as error:
        all_connectors()
    assert isinstance(error.value, SetupError)
    return [problem.code for problem in error.value.problems]


def test_the_built_in_connectors_are_there() -> None:
    names = {"console", "files", "foreach_batch", "noop", "rate", "rate_per_batch"}
    assert names <= set(all_connectors())


@pytest.mark.parametrize("name", sorted(all_connectors()))
def test_a_connector_says_what_it_is(name: str) -> None:
    connector = all_connectors()[name]
    assert connector.name == name
    assert connector.summary.endswith(".")
    assert connector.source or connector.sink


@pytest.mark.parametrize(
    ("name", "replayable", "batch"),
    [
        ("catalog", True, True),
        ("files", True, True),
        ("python", True, True),
        ("rate", True, False),
        ("rate_per_batch", True, False),
        ("socket", False, False),
    ],
)
def test_what_sources_can_do(name: str, replayable: bool, batch: bool) -> None:
    side = source_side(name)
    assert (side.replayable, side.batch) == (replayable, batch)


@pytest.mark.parametrize(
    ("name", "modes", "delivery", "stores"),
    [
        ("files", {"append"}, Delivery.IDEMPOTENT, True),
        ("console", {"append", "update", "complete"}, Delivery.DUPLICATES, False),
        ("noop", {"append", "update", "complete"}, Delivery.IDEMPOTENT, False),
        ("foreach_batch", {"append", "update", "complete"}, Delivery.USER, False),
    ],
)
def test_what_sinks_can_do(name: str, modes: set[str], delivery: Delivery, stores: bool) -> None:
    side = sink_side(name)
    assert (set(side.modes), side.delivery, side.stores, side.batch) == (modes, delivery, stores, True)


@pytest.mark.parametrize(("side", "name"), [(source_side, "console"), (sink_side, "rate"), (sink_side, "no")])
def test_a_side_that_is_not_there(side: Any, name: str) -> None:
    with pytest.raises(KeyError):
        side(name)


def test_a_module_that_is_not_there(installed: list[Any]) -> None:
    installed.append(point("lost", "no_such_module:CONNECTOR"))
    assert codes() == ["HW-CONNECTOR-LOAD-FAILED"]


def test_a_value_that_is_no_connector(installed: list[Any]) -> None:
    installed.append(point("path", "os:sep"))
    assert codes() == ["HW-CONNECTOR-LOAD-FAILED"]


def test_a_connector_of_another_name(installed: list[Any]) -> None:
    installed.append(_holding("something", NOTHING))
    assert codes() == ["HW-CONNECTOR-LOAD-FAILED"]


def test_two_connectors_of_one_name(installed: list[Any]) -> None:
    installed += [_holding("nothing", NOTHING), _holding("nothing", Connector("nothing", "Other."))]
    assert codes() == ["HW-CONNECTOR-NAME-CONFLICT"]


def test_the_same_connector_twice_is_one(installed: list[Any]) -> None:
    installed += [_holding("nothing", NOTHING), _holding("nothing", NOTHING)]
    assert all_connectors() == {"nothing": NOTHING}


def _holding(name: str, connector: Connector) -> Any:
    class Holding:
        value = "tests:CONNECTOR"

        def __init__(self) -> None:
            self.name = name

        def load(self) -> Connector:
            return connector

    return Holding()
