"""Proofs of every exactly-once sink in every mode: 252 kills and no violation. `make soak` runs them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext

from headwater.api.prove import ProofOptions, run_proof
from headwater.cli.prove_views import ProofLines, certificate_lines
from headwater.proof.certificate import Certificate, Reference
from tests.databases.conftest import MysqlStore, PostgresStore
from tests.proof.planted import FILES, ROWS, of_code, project

KILLS = int(os.environ.get("HEADWATER_SOAK_KILLS", "42"))
SEED = int(os.environ.get("HEADWATER_SOAK") or 1)


def database(keys: str) -> list[str]:
    """A sink of a database in each mode."""
    return [
        f"added: {{reads: slim, {keys}, into: {{}}added}}",
        f"closed: {{reads: windows, {keys}, into: {{}}closed}}",
        f"upserted: {{reads: totals, {keys}, into: {{}}upserted, mode: update, key: page}}",
        f"replaced: {{reads: totals, {keys}, into: {{}}replaced, mode: complete}}",
    ]


def proof(file: Path) -> Certificate:
    """A proof that shows every kill."""
    return run_proof(file, ProofOptions(kills=KILLS, seed=SEED), ProofLines().event)


def check(certificate: Certificate, sinks: int) -> None:
    """No violation, nothing left out, and most points were reached."""
    text = "\n".join(certificate_lines(certificate))
    sys.stdout.write(text + "\n")
    assert certificate.violations == (), text
    assert certificate.not_proven == ()
    assert len(certificate.sinks) == sinks
    assert all(each.compared == certificate.rounds and each.reads for each in certificate.sinks), text
    assert len(certificate.kills) == KILLS
    assert len(certificate.hits) > KILLS / 2, text


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.feature("H1.1", part="prove: PostgreSQL and MySQL in every mode, killed at every point")
@pytest.mark.parametrize("name", ["postgres", "mysql"])
def test_servers(
    context: SparkContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    name: str,
) -> None:
    store: PostgresStore | MysqlStore = request.getfixturevalue(name)
    monkeypatch.setenv("SHOP_URL", store.keys["url"])
    keys = f'connector: {name}, url: "${{secret:SHOP_URL}}"'
    sinks = [each.replace("{}", f"{store.schema}.") for each in database(keys)]
    check(proof(project(tmp_path, *sinks)), 4)
    # The scratch tables are gone, with their rows in the ledger and their staging.
    tables = f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{store.schema}'"
    assert store.run(tables) == [("headwater_ledger",)]
    assert store.ledger() == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.feature("H1.1", part="prove: SQLite and DuckDB in every mode, killed at every point")
@pytest.mark.parametrize("connector", ["sqlite", "duckdb"])
def test_embedded_databases(context: SparkContext, tmp_path: Path, connector: str) -> None:
    sinks = [each.replace("{}", "") for each in database(f"connector: {connector}, path: shop.db")]
    check(proof(project(tmp_path, *sinks)), 4)
    assert not (tmp_path / "shop.db").exists()


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.feature("H1.1", part="prove: files, killed at every point")
def test_files(context: SparkContext, tmp_path: Path) -> None:
    sinks = [
        "copied: {reads: slim, connector: files, path: copied, format: parquet}",
        "closed: {reads: windows, connector: files, path: closed, format: json, partition_by: page}",
    ]
    certificate = proof(project(tmp_path, *sinks))
    check(certificate, 2)
    references = {each.sink: (each.reference, each.rows) for each in certificate.sinks}
    assert references["copied"] == (Reference.BATCH, FILES * ROWS)
    assert references["closed"][0] is Reference.STREAM


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.feature("H1.1", part="prove: a foreach_batch function with a ledger, killed at every point")
def test_a_function_with_a_ledger(context: SparkContext, tmp_path: Path) -> None:
    check(proof(project(tmp_path, of_code("right"))), 1)
