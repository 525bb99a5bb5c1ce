from __future__ import annotations

import builtins
from typing import Any

import pytest

from headwater.dev.topics import kafka_client, key_of
from headwater.errors import SetupError


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (b'{"ad": "a1"}', b"a1"),
        (b'{"ad": 7}', b"7"),
        (b'{"ad": null}', None),
        (b'{"other": 1}', None),
        (b"[1]", None),
        (b"broken {", None),
        (b"\xff", None),
        (b'{"ad": "\\ud800"}', None),
        (b"[" * 100_000, None),
    ],
)
def test_the_key_is_a_field_where_there_is_one(line: bytes, key: bytes | None) -> None:
    assert key_of(line, "ad") == key


def test_no_field_no_key() -> None:
    assert key_of(b'{"ad": "a1"}', None) is None


def test_without_the_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("confluent_kafka"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SetupError) as caught:
        kafka_client()
    assert [problem.code for problem in caught.value.problems] == ["HW-KAFKA-CLIENT-MISSING"]
