"""A disk that is full while a batch is written: the batch fails with its cause, and continues when there is room."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.connectors.databases.writer import TableWriter
from headwater.errors import QueryFailedError
from tests.databases.conftest import Store, a_batch
from tests.databases.test_conformance import problem_of

Resize = Callable[[int], None]
SAYS = {
    "postgres": "No space left on device",
    "mysql": "is full",
    "sqlite": "database or disk is full",
    "duckdb": "No space left on device",
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Path, Resize]]:
    """A small file system of its own, and what changes its size in megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m,mode=777", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root can mount a small disk")
    try:
        yield folder, lambda size: _run("mount", "-o", f"remount,size={size}m", str(folder))
    finally:
        # The servers can still have files open there.
        _run("umount", "--lazy", str(folder))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def keys_on(store: Store, folder: Path) -> Iterator[dict[str, Any]]:
    """The keys of a sink whose table is on this disk; afterwards, the server of all tests has nothing there."""
    own = folder / "own"
    own.mkdir(mode=0o777)
    if store.kind.name == "postgres":
        space = f"small_{store.schema}"
        store.run(f"CREATE TABLESPACE {space} LOCATION '{own}'")
        try:
            yield {"url": f"{store.keys['url']}?options=-c%20default_tablespace%3D{space}"}
        finally:
            store.run(f"DROP SCHEMA {store.schema} CASCADE")
            store.run(f"CREATE SCHEMA {store.schema}")
            store.run(f"DROP TABLESPACE {space}")
    elif store.kind.name == "mysql":
        store.run(f"CREATE TABLE {store.into('t')} (id bigint, x longtext) DATA DIRECTORY = '{own}'")
        try:
            yield {}
        finally:
            store.run(f"DROP TABLE {store.into('t')}")
    else:
        store.keys = {"path": str(own / "shop.db")}
        yield {}


def test_a_disk_that_is_full(spark: SparkSession, store: Store, disk: tuple[Path, Resize]) -> None:
    folder, resize = disk
    with keys_on(store, folder) as keys:
        fill(spark, store, keys, resize)


def fill(spark: SparkSession, store: Store, keys: dict[str, Any], resize: Resize) -> None:
    def rows(count: int) -> DataFrame:
        # Random texts, which no database compresses.
        return spark.range(0, count, 1, 2).selectExpr("id", "repeat(string(rand()), 100) AS x")

    TableWriter(store.database(rows(1), "t", **keys), patience=0.5).write(rows(3), a_batch(0))
    writer = TableWriter(store.database(rows(1), "t", **keys), patience=0.5)
    many = rows(5_000)
    with pytest.raises(QueryFailedError) as error:
        writer.write(many, a_batch(1))
    problem = problem_of(error)
    assert (problem.code, problem.entry.retryable) == ("HW-DATABASE-UNAVAILABLE", True)
    assert SAYS[store.kind.name] in str(problem.params["says"])
    assert store.rows("t", "id") == Counter((number,) for number in range(3))
    assert store.ledger() == [(0, 1)]
    resize(60)
    writer.write(many, a_batch(1))
    assert store.rows("t", "id") == Counter([*((n,) for n in range(3)), *((n,) for n in range(5_000))])
    assert store.ledger() == [(1, 1)]
