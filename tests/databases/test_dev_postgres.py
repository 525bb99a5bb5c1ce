"""`headwater dev postgres` and the sample project for it, as a user meets them."""

from __future__ import annotations

import os
import signal
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark import SparkContext

from headwater.api.project import init
from headwater.api.test import run_tests
from tests.pipelines import run_until_idle
from tests.processes import headwater


def started(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == "server_started"]


def test_a_server_and_the_sample_project(
    context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with headwater(tmp_path, "dev", "postgres", "--port", "0", "--json") as first:
        first.until(lambda: started(first.events))
        url = str(started(first.events)[0]["url"])
        monkeypatch.setenv("DATABASE_URL", url)
        assert init(tmp_path / "shop", "postgres").next_command.endswith("&& headwater dev postgres")
        assert run_until_idle(tmp_path / "shop" / "pipeline.yml").exit_code == 0
        with psycopg.connect(url) as connection:
            rows = connection.execute("SELECT * FROM revenue_per_minute").fetchall()
        first.signal(signal.SIGINT)
        assert first.wait() == 0
        assert first.events[-1]["event"] == "server_stopped"
    noon = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
    assert Counter(rows) == Counter(
        [
            (noon, "DE", 2, Decimal("42.50")),
            (noon, "FR", 1, Decimal("8.00")),
            (noon.replace(minute=1), "DE", 1, Decimal("5.25")),
            (noon.replace(minute=1), "FR", 1, Decimal("19.90")),
        ]
    )
    # The data is kept, and a server that dies ends the command with its reason.
    with headwater(tmp_path, "dev", "postgres", "--port", "0", "--json") as second:
        second.until(lambda: started(second.events))
        with psycopg.connect(str(started(second.events)[0]["url"])) as connection:
            assert connection.execute("SELECT count(*) FROM orders").fetchone() == (5,)
        os.kill(int(started(second.events)[0]["pid"]), signal.SIGKILL)
        assert second.wait() == 5
    assert "HW-POSTGRES-DIED" in second.stdout


def test_the_tests_of_the_sample_project_need_no_server(context: SparkContext, tmp_path: Path) -> None:
    init(tmp_path / "shop", "postgres")
    result = run_tests([tmp_path / "shop"])
    assert result.exit_code == 0
