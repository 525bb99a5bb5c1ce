"""Paths as users write them: relative to the pipeline file, made absolute on load."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, ValidationInfo

# Patterns in paths, read as Hadoop reads them: `*`, `?`, `[a-c]`, `[^a]`, `{one,other}` and a backslash.

_MAGIC = re.compile(r"[*?\[{\\]")
_SPECIAL = re.compile(r"([\\{}\[\]*?])")
_FIXED = re.compile(r"(?:\\.|[^*?\[{\\])*", re.DOTALL)
_SET = re.compile(r"(?<!\\)([\[&~|])")
_TOKEN = re.compile(
    r"\[(?P<negated>[\^!])?(?P<members>(?:\\.|[^\]\\])+)\]|\\(?P<escaped>.)|(?P<sign>[*?{},])|.", re.DOTALL
)


def is_pattern(path: str) -> bool:
    """Whether a path contains pattern characters."""
    return bool(_MAGIC.search(path))


def escaped(path: str) -> str:
    """A pattern that matches only this path."""
    return _SPECIAL.sub(r"\\\1", path)


def split_fixed(pattern: str) -> tuple[str, str]:
    """The fixed directory before a pattern, as a path, and the rest of the pattern."""
    parts = pattern.split("/")
    fixed = next((at for at, part in enumerate(parts) if not _FIXED.fullmatch(part)), len(parts))
    folder = re.sub(r"\\(.)", r"\1", "/".join(parts[:fixed]))
    return folder, "".join(f"/{part}" for part in parts[fixed:])


def matcher(pattern: str) -> re.Pattern[str]:
    """Matches the files and directories of the pattern, and everything below them."""
    return _compiled(pattern.rstrip("/"), "(?:/.*)?")


def read_matcher(pattern: str) -> re.Pattern[str]:
    """Matches the files of the pattern, and those in its directories and key=value directories below."""
    return _compiled(pattern.rstrip("/"), "(?:(?:/[^/]*=[^/]*)*/[^/]+)?")


def without_braces(pattern: str) -> list[str]:
    """The patterns without braces that together match the same paths."""
    opened = _brace(pattern)
    if opened is None:
        return [pattern]
    start, ends = opened
    begins = (start, *ends[:-1])
    choices = [pattern[begin + 1 : end] for begin, end in zip(begins, ends, strict=True)]
    rest = pattern[ends[-1] + 1 :]
    return [each for choice in choices for each in without_braces(pattern[:start] + choice + rest)]


def local_matches(pattern: str) -> Iterator[str]:
    """The files and directories on this machine that match an absolute pattern."""
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
    """The offset of the first brace, and where each of its choices ends; None if no brace is closed."""
    start, depth, ends = -1, 0, list[int]()
    for token in _TOKEN.finditer(pattern):
        sign, at = token["sign"], token.start()
        if sign == "{":
            start = at if not depth else start
            depth += 1
        elif depth and sign in (",", "}"):
            depth -= sign == "}"
            if depth == (sign == ","):
                ends.append(at)
            if not depth:
                return start, ends
    return None


def _compiled(pattern: str, more: str = "") -> re.Pattern[str]:
    try:
        return re.compile(_translated(pattern) + more, re.DOTALL)
    except re.error:
        # Spark reports what is wrong with it.
        return re.compile(re.escape(pattern) + more, re.DOTALL)


def _translated(pattern: str) -> str:
    found, depth = list[str](), 0
    for token in _TOKEN.finditer(pattern):
        sign = token["sign"]
        if token["members"]:
            members = _SET.sub(r"\\\1", token["members"])
            found.append(f"[{'^' if token['negated'] else ''}{members}]")
        elif sign in ("*", "?"):
            found.append("[^/]*" if sign == "*" else "[^/]")
        elif sign == "{":
            found.append("(?:")
            depth += 1
        elif depth and sign in (",", "}"):
            found.append(")" if sign == "}" else "|")
            depth -= sign == "}"
        else:
            found.append(re.escape(token["escaped"] or token[0]))
    return "".join(found)


def matches_name(pattern: str, name: str) -> bool:
    """Whether a pattern matches this file name."""
    return any(_compiled(plain).fullmatch(name) for plain in without_braces(pattern))


_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_SYSTEM = re.compile(r"[^/]*(?://[^/]*)?")


def is_uri(path: str) -> bool:
    """Whether the path names its own file system (`s3a://…`, `hdfs://…`)."""
    return bool(_URI.match(path))


def absolute(path: str, root: Path) -> str:
    """The path from the project root, without touching the disk (globs stay as they are)."""
    if is_uri(path):
        return _plain_uri(path)
    expanded = Path(path).expanduser()
    # Not resolve(): a symlink in the path is intentional, and a glob is not a file.
    return str(_plain(expanded if expanded.is_absolute() else root / expanded))


def _plain(path: Path) -> Path:
    """The path without `.` and `..`, so that a location has one spelling."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and len(parts) > 1:
            parts.pop()
        elif part not in (".", ".."):
            parts.append(part)
    return Path(*parts)


