"""Paths as users write them: relative to the pipeline file, made absolute when they are read."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath
from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, ValidationInfo

from headwater.spec.globs import escaped, matcher, split_fixed, without_braces

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
