"""What the mysql sink says and computes without a server."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from headwater.connectors.databases.database import Field, Rejected, Target, Unavailable
from headwater.connectors.databases.mysql import Mysql
from headwater.connectors.databases.options import MysqlSink
from headwater.spec import Mode
from headwater.values import Secret
from headwater.values.secrets import scrub

URL = "mysql://ada:canary-6613@db:3307/shop"


def a_database(*fields: tuple[str, str], key: Any = None, **keys: Any) -> Mysql:
    options = MysqlSink(url=keys.pop("url", URL), into="t", key=key, **keys)
    columns = tuple(Field(name, type_) for name, type_ in fields)
    return Mysql(Target("out", "", Mode.UPDATE if key else Mode.APPEND, columns, options))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://ada@db/shop", "expected mysql://"),
        ("mysql://ada@db/shop?charset=utf8", "without parameters"),
        ("mysql://ada@db", "with a user and a database"),
        ("mysql://db/shop", "with a user and a database"),
        ("mysql://ada:se@cret@db/shop", "contains a character that an address cannot contain"),
    ],
)
def test_an_address_is_checked_and_never_shown(url: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValidationError, match=why):
        MysqlSink(url=url, into="t")
    monkeypatch.setenv("SHOP_URL", url)
    with pytest.raises(Rejected) as error, a_database(url=Secret("${secret:SHOP_URL}")).connect():
        pass
    assert error.value.entry.code == "HW-DATABASE-ADDRESS-INVALID"
    assert "se@cret" not in str(error.value.params)


def test_the_parts_of_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "p@ss/w%rd-6613")
    database = a_database(url=Secret("mariadb://ada:${secret:SHOP_PASSWORD}@db/shop"))
    login, tls, files, timeout = database._login
    assert {key: login[key] for key in ("host", "port", "user", "password", "database")} == {
        "host": "db",
        "port": 3306,
        "user": "ada",
        "password": "p@ss/w%rd-6613",
        "database": "shop",
    }
    assert (tls, files, timeout) == (None, {}, 0)
    assert "6613" not in scrub(f"could not connect with {login['password']}")
    assert "canary" not in a_database().target.options.address


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("x" * 64, None),
        ("é" * 64, None),
        ("x" * 65, "it is longer than 64 characters"),
        ("a\t", "it ends with a space"),
        ("\U0001f600", "it contains a character outside the Basic Multilingual Plane"),
        ("a\0", "it contains a NUL character"),
    ],
)
def test_names_that_mysql_rejects(name: str, why: str | None) -> None:
    found = [problem.params["why"] for problem in a_database((name, "int")).problems()]
    assert found == ([why] if why else [])


def test_types_that_mysql_does_not_have() -> None:
    found = list(a_database(("a", "decimal(38,31)"), ("b", "decimal(38,30)"), ("c", "variant")).problems())
    assert [problem.params["column"] for problem in found] == ["a", "c"]
    (problem,) = a_database(("k", "array<int>"), key="k").problems()
    assert problem.params["type"] == "array<int> in `key`"


@pytest.mark.parametrize(
    ("fields", "lengths"),
    [
        (["string"], [255]),
        (["string"] * 3, [255] * 3),
        (["string"] * 4, [192] * 4),
        (["string", "bigint", "string", "binary"], [253, 253, 253]),
    ],
)
def test_strings_in_a_key_fit_into_an_index(fields: list[str], lengths: list[int]) -> None:
    names = [f"k{number}" for number in range(len(fields))]
    database = a_database(*zip(names, fields, strict=True), ("x", "string"), key=names)
    types = [str(database.column_type(field)) for field in database.target.fields]
    found = [
        int(type_.partition("(")[2].rstrip(")")) for type_ in types if "char" in type_ or "varbinary" in type_
    ]
    assert found == lengths
    assert 4 * sum(found) + 32 * fields.count("bigint") <= 3072
    assert types[-1] == "longtext"


def test_a_created_table_compares_keys_exactly() -> None:
    database = a_database(("a`b", "string"), ("n", "bigint"), key="a`b")
    assert database.create_statement(("shop", "t")) == (
        "CREATE TABLE `shop`.`t` (`a``b` varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin, "
        "`n` bigint, PRIMARY KEY (`a``b`)) "
        "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_bin ROW_FORMAT=DYNAMIC"
    )


@pytest.mark.parametrize(
    ("number", "says", "retried"),
    [
        ("1213", "Deadlock found", True),
        ("1205", "Lock wait timeout exceeded", True),
        ("2006", "MySQL server has gone away", True),
        ("2013", "Lost connection", True),
        ("1114", "The table 't' is full", True),
        ("1290", "running with the --read-only option", True),
        ("1062", "Duplicate entry 'a' for key 'PRIMARY'", True),
        ("1062", "Duplicate entry 'a' for key 't.PRIMARY'", True),
        ("1062", "Duplicate entry 'a' for key 'other'", False),
        ("1406", "Data too long", False),
    ],
)
def test_which_errors_are_retried(number: str, says: str, retried: bool) -> None:
    database = a_database(("k", "string"), key="k")
    database._key_index = "PRIMARY"
    error = database.rejected(number, says)
    assert isinstance(error, Unavailable) is retried
    assert isinstance(error, Rejected) is not retried


def test_a_duplicate_in_append_mode_is_not_retried() -> None:
    database = a_database(("k", "string"))
    database._key_index = ""
    assert isinstance(database.rejected("1062", "Duplicate entry 'a' for key ''"), Rejected)
