"""Small pipelines for proofs: sinks that are right, and sinks with the faults that a proof must find."""

from __future__ import annotations

from pathlib import Path

from headwater.proof.certificate import Certificate
from tests.pipelines import feed, write

FILES, ROWS = 5, 12
SOURCE = """
name: shop
spark: {spark.master: "local[2]", spark.sql.shuffle.partitions: 1}
sources:
  orders:
    connector: files
    path: in
    format: json
    schema: {id: int, page: string, cents: int, at: timestamp}
    max_files_per_batch: 1
    watermark: {column: at, delay: 1 minute}
tables:
  slim: SELECT id, page, cents FROM orders
  totals: SELECT page, sum(cents) AS cents FROM orders GROUP BY page
  windows: SELECT window.start AS at, page, count(*) AS n FROM orders GROUP BY window(at, '4 minutes'), page
  drawn: SELECT id, page, CAST(100 * rand() AS INT) AS cents FROM orders
sinks:
"""
CODE = '''
"""Functions for foreach_batch, each with its own SQLite file."""

import os
import sqlite3
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path(os.environ.get("HEADWATER_SCRATCH", "/nonexistent"))


@contextmanager
def store(name):
    """One transaction."""
    db = sqlite3.connect(FOLDER / f"{name}.db", timeout=30, isolation_level=None)
    try:
        db.execute("BEGIN IMMEDIATE")
        db.execute("CREATE TABLE IF NOT EXISTS rows (id INT, page TEXT, cents INT)")
        db.execute("CREATE TABLE IF NOT EXISTS ledger (batch INT)")
        yield db
        db.execute("COMMIT")
    finally:
        db.close()


def put(db, batch):
    db.executemany("INSERT INTO rows VALUES (?, ?, ?)", [(r.id, r.page, r.cents) for r in batch.collect()])


def has(db, batch_id):
    return db.execute("SELECT count(*) FROM ledger WHERE batch = ?", [batch_id]).fetchone()[0] > 0


def rows_in(spark, name):
    rows = []
    if (FOLDER / f"{name}.db").exists():
        with store(name) as db:
            rows = db.execute("SELECT * FROM rows").fetchall()
    return spark.createDataFrame(rows, "id int, page string, cents int")


def right(batch, batch_id):
    with store("right") as db:
        if not has(db, batch_id):
            put(db, batch)
            db.execute("INSERT INTO ledger VALUES (?)", [batch_id])


def naive(batch, batch_id):
    with store("naive") as db:
        put(db, batch)


def unchecked(batch, batch_id):
    with store("unchecked") as db:
        put(db, batch)
        db.execute("INSERT INTO ledger VALUES (?)", [batch_id])


CALLS = 0


def ignored(batch, batch_id):
    """Skips a batch by a number of its own, which starts again with each process."""
    global CALLS
    CALLS += 1
    with store("ignored") as db:
        key = (os.getpid(), CALLS).__hash__()
        if not has(db, key):
            put(db, batch)
            db.execute("INSERT INTO ledger VALUES (?)", [key])


def early(batch, batch_id):
    """Two transactions, the ledger first."""
    with store("early") as db:
        if has(db, batch_id):
            return
        db.execute("INSERT INTO ledger VALUES (?)", [batch_id])
    # A slow store: one job for each partition.
    rows = list(batch.repartition(24).toLocalIterator())
    with store("early") as db:
        db.executemany("INSERT INTO rows VALUES (?, ?, ?)", [(r.id, r.page, r.cents) for r in rows])


def keyless(batch, batch_id):
    with store("keyless") as db:
        if not has(db, batch_id):
            db.executemany("INSERT INTO rows VALUES (0, ?, ?)", [(r.page, r.cents) for r in batch.collect()])
            db.execute("INSERT INTO ledger VALUES (?)", [batch_id])
'''
READERS = ("right", "naive", "unchecked", "ignored", "early", "keyless")


def project(folder: Path, *sinks: str, files: int = FILES) -> Path:
    """A pipeline with these lines as sinks, and its input: one batch for each file."""
    for number in range(files):
        rows = [
            {
                "id": ROWS * number + row,
                "page": f"/{row % 3}",
                "cents": row,
                "at": f"2026-01-01T12:{4 * number:02}:{row:02}Z",
            }
            for row in range(ROWS)
        ]
        feed(folder / "in", str(number), rows, at=1_700_000_000 + number)
    readers = "".join(
        f'\n\ndef {name}_rows(spark):\n    return rows_in(spark, "{name}")\n' for name in READERS
    )
    write(folder, CODE + readers, "code.py")
    return write(folder, SOURCE + "".join(f"  {sink}\n" for sink in sinks))


def of_code(name: str, reads: str = "slim", mode: str = "append") -> str:
    """A sink that calls a function of the code."""
    keys = f'function: "code.py:{name}", read_back: "code.py:{name}_rows", scratch: true'
    return f"{name}: {{reads: {reads}, mode: {mode}, connector: foreach_batch, {keys}}}"


def violated(certificate: Certificate) -> set[str]:
    """The sinks with violations."""
    return {each.sink for each in certificate.violations}
