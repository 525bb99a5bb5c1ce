"""Words in messages: the one that was most likely meant, lists of names, a first letter in upper case."""

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


def did_you_mean(word: str, candidates: Iterable[str], otherwise: str = "", least: float = 0.6) -> str:
    """A hint that names the nearest candidate, or else another hint."""
    meant = nearest(word, candidates, least)
    return f"Did you mean `{meant}`?" if meant else otherwise


def quoted(names: Iterable[str], between: str = ", ", last: str = "") -> str:
    """Names in backticks, with a comma or another word between them, or before the last one alone."""
    *first, end = [f"`{name}`" for name in names] or [""]
    return (last or between).join(filter(None, [between.join(first), end]))


def capitalized(text: str) -> str:
    """A text with its first letter in upper case, and the others as they are."""
    return text[:1].upper() + text[1:]
