"""Paths as users write them: relative to the pipeline file, made absolute when they are read."""

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
        # Spark will say what is wrong with it.
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
    """Whether a pattern stands for this name of a file."""
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
    # Not resolve(): a link in the path is the user's wish, and a glob is no file.
    return str(_plain(expanded if expanded.is_absolute() else root / expanded))


def _plain(path: Path) -> Path:
    """Without `.` and `..`, so that one place has one spelling."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and len(parts) > 1:
            parts.pop()
        elif part not in (".", ".."):
            parts.append(part)
    return Path(*parts)


def _plain_uri(uri: str) -> str:
    """As Hadoop spells it, and so the addresses of the files below: a leading `..` stays."""
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
    """The part of a path that the user wrote: only there characters can be those of a pattern."""
    return path.removeprefix(str(root)) if f"{path}/".startswith(f"{root}/") else path


def as_glob(path: str, root: Path) -> str:
    """The path as Hadoop's globs read it: only what stands below the root can be a pattern."""
    inside = in_project(path, root)
    return escaped(str(root)) + inside if inside != path else path


def fixed_folder(path: str, root: Path) -> str:
    """The folder that a path is below in any case: the path itself, or what stands before a pattern."""
    return split_fixed(as_glob(path, root))[0] or "/"


def plain_path(place: str) -> str:
    """A place without the `file:` before it; any other place as it is."""
    return re.sub(r"^file:/+", "/", place)


def local_path(address: str) -> Path | None:
    """The local path of an address as Spark writes it, with everything odd encoded; None elsewhere."""
    parts = urlsplit(address)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def spelt_once(place: str) -> str:
    """One place has one spelling, whatever links and `file:` say."""
    local = plain_path(place)
    return os.path.realpath(local) if os.path.isabs(local) else local.rstrip("/")


def glob_spelt_once(pattern: str) -> str:
    """The same for a pattern, as far as a folder stands before what is one in it."""
    fixed, rest = split_fixed(plain_path(pattern).rstrip("/"))
    # A file that is a link keeps its own name: it is another one than the file that it leads to.
    folder, name = os.path.split(fixed) if os.path.isfile(fixed) else (fixed, "")
    return (escaped(os.path.join(spelt_once(folder), name).rstrip("/")) if fixed else "") + rest


def lies_in(place: str, read: str) -> bool:
    """Whether a place is what a path or glob names, or is inside: Spark looks into folders below, too."""
    inner = PurePath(spelt_once(place))
    if not os.path.isabs(read) and not is_uri(read):
        # An address or the name of a table is no pattern.
        return str(inner) == read
    patterns = (PurePath(glob_spelt_once(each)) for each in without_braces(read))
    return inner.is_relative_to(spelt_once(read)) or any(_is_inside(inner, each) for each in patterns)


def _is_inside(inner: PurePath, pattern: PurePath) -> bool:
    # A glob over files names no folder, so a file that would be written is tried.
    written = inner / f"part-00000{pattern.suffix}"
    return any(matcher(str(pattern)).fullmatch(str(each)) for each in (written, inner))


def overlap(one: str, other: str) -> bool:
    """Whether one of two folders is the other, or lies in it."""
    first, second = PurePath(spelt_once(one)), PurePath(spelt_once(other))
    return first.is_relative_to(second) or second.is_relative_to(first)


def project_root(info: ValidationInfo) -> Path:
    """The project root that the loader put into the validation's context."""
    root = (info.context or {}).get("root", Path.cwd())
    return Path(root)


def _absolute(path: str, info: ValidationInfo) -> str:
    if not path.strip():
        raise ValueError("a path can't be empty")
    return absolute(path, project_root(info))


ProjectPath = Annotated[str, AfterValidator(_absolute)]
