"""Scratch tables in a database that is not available."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.connectors.databases import scratch
from headwater.connectors.databases.database import Database, Target, Unavailable
from headwater.connectors.databases.options import PostgresSink
from headwater.connectors.databases.postgres import Postgres
from headwater.errors import QueryFailedError
from headwater.spec import Mode


class Down(Postgres):
    """A server that cannot be reached."""

    def connect(self) -> Any:
        raise Unavailable("connection refused")


def down() -> Database:
    options = PostgresSink.model_validate({"url": "postgresql://h/d", "into": f"{scratch.PREFIX}ab12_0"})
    return Down(Target("out", "shop", Mode.APPEND, (), options))


def test_a_table_that_cannot_be_dropped_is_a_problem_of_its_sink() -> None:
    with pytest.raises(QueryFailedError) as error:
        scratch.discard(down(), patience=0)
    (problem,) = error.value.problems
    assert (problem.code, problem.params["says"]) == ("HW-DATABASE-UNAVAILABLE", "connection refused")
