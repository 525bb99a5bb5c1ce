"""What `hw.sinks` does without Spark and without a database."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.connectors.databases.sinks import PerStart
from headwater.errors import UsageError
from headwater.spark.query import ThreadQuery


def test_each_start_of_a_query_has_an_object_of_its_own() -> None:
    objects: PerStart[object] = PerStart()
    first = objects.of(ThreadQuery("q", "run 1", "0"), object)
    assert objects.of(ThreadQuery("q", "run 1", "1"), object) is first
    assert objects.of(ThreadQuery("other", "run 7", "0"), object) is not first
    second = objects.of(ThreadQuery("q", "run 2", "2"), object)
    assert second is not first
    assert objects.of(ThreadQuery("q", "run 2", "3"), object) is second


@pytest.mark.parametrize("function", [functools.partial(print), lambda batch, batch_id, token: None])
def test_a_function_without_a_name_needs_one(tmp_path: Path, function: Any) -> None:
    ledger = str(tmp_path / "ledger.db")
    with pytest.raises(UsageError, match="`name` is required") as error:
        hw.sinks.exactly_once(function, ledger=ledger)
    assert [each.code for each in error.value.problems] == ["HW-DATABASE-SINK-INVALID"]
    assert callable(hw.sinks.exactly_once(function, ledger=ledger, name="store"))


@pytest.mark.parametrize(
    ("ledger", "says"),
    [
        ("mysql://db/shop", "expected mysql://user:password@host:port/database, with a user and a database"),
        ("postgresql://a@b@db/shop", "contains a character that an address cannot contain"),
    ],
)
def test_the_address_of_a_ledger_names_its_database(ledger: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        hw.sinks.exactly_once(lambda batch, batch_id, token: None, ledger=ledger, name="store")
