"""One JVM of the test process computes and reads results; the runs that are killed have their own."""

from __future__ import annotations

import pytest

from tests import short_lives
from tests.databases.conftest import context, mariadb, mysql, postgres, server

__all__ = ["context", "mariadb", "mysql", "postgres", "server"]


@pytest.fixture(autouse=True)
def short_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVMs of the runs start as fast as those of other tests."""
    for name, value in short_lives.environment().items():
        monkeypatch.setenv(name, value)
