"""By what rows are quarantined: what changes it, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.plan import Graph
from headwater.plan.quarantine import quarantine_fingerprints
from tests.unit.specs import spec_of

PIPELINE = """
name: orders
sources:
  orders:
    connector: kafka
    bootstrap_servers: kafka:9092
    topic: orders
    format: json
    schema: {id: int, cost: int}
    bad_rows: quarantine
  plain: {connector: rate}
tables:
  priced: SELECT id, cost FROM orders
  paid:
    sql: SELECT * FROM priced
    expect: {paid: {condition: cost >= 0, on_violation: quarantine}}
sinks:
  out: {reads: paid, connector: noop}
"""


def verdicts(text: str, name: str = "paid", root: Path = Path("/project")) -> dict[str, str]:
    spec = spec_of(text, root)
    return quarantine_fingerprints(spec, Graph.of(spec), name)


def test_what_sets_rows_aside_is_named() -> None:
    assert list(verdicts(PIPELINE)) == ["orders", "paid"]
    assert list(verdicts(PIPELINE, "priced")) == ["orders"]
    assert verdicts(PIPELINE, "plain") == {}


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("cost: int", "cost: double", ["orders", "paid"]),
        ("cost: int", "cost: int not null", ["orders", "paid"]),
        ("format: json", "format: json\n    tombstones: drop", ["orders", "paid"]),
        ("format: json", "format: json\n    max_row_bytes: 100", ["orders", "paid"]),
        ("cost >= 0", "cost > 0", ["paid"]),
        ("id, cost FROM", "id, abs(cost) AS cost FROM", ["paid"]),
        ("id, cost FROM", "id,   cost FROM", []),
        ("kafka:9092", "other:9092", []),
        ("format: json", "format: json\n    max_rows_per_batch: 5", []),
        ("format: json", "format: json\n    metadata_columns: [offset]", []),
        ("connector: noop", "connector: console", []),
    ],
)
def test_what_changes_a_verdict(old: str, new: str, changed: list[str]) -> None:
    before, now = verdicts(PIPELINE), verdicts(PIPELINE.replace(old, new, 1))
    assert [name for name in now if before[name] != now[name]] == changed


def with_registry(text: str) -> str:
    columns = "schema: {id: int, cost: int}"
    avro = f"format: avro\n    registry: {{{text}}}\n    {columns}"
    return PIPELINE.replace(f"format: json\n    {columns}", avro, 1)


def test_neither_secrets_nor_the_place_of_the_project_count(tmp_path: Path) -> None:
    one, other = (
        with_registry(f"url: 'http://r', user: u, password: '${{secret:{name}}}'") for name in ("A", "B")
    )
    assert verdicts(one) == verdicts(other)
    folder = with_registry("directory: schemas/")
    assert verdicts(folder, root=tmp_path / "a") == verdicts(folder, root=tmp_path / "b")
    assert len({verdicts(text)["orders"] for text in (PIPELINE, one, folder)}) == 3


def test_a_schema_in_a_file_counts_by_its_content(tmp_path: Path) -> None:
    text = PIPELINE.replace("{id: int, cost: int}", "orders.ddl", 1)
    (tmp_path / "orders.ddl").write_text("id int, cost int")
    before = verdicts(text, root=tmp_path)
    (tmp_path / "orders.ddl").write_text("id int, cost double")
    assert verdicts(text, root=tmp_path)["orders"] != before["orders"]
