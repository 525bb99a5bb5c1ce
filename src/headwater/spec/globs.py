"""Patterns in paths, read as Hadoop reads them: `*`, `?`, `[a-c]`, `[^a]`, `{one,other}` and a backslash."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

_MAGIC = re.compile(r"[*?\[{\\]")
_SPECIAL = re.compile(r"([\\{}\[\]*?])")
_FIXED = re.compile(r"(?:\\.|[^*?\[{\\])*", re.DOTALL)
_SET = re.compile(r"(?<!\\)([\[&~|])")
_CLASS = re.compile(r"\[(\^|!)?((?:\\.|[^\]\\])+)\]")


def is_pattern(path: str) -> bool:
    """Whether a path may stand for others than the one that it spells."""
    return bool(_MAGIC.search(path))


def escaped(path: str) -> str:
    """A pattern that stands for this path alone."""
    return _SPECIAL.sub(r"\\\1", path)


def split_fixed(pattern: str) -> tuple[str, str]:
    """The folder that a pattern is below in any case, as a path, and the rest of the pattern."""
    parts = pattern.split("/")
    fixed = next((at for at, part in enumerate(parts) if not _FIXED.fullmatch(part)), len(parts))
    folder = re.sub(r"\\(.)", r"\1", "/".join(parts[:fixed]))
    return folder, "".join(f"/{part}" for part in parts[fixed:])


def matcher(pattern: str) -> re.Pattern[str]:
    """Matches the files and folders of the pattern, and everything below them."""
    return _compiled(pattern.rstrip("/"), "(?:/.*)?")


def read_matcher(pattern: str) -> re.Pattern[str]:
    """Matches the files of the pattern, and those in its folders and in key=value folders below."""
    return _compiled(pattern.rstrip("/"), "(?:(?:/[^/]*=[^/]*)*/[^/]+)?")


def without_braces(pattern: str) -> list[str]:
    """The patterns without braces that together stand for the same."""
    opened = _brace(pattern)
    if opened is None:
        return [pattern]
    start, ends = opened
    begins = (start, *ends[:-1])
    choices = [pattern[begin + 1 : end] for begin, end in zip(begins, ends, strict=True)]
    rest = pattern[ends[-1] + 1 :]
    return [each for choice in choices for each in without_braces(pattern[:start] + choice + rest)]


def local_matches(pattern: str) -> Iterator[str]:
    """The files and folders of this machine that an absolute pattern stands for."""
    for plain in dict.fromkeys(without_braces(pattern)):
        fixed, rest = split_fixed(plain.rstrip("/"))
        found = [fixed or "/"]
        for part in rest.split("/")[1:]:
            fits = _compiled(part)
            found = [
                os.path.join(folder, name)
                for folder in found
                for name in (sorted(os.listdir(folder)) if os.path.isdir(folder) else ())
                if fits.fullmatch(name)
            ]
        yield from (each for each in found if os.path.lexists(each))


def _brace(pattern: str) -> tuple[int, list[int]] | None:
    """Where the first brace opens, and where each of its choices ends; None where none is closed."""
    start, depth, ends, at = -1, 0, list[int](), 0
    while at < len(pattern):
        char, group = pattern[at], _CLASS.match(pattern, at)
        if group or char == "\\":
            at = group.end() if group else at + 2
            continue
        if char == "{":
            start = at if not depth else start
            depth += 1
        elif depth and char in ",}":
            depth -= char == "}"
            if depth == (char == ","):
                ends.append(at)
            if not depth:
                return start, ends
        at += 1
    return None


def _compiled(pattern: str, more: str = "") -> re.Pattern[str]:
    try:
        return re.compile(_translated(pattern) + more, re.DOTALL)
    except re.error:
        # Spark will say what is wrong with it.
        return re.compile(re.escape(pattern) + more, re.DOTALL)


def _translated(pattern: str) -> str:
    found, depth, at = list[str](), 0, 0
    while at < len(pattern):
        char, group = pattern[at], _CLASS.match(pattern, at)
        if group:
            members = _SET.sub(r"\\\1", group[2])
            found.append(f"[{'^' if group[1] else ''}{members}]")
            at = group.end()
            continue
        if char == "\\" and at + 1 < len(pattern):
            at += 1
            found.append(re.escape(pattern[at]))
        elif char in "*?":
            found.append("[^/]*" if char == "*" else "[^/]")
        elif char == "{":
            found.append("(?:")
            depth += 1
        elif char in "}," and depth:
            found.append(")" if char == "}" else "|")
            depth -= char == "}"
        else:
            found.append(re.escape(char))
        at += 1
    return "".join(found)


def matches_name(pattern: str, name: str) -> bool:
    """Whether a pattern stands for this name of a file."""
    return any(_compiled(plain).fullmatch(name) for plain in without_braces(pattern))
