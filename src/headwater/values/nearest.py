"""The known word that a mistyped one most likely stands for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate closest to `word`, whatever the case; None where none is close."""
    by_lower: dict[str, str] = {}
    for candidate in candidates:
        by_lower.setdefault(candidate.lower(), candidate)
    matches = difflib.get_close_matches(word.lower(), list(by_lower), n=1)
    return by_lower[matches[0]] if matches else None
