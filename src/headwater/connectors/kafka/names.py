"""Which names a topic can have."""

from __future__ import annotations

import re

_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}")


def topic_name(name: str) -> str:
    """A name as Kafka takes it; ValueError for another."""
    if not _LEGAL.fullmatch(name) or name in (".", ".."):
        raise ValueError(
            f"`{name}` is no name of a topic; Kafka takes letters from a to z, digits, `.`, `_` and `-`, "
            "at most 249 of them"
        )
    return name
