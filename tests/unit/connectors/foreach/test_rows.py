"""The part of a function or object that can't be pickled is found and named."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark import cloudpickle

from headwater.connectors.foreach.rows import blame, line_of

GUARD = threading.Lock()


def fails(thing: object) -> bool:
    try:
        cloudpickle.dumps(thing)  # type: ignore[no-untyped-call]
    except Exception:  # noqa: BLE001 - the question is just whether it raises
        return True
    return False


class Pool:
    def __init__(self) -> None:
        self.size = 3
        self.locks = {"a": [threading.Lock()]}


class Writer:
    def __init__(self) -> None:
        self.name = "w"
        self.pool = Pool()


class Refuses:
    def __reduce__(self) -> str:
        raise TypeError("never")


def closure() -> Callable[[Any], Any]:
    database = sqlite3.connect(":memory:")
    return lambda row: database.execute("SELECT 1")


def with_default() -> Callable[..., Any]:
    def send(row: Any, lock: Any = GUARD) -> None:
        pass

    return send


def with_global() -> Callable[[Any], Any]:
    namespace: dict[str, Any] = {"GUARD": GUARD}
    exec("def send(row):\n    with GUARD:\n        pass\n", namespace)
    send: Callable[[Any], Any] = namespace["send"]
    # As in a notebook: what no module holds is sent whole.
    send.__module__ = "__main__"
    return send


@pytest.mark.parametrize(
    ("thing", "path", "kind"),
    [
        (Writer(), "self.pool.locks['a'][0]", "_thread.lock"),
        (closure(), "database", "sqlite3.Connection"),
        (with_default(), "lock", "_thread.lock"),
        (with_global(), "GUARD", "_thread.lock"),
        (Refuses(), "", f"{__name__}.Refuses"),
    ],
    ids=["object", "closure", "default", "global", "itself"],
)
def test_the_innermost_part_is_named(thing: object, path: str, kind: str) -> None:
    assert fails(thing)
    found = blame(thing, fails)
    assert (found.path, found.type) == (path, kind)


@pytest.mark.parametrize(
    ("thing", "line"),
    [
        (Writer(), "        self.pool = Pool()"),
        (closure(), '    database = sqlite3.connect(":memory:")'),
    ],
)
def test_the_line_is_that_of_the_users_name(thing: object, line: str) -> None:
    place = line_of(blame(thing, fails))
    assert place is not None
    with open(__file__, encoding="utf-8") as source:
        assert (place.file, source.read().splitlines()[place.line - 1]) == (__file__, line)


def test_no_line_is_told_where_no_file_has_one() -> None:
    assert line_of(blame(with_global(), fails)) is None
    assert line_of(blame(Refuses(), fails)) is None


def test_a_ring_has_an_end() -> None:
    ring: list[Any] = [threading.Lock()]
    ring.insert(0, ring)
    assert blame(ring, fails).path == "[1]"
