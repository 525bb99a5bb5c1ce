"""Hostile names and values against the live servers: the SQL of a batch, with rows of Arrow and without Spark."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from headwater.connectors.databases.database import Database, Field, Target
from headwater.spec import Mode
from tests.databases.arrow_rows import put
from tests.databases.conftest import Store

NAMES, PER_TABLE, VALUES = 500, 100, 250
WORDS = [
    "select", "Table", "group", "ORDER", "user", "values", "null", "true", "interval", "rank", "key", "index",
    "excluded", "s", "t", "c0", "task", "n", "deleted", "rowid", "oid", "ctid", "xmin", "_rowid_", "value", "$1",
    "%s", "%(x)s", "{}", "{0}", "?1", ":x", "@x", "#", "--", "/*", "*/", ";", "\\", "'", '"', "`", "``", '""', "''",
    "[x]", "a.b", "é", "ß", "İ", "\u0130i", "中文", "\u202e", "\u200b", "\t", "\n", "\r", "x'y", "DROP TABLE t; --",
]  # fmt: skip
LETTERS = "ab_.$%?'\"`\\;-#@!()[]{}é中ﬀ\u0301\u202e\t\n 0"
TEXTS = [
    "", " ", "a ", " a", "NULL", "\\N", "\\.", "\\", "\\\\", "'", "''", '"', "`", "%s", "$1", "a\tb", "a\nb", "a\r\nb",
    "\u2028", "\ufeff", "\ud7ff", "\U0001f600", "e\u0301", "é", "'; DROP TABLE t; --", "x" * 200_000, "é" * 70_000,
    "\\t", "\\n", "\x01", "\x1a", "\x7f", "0", "-0", "1e400", "true", "[]", "{}",
]  # fmt: skip


def names(store: Store, dice: random.Random) -> list[str]:
    """Names that the database accepts; the longest it has, and words that mean something in SQL."""
    longest = {"postgres": 63, "mysql": 64}.get(store.kind.name, 200)
    found: dict[str, str] = {}
    candidates = iter([*WORDS, "x" * longest, "é" * (longest // 2)])
    while len(found) < NAMES:
        name = next(candidates, "".join(dice.choices(LETTERS, k=dice.randint(1, 20))))
        database = database_of(store, "t", [name])
        if not list(database.problems()):
            found.setdefault(name.lower(), name)
    return list(found.values())


def database_of(store: Store, table: str, columns: list[str], type_: str = "int", **keys: Any) -> Database:
    options = store.kind.options.model_validate({**store.keys, "into": table, **keys})
    mode = Mode.UPDATE if options.key else Mode.APPEND
    return store.kind.database(
        Target("out", "shop", mode, tuple(Field(name, type_) for name in columns), options)
    )


def into(store: Store, name: str) -> str:
    """The table in `into`, quoted."""
    quoted = '"' + name.replace('"', '""') + '"'
    return store.into(quoted)


def test_500_names(store: Store) -> None:
    """Each is a column; every hundredth also a key and a table."""
    found = names(store, random.Random(8842))
    for start in range(0, NAMES, PER_TABLE):
        columns, keys = found[start : start + PER_TABLE], found[start : start + 3]
        database = database_of(store, into(store, found[start]), columns, key=keys, delete_when="x")
        values = [[number, number + 1000] for number in range(PER_TABLE)]
        put(database, [pa.array(each, pa.int32()) for each in values], deleted=[False, False])
        changed = [[each[0], 7] if number > 2 else each for number, each in enumerate(values)]
        put(database, [pa.array(each, pa.int32()) for each in changed], deleted=[True, False])
        with database.connect() as session:
            place = database.locate(session)
            rows = session.run(f"SELECT {database.quoted_list(columns)} FROM {database.qualified(place)}")
        assert rows == [tuple(each[1] for each in changed)]
        assert place[1] == found[start]


def test_names_that_are_too_long_or_impossible(store: Store) -> None:
    server = {"postgres": "x" * 64, "mysql": "x" * 65}.get(store.kind.name)
    impossible = [
        "a\0b",
        *([server] if server else []),
        *(["a ", "\U0001f600"] if store.kind.name == "mysql" else []),
    ]
    for name in impossible:
        (problem,) = database_of(store, "t", [name]).problems()
        assert (problem.code, problem.params["name"]) == ("HW-DATABASE-NAME-INVALID", name)


def test_hostile_values(store: Store) -> None:
    """Texts and bytes as values and as keys, each upserted twice."""
    dice = random.Random(4417)
    alphabet = LETTERS + "".join(chr(code) for code in range(1, 0x250)) + "\U0001f600\u2028\ufffd"
    texts = TEXTS + ["".join(dice.choices(alphabet, k=dice.randint(1, 60))) for _ in range(VALUES)]
    if store.kind.name != "postgres":
        texts.append("a\0b")
    keys = list(dict.fromkeys(text for text in texts if len(text) <= 255))
    data = [dice.randbytes(dice.randint(0, 300)) for _ in keys]
    fields = (Field("k", "string"), Field("x", "string"), Field("y", "binary"))
    options = store.kind.options.model_validate({**store.keys, "into": into(store, "t"), "key": "k"})
    database = store.kind.database(Target("out", "shop", Mode.UPDATE, fields, options))
    for values in (["old"] * len(keys), [texts[-1 - number] for number in range(len(keys))]):
        put(database, [pa.array(keys), pa.array(values), pa.array(data)])
        found = store.run(f"SELECT k, x, y FROM {store.into('t')}")
        assert Counter((k, x, bytes(y)) for k, x, y in found) == Counter(zip(keys, values, data, strict=True))
    assert {len(text) for text in values} >= {70_000, 200_000}
