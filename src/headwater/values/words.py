"""The known word that a mistyped one most likely stands for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, candidates: Iterable[str], least: float = 0.6) -> str | None:
    """The candidate closest to `word`, whatever the case; None where none is as alike as `least` of 1."""
    by_lower: dict[str, str] = {}
    for candidate in candidates:
        by_lower.setdefault(candidate.lower(), candidate)
    matches = difflib.get_close_matches(word.lower(), list(by_lower), n=1, cutoff=least)
    return by_lower[matches[0]] if matches else None


def did_you_mean(word: str, candidates: Iterable[str], otherwise: str = "") -> str:
    """The hint that names the closest candidate, or what to say where none is close."""
    close = nearest(word, candidates)
    return f"Did you mean `{close}`?" if close else otherwise
