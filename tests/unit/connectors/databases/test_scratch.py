"""Scratch tables in a database that is not available."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from headwater.connectors.contract import HoldLost
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


class Locked(Postgres):
    """A server whose first lock times out, or whose connection is lost later."""

    def __init__(self, *, at_lock: bool) -> None:
        super().__init__(down().target)
        self.at_lock = at_lock

    @contextmanager
    def connect(self) -> Iterator[Any]:
        try:
            yield self
        except psycopg.Error as error:
            raise self.trouble(error) from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self.at_lock:
            raise psycopg.errors.LockNotAvailable
        yield


class Row:
    """A row of the ledger."""

    def read(self, session: Any, *, lock: bool = False) -> Any:
        return SimpleNamespace(batch=3)


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_rows_of_ledger", lambda database, session: [Row()])


def test_commits_cannot_wait_if_the_server_is_down_or_the_lock_times_out(ledger: None) -> None:
    for database in (down(), Locked(at_lock=True)):
        with scratch.hold(database) as held:
            assert held is None


def test_a_connection_that_is_lost_meanwhile_is_translated(ledger: None) -> None:
    def lose() -> None:
        with scratch.hold(Locked(at_lock=False)) as held:
            assert held is not None
            raise psycopg.OperationalError("server closed the connection")

    with pytest.raises(HoldLost):
        lose()
