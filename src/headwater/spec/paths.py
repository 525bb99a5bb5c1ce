"""Paths as users write them: relative to the pipeline file, made absolute when they are read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo

_MAGIC = re.compile(r"([\\{}\[\]*?])")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def is_uri(path: str) -> bool:
    """Whether the path names its own file system (`s3a://…`, `hdfs://…`)."""
    return bool(_URI.match(path))


def absolute(path: str, root: Path) -> str:
    """The path from the project root, without touching the disk (globs stay as they are)."""
    if is_uri(path):
        return path
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


def as_glob(path: str, root: Path) -> str:
    """The path as Hadoop's globs read it: only what stands below the root can be a pattern."""
    inside = path.removeprefix(str(root))
    return _MAGIC.sub(r"\\\1", str(root)) + inside if inside != path else path


def project_root(info: ValidationInfo) -> Path:
    """The project root that the loader put into the validation's context."""
    root = (info.context or {}).get("root", Path.cwd())
    return Path(root)


def _absolute(path: str, info: ValidationInfo) -> str:
    if not path.strip():
        raise ValueError("a path can't be empty")
    return absolute(path, project_root(info))


ProjectPath = Annotated[str, AfterValidator(_absolute)]
