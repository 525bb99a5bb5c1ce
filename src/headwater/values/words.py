"""Words in messages: suggestions for misspelled names, lists of names, counts, capital letters."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, candidates: Iterable[str], least: float = 0.6) -> str | None:
    """The candidate most similar to `word`, ignoring case; None if no similarity reaches `least` (0 to 1)."""
    by_lower: dict[str, str] = {}
    for candidate in candidates:
        by_lower.setdefault(candidate.lower(), candidate)
    matches = difflib.get_close_matches(word.lower(), list(by_lower), n=1, cutoff=least)
    return by_lower[matches[0]] if matches else None


def did_you_mean(word: str, candidates: Iterable[str], otherwise: str = "", least: float = 0.6) -> str:
    """A hint that suggests the most similar candidate, or `otherwise` if there is none."""
    meant = nearest(word, candidates, least)
    return f"Did you mean `{meant}`?" if meant else otherwise


def quoted(names: Iterable[str], between: str = ", ", last: str = "") -> str:
    """Names in backticks, joined by `between`; `last` replaces it before the last name."""
    *first, end = [f"`{name}`" for name in names] or [""]
    return (last or between).join(filter(None, [between.join(first), end]))


def capitalized(text: str) -> str:
    """The text with its first letter in upper case; other letters are unchanged."""
    return text[:1].upper() + text[1:]


def count_of(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: "no rows", "1 row", "1,204 rows"."""
    if number == 1:
        return f"1 {noun}"
    return f"{f'{number:,}' if number else 'no'} {plural or noun + 's'}"
