"""Reads one YAML 1.2 file into a tree with positions, safely: no tags, bounded size, depth and aliases."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.pipelines import (
    FILE_IS_FOLDER,
    FILE_NOT_THERE,
    FILE_UNREADABLE,
    NOT_UTF8,
    YAML_NO_SPACE,
    YAML_NOT_MAPPING,
    YAML_TOO_LARGE,
    YAML_UNSUPPORTED,
)
from headwater.loaders.yaml_builder import TreeBuilder
from headwater.loaders.yaml_nodes import MappingNode, Node, Pair, ScalarNode, SequenceNode, Source, shown
from headwater.loaders.yaml_syntax import glued
from headwater.values import Position, nearest

__all__ = ["MappingNode", "Node", "Pair", "ScalarNode", "SequenceNode", "parse_tree", "read_tree"]

MAX_BYTES = 1024 * 1024
_DIRECTIVE = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\r?\n)*(%[^\r\n]*)")


def read_tree(path: Path) -> MappingNode:
    """The tree of a file; PipelineError carries everything that is wrong with it."""
    return parse_tree(read_text(path, (".yml", ".yaml"), "a pipeline file", MAX_BYTES), str(path))


def parse_tree(text: str, file: str) -> MappingNode:
    """The tree of a text; `file` is the name that positions carry."""
    source = Source(file, text)
    problem = _refused_unread(source)
    if problem:
        raise PipelineError(problem)
    builder = TreeBuilder(source)
    root = builder.build()
    if builder.problems:
        found = builder.problems
        raise PipelineError.of(
            sorted(found, key=lambda p: (p.place.line, p.place.column) if p.place else (0, 0))
        )
    return _top_level(root, source)


def _refused_unread(source: Source) -> Problem | None:
    if len(source.text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return _too_large(source.file)
    if directive := _DIRECTIVE.match(source.text):
        found = shown(directive[1])
        return YAML_UNSUPPORTED.at(source.at(directive.start(1)), what="YAML directives", found=found)
    return None


def _too_large(file: str) -> Problem:
    return YAML_TOO_LARGE.at(Position(file, 1), file=file, limit=f"{MAX_BYTES} bytes")


def _top_level(root: Node | None, source: Source) -> MappingNode:
    if isinstance(root, MappingNode):
        return root
    start = Position(source.file, 1)
    if root is None or (isinstance(root, ScalarNode) and root.plain and root.text == ""):
        raise PipelineError(YAML_NOT_MAPPING.at(start, kind="nothing"))
    pair = glued(root.text) if isinstance(root, ScalarNode) and root.plain else None
    if pair:
        raise PipelineError(YAML_NO_SPACE.at(root.position, found=pair[0], suggestion=pair[1]))
    raise PipelineError(YAML_NOT_MAPPING.at(root.position, kind=root.kind))


def read_text(path: Path, suffixes: Collection[str], what: str, most: int | None = None) -> str:
    """The text of a file, of `most` bytes; PipelineError says why there is none, and what may be meant."""
    file = str(path)
    try:
        with path.open("rb") as opened:
            content = opened.read(-1 if most is None else most + 1)
    except FileNotFoundError:
        raise PipelineError(FILE_NOT_THERE.at(file=path, hint=_missing_hint(path))) from None
    except IsADirectoryError:
        raise PipelineError(FILE_IS_FOLDER.at(file=path, hint=_folder_hint(path, suffixes, what))) from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise PipelineError(FILE_UNREADABLE.at(file=path, reason=reason)) from None
    if most is not None and len(content) > most:
        raise PipelineError(_too_large(file))
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8")
        raise PipelineError(NOT_UTF8.at(Source(file, before).at(len(before)), file=file)) from None


def _missing_hint(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"There is no folder {folder} either; check the path."
    close = nearest(path.name, (entry.name for entry in folder.iterdir() if entry.is_file()))
    return f"Did you mean {folder / close}?" if close else f"See what is there: `ls {folder}`."


def _folder_hint(path: Path, suffixes: Collection[str], what: str) -> str:
    files = sorted(entry for entry in path.iterdir() if entry.suffix in suffixes and entry.is_file())
    if not files:
        return f"Name {what}."
    return f"Name a file in it, such as {nearest(path.name + '.yml', map(str, files)) or files[0]}."
