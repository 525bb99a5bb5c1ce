"""Where rows stood: whether a query has met them there, and how the place is named."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.checkpoint import Read
from headwater.connectors import source_side
from headwater.connectors.connector import ValidatesRows
from headwater.connectors.contract import place_in_words
from tests.quarantines import row

READ = Read(({"t": {"0": 11}},), frozenset({"/in/a b.json"}))
NOWHERE: dict[str, Any] = {"topic": None, "partition": None, "offset": None}


def has_read(connector: str, read: Read, **place: Any) -> bool:
    side = source_side(connector)
    assert isinstance(side, ValidatesRows)
    return side.has_read(read, row(**place))


@pytest.mark.parametrize(("offset", "expected"), [(10, True), (11, False), (12, False)])
def test_messages(offset: int, expected: bool) -> None:
    assert has_read("kafka", READ, offset=offset) is expected
    assert not has_read("kafka", READ, offset=0, partition=1)
    assert not has_read("kafka", READ, offset=0, topic="u")
    assert not has_read("kafka", Read(), offset=0)


def test_files() -> None:
    assert has_read("files", READ, **NOWHERE, file="/in/a b.json")
    assert not has_read("files", READ, **NOWHERE, file="/in/c.json")


def test_places_are_named() -> None:
    assert place_in_words(row(7)) == "t partition 0 offset 7"
    assert place_in_words(row(**NOWHERE, file="/in/c.json")) == "/in/c.json"
    assert place_in_words(row(**NOWHERE)) == ""