def _plain_uri(uri: str) -> str:
    """The URI as Hadoop normalizes it, and so the URIs of files below: a leading `..` stays."""
    system = _SYSTEM.match(uri)
    assert system is not None, "the pattern matches any text"
    parts: list[str] = []
    for part in uri[system.end() :].split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    path = "".join(f"/{part}" for part in parts)
    return system[0] + path + ("/" if uri.endswith("/") and not path.endswith("/") else "")


def in_project(path: str, root: Path) -> str:
    """The part of a path that the user wrote: only this part can be a pattern."""
    return path.removeprefix(str(root)) if f"{path}/".startswith(f"{root}/") else path


def as_glob(path: str, root: Path) -> str:
    """The path as a Hadoop glob: only the part below the root can be a pattern."""
    inside = in_project(path, root)
    return escaped(str(root)) + inside if inside != path else path


def fixed_folder(path: str, root: Path) -> str:
    """The fixed directory of a path: the path itself, or the part before a pattern."""
    return split_fixed(as_glob(path, root))[0] or "/"


def plain_path(place: str) -> str:
    """A location without the `file:` prefix; other locations are unchanged."""
    return re.sub(r"^file:/+", "/", place)


def local_path(address: str) -> Path | None:
    """The local path of a percent-encoded URI as Spark writes it; None if it is not local."""
    parts = urlsplit(address)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def spelt_once(place: str) -> str:
    """The canonical spelling of a location, with symlinks resolved and `file:` removed."""
    local = plain_path(place)
    return os.path.realpath(local) if os.path.isabs(local) else local.rstrip("/")


def glob_spelt_once(pattern: str) -> str:
    """The same for a pattern: its fixed directory is made canonical."""
    fixed, rest = split_fixed(plain_path(pattern).rstrip("/"))
    # A symlink to a file keeps its own name: it is a different file from its target.
    folder, name = os.path.split(fixed) if os.path.isfile(fixed) else (fixed, "")
    return (escaped(os.path.join(spelt_once(folder), name).rstrip("/")) if fixed else "") + rest


def lies_in(place: str, read: str) -> bool:
    """Whether a location matches a path or glob, or is inside: Spark also reads directories below."""
    inner = PurePath(spelt_once(place))
    if not os.path.isabs(read) and not is_uri(read):
        # An address or the name of a table is not a pattern.
        return str(inner) == read
    patterns = (PurePath(glob_spelt_once(each)) for each in without_braces(read))
    return inner.is_relative_to(spelt_once(read)) or any(_is_inside(inner, each) for each in patterns)


def _is_inside(inner: PurePath, pattern: PurePath) -> bool:
    # A glob over files matches no directory, so try a file that would be written.
    written = inner / f"part-00000{pattern.suffix}"
    return any(matcher(str(pattern)).fullmatch(str(each)) for each in (written, inner))


def overlap(one: str, other: str) -> bool:
    """Whether two directories are the same, or one is inside the other."""
    first, second = PurePath(spelt_once(one)), PurePath(spelt_once(other))
    return first.is_relative_to(second) or second.is_relative_to(first)


def project_root(info: ValidationInfo) -> Path:
    """The project root from the validation context."""
    root = (info.context or {}).get("root", Path.cwd())
    return Path(root)


def _absolute(path: str, info: ValidationInfo) -> str:
    if not path.strip():
        raise ValueError("the path is empty; write a path relative to the pipeline file")
    return absolute(path, project_root(info))


ProjectPath = Annotated[str, AfterValidator(_absolute)]
