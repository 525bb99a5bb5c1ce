"""What a declaration of a database sink says, without Spark and without a database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict
from pydantic import ValidationError

from headwater.connectors.databases.connector import (
    POSTGRES,
    CarriedProblem,
    DatabaseWriter,
    _progress,
    carried_problem,
)
from headwater.connectors.databases.database import Rejected, Target
from headwater.connectors.databases.errors import DATABASE_SUPERSEDED
from headwater.connectors.databases.ledger import NextBatch
from headwater.connectors.databases.names import quoted, table_name
from headwater.connectors.databases.options import PostgresSink
from headwater.connectors.databases.postgres import Postgres
from headwater.connectors.databases.sqlite import affinity
from headwater.engine.pipeline_file import load
from headwater.errors import PipelineError
from headwater.spec import Mode
from headwater.values import Secret
from headwater.values.secrets import scrub

PIPELINE = """
name: shop
sources: {{orders: {{connector: files, path: in, format: json, schema: {{id: int}}}}}}
sinks: {{orders: {{reads: orders, connector: postgres, {keys}}}}}
"""


@pytest.mark.parametrize(
    ("into", "parts"),
    [
        ("orders", ("", "orders")),
        ("shop.orders", ("shop", "orders")),
        ('"a.b"', ("", "a.b")),
        ('"s.s"."t""q"', ("s.s", 't"q')),
        ("a b.c d", ("a b", "c d")),
    ],
)
def test_a_table_has_a_schema_or_none(into: str, parts: tuple[str, str]) -> None:
    assert table_name(into) == parts


@pytest.mark.parametrize("into", ["", ".", "a.", ".a", "a.b.c", '""', 'a"b', '"a'])
def test_other_texts_are_no_table(into: str) -> None:
    with pytest.raises(ValueError, match="is not a table"):
        table_name(into)


@pytest.mark.parametrize(
    ("into", "what"), [("é" * 31, None), ("é" * 32, "table"), (f"{'s' * 64}.t", "schema")]
)
def test_names_that_postgresql_would_cut(into: str, what: str | None) -> None:
    options = PostgresSink(url="postgresql://localhost/shop", into=into)
    found = list(Postgres(Target("out", "shop", Mode.APPEND, (), options)).problems())
    assert [(each.code, each.params["what"], each.params["why"]) for each in found] == [
        ("HW-DATABASE-NAME-INVALID", what, "it is longer than 63 bytes")
    ] * bool(what)


def test_names_are_quoted() -> None:
    assert quoted('a"b') == '"a""b"'
    assert quoted('a"b`c', "`") == '`a"b``c`'


def test_a_url_is_checked_and_never_shown() -> None:
    with pytest.raises(ValidationError, match="expected postgresql://"):
        PostgresSink(url="jdbc:postgresql://localhost/shop", into="t")
    options = PostgresSink(url="postgresql://ada:canary-77@db:5432/shop", into="t")
    assert "canary-77" not in options.address
    assert options.reveal_url() == "postgresql://ada:canary-77@db:5432/shop"
    assert "canary-77" not in scrub("could not connect to postgresql://ada:canary-77@db:5432/shop")
    (place,) = DatabaseWriter(POSTGRES).places(options)
    assert "canary-77" not in place
    secret = PostgresSink(url=Secret("${secret:SHOP_URL}"), into="t")
    assert [path for path, _ in secret.secrets()] == [("url",)]


@pytest.mark.parametrize("password", ["se@cret-4417", "p/w?x#y 10%-4417", "%zz-4417", "ä:-4417"])
def test_a_secret_in_an_address_is_percent_encoded(monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", password)
    options = PostgresSink(url=Secret("postgresql://ada:${secret:SHOP_PASSWORD}@db:5432/shop"), into="t")
    assert conninfo_to_dict(options.reveal_url()) == {
        "user": "ada",
        "password": password,
        "host": "db",
        "port": "5432",
        "dbname": "shop",
    }
    assert "4417" not in scrub(f"could not connect to {options.reveal_url()} with {password}")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:se@cret@db/shop",
        "postgresql://ada:se/cret@db/shop",
        "postgresql://ada:se?cret@db/shop",
        "postgresql://ada:se#cret@db/shop",
        "postgresql://ada:se cret@db/shop",
        "postgresql://ada:se%cret@db/shop",
        "postgresql://db/shop?user=ada&password=se@cret",
    ],
)
def test_an_address_that_libpq_reads_differently_is_rejected(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    with pytest.raises(ValidationError, match="contains a character that an address cannot contain"):
        PostgresSink(url=url, into="t")
    monkeypatch.setenv("SHOP_URL", url)
    target = Target("orders", "", Mode.APPEND, (), PostgresSink(url=Secret("${secret:SHOP_URL}"), into="t"))
    with pytest.raises(Rejected) as error, Postgres(target).connect():
        pass
    problem = target.at(error.value.entry, **error.value.params)
    assert problem.code == "HW-DATABASE-ADDRESS-INVALID"
    assert "cret" not in str(problem).replace("secret", "")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:canary-78@db/shop",
        "postgresql://db/shop?user=ada&password=canary-78",
        "postgresql://db/shop?sslkey=k&sslpassword=canary%2D78",
    ],
)
def test_every_password_in_an_address_is_hidden(url: str) -> None:
    options = PostgresSink(url=url, into="t")
    assert "canary" not in options.address
    options.reveal_url()
    assert "canary" not in scrub(f"{url}: canary-78")


def test_parameters_in_an_address_win_over_defaults() -> None:
    url = "postgresql://db/shop?connect_timeout=3&application_name=mine"
    _, keywords, _, _ = Postgres(
        Target("orders", "", Mode.APPEND, (), PostgresSink(url=url, into="t"))
    )._login
    assert keywords == {"keepalives_idle": "30", "tcp_user_timeout": "60000"}


def test_verify_ca_needs_a_ca() -> None:
    with pytest.raises(ValidationError, match="`verify-ca` requires `ca`"):
        PostgresSink.model_validate(
            {"url": "postgresql://db/shop", "into": "t", "tls": {"mode": "verify-ca"}}
        )


def test_a_missing_package_is_named_with_the_command() -> None:
    kind = replace(POSTGRES, packages=("no_such_package",))
    problem = kind.missing("orders", None)
    assert problem is not None
    assert problem.code == "HW-DATABASE-DRIVER-MISSING"
    assert "pip install 'headwater[postgres]'" in problem.hint


def test_an_invalid_table_is_reported_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yml"
    file.write_text(PIPELINE.format(keys='url: "postgresql://db/shop", into: a.b.c'), encoding="utf-8")
    with pytest.raises(PipelineError) as error:
        load(file)
    assert "`a.b.c` is not a table" in str(error.value)


def test_a_problem_survives_the_way_through_sparks_text() -> None:
    problem = DATABASE_SUPERSEDED.at(None, sink='a "sink"\n', batch=3, epoch=1, newer=2)
    text = f"py4j said:\n{CarriedProblem(problem)}\n\tat java.lang.Thread"
    carried = carried_problem(text, None)
    assert carried is not None
    assert (carried.message, carried.hint) == (problem.message, problem.hint)
    assert carried_problem("another failure", None) is None


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ("INTEGER", "INTEGER"),
        ("bigint", "INTEGER"),
        ("varchar(20)", "TEXT"),
        ("", "BLOB"),
        ("double precision", "REAL"),
        ("decimal(10,2)", "NUMERIC"),
    ],
)
def test_affinities_of_sqlite(declared: str, found: str) -> None:
    assert affinity(declared) == found


def test_casts_never_cut() -> None:
    driver = Postgres.__new__(Postgres)
    field = type("F", (), {})()
    assert driver.value("s.c0", field, "character varying(3)") == "s.c0::character varying"
    assert driver.value("s.c0", field, "numeric(10,2)") == "s.c0::numeric"
    assert driver.value("s.c0", field, "timestamp with time zone") == "s.c0::timestamp with time zone"


@pytest.mark.parametrize(
    ("offsets", "commits", "following"),
    [
        (None, None, (None, NextBatch(0, planned=False))),
        ([], [], ("q", NextBatch(0, planned=False))),
        ([0], [], ("q", NextBatch(0))),
        ([0, 1], [0], ("q", NextBatch(1))),
        ([0, 1], [0, 1], ("q", NextBatch(2, planned=False))),
    ],
)
def test_the_batch_with_which_a_checkpoint_continues(
    tmp_path: Path, offsets: list[int] | None, commits: list[int] | None, following: Any
) -> None:
    checkpoint = tmp_path / "checkpoint"
    if offsets is not None and commits is not None:
        for folder, numbers, text in (("offsets", offsets, "v1\n{}\n0"), ("commits", commits, "v1\n{}")):
            (checkpoint / folder).mkdir(parents=True)
            for number in numbers:
                (checkpoint / folder / str(number)).write_text(text, encoding="utf-8")
        (checkpoint / "metadata").write_text('{"id":"q"}', encoding="utf-8")
    context: Any = SimpleNamespace(checkpoint=checkpoint)
    assert _progress(context) == following
