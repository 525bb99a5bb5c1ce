"""Loads pipelines declared in YAML."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headwater.errors import PipelineError, Place, Problem
from headwater.errors.catalogue.pipelines import (
    FILE_ENCODING_INVALID,
    FILE_IS_DIRECTORY,
    FILE_NOT_FOUND,
    FILE_UNREADABLE,
    KEY_RENAMED,
    KEY_UNKNOWN,
    PIPELINE_NO_SINKS,
    VARIABLE_IN_KEY,
    VARIABLE_MALFORMED,
    VARIABLE_MISSING,
    YAML_NO_SPACE,
    YAML_NOT_MAPPING,
    YAML_TOO_LARGE,
    YAML_UNSUPPORTED,
)
from headwater.loaders.judge import in_order, judge
from headwater.loaders.keys import Declaration, Places, Refused
from headwater.loaders.yaml_builder import TreeBuilder
from headwater.loaders.yaml_syntax import (
    MappingNode,
    Node,
    Pair,
    ScalarNode,
    SequenceNode,
    Source,
    glued,
    resolve,
    shown,
)
from headwater.spec import PipelineSpec
from headwater.values import Position, Secret, nearest
from headwater.values.secrets import NAME, SecretName

# Reads one YAML 1.2 file into a tree with positions, safely: no tags, bounded size, depth and aliases.

__all__ = ["MappingNode", "Node", "Pair", "ScalarNode", "SequenceNode", "parse_tree", "read_tree"]

MAX_BYTES = 1024 * 1024
_DIRECTIVE = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\r?\n)*(%[^\r\n]*)")


def read_tree(path: Path) -> MappingNode:
    """The tree of a file; raises PipelineError with all of its problems."""
    return parse_tree(read_text(path, (".yml", ".yaml"), "a pipeline file", MAX_BYTES), str(path))


def parse_tree(text: str, file: str) -> MappingNode:
    """The tree of a text; positions refer to `file`."""
    source = Source(file, text)
    if len(source.text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise PipelineError(_too_large(file))
    if directive := _DIRECTIVE.match(source.text):
        place, found = source.at(directive.start(1)), shown(directive[1])
        raise PipelineError(YAML_UNSUPPORTED.at(place, what="YAML directives", found=found))
    builder = TreeBuilder(source)
    root = builder.build()
    if builder.problems:
        raise PipelineError.of(in_order(builder.problems))
    if isinstance(root, MappingNode):
        return root
    if root is None or (isinstance(root, ScalarNode) and root.plain and root.text == ""):
        raise PipelineError(YAML_NOT_MAPPING.at(Position(file, 1), kind="nothing"))
    if isinstance(root, ScalarNode) and root.plain and (pair := glued(root.text)):
        raise PipelineError(YAML_NO_SPACE.at(root.position, found=pair[0], suggestion=pair[1]))
    raise PipelineError(YAML_NOT_MAPPING.at(root.position, kind=root.kind))


def _too_large(file: str) -> Problem:
    return YAML_TOO_LARGE.at(Position(file, 1), file=file, limit=f"{MAX_BYTES:,} bytes")


def read_text(path: Path, suffixes: Collection[str], what: str, most: int | None = None) -> str:
    """The text of a file of at most `most` bytes; raises PipelineError with a suggestion."""
    file = str(path)
    try:
        with path.open("rb") as opened:
            content = opened.read(-1 if most is None else most + 1)
    except FileNotFoundError:
        raise PipelineError(FILE_NOT_FOUND.at(file=path, hint=_missing_hint(path))) from None
    except IsADirectoryError:
        raise PipelineError(
            FILE_IS_DIRECTORY.at(file=path, hint=_folder_hint(path, suffixes, what))
        ) from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise PipelineError(FILE_UNREADABLE.at(file=path, reason=reason)) from None
    if most is not None and len(content) > most:
        raise PipelineError(_too_large(file))
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8")
        raise PipelineError(
            FILE_ENCODING_INVALID.at(Source(file, before).at(len(before)), file=file)
        ) from None


def _missing_hint(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"Check the path: the directory {folder} does not exist."
    close = nearest(path.name, (entry.name for entry in folder.iterdir() if entry.is_file()))
    return f"Did you mean {folder / close}?" if close else f"List the existing files: `ls {folder}`."


def _folder_hint(path: Path, suffixes: Collection[str], what: str) -> str:
    files = sorted(entry for entry in path.iterdir() if entry.suffix in suffixes and entry.is_file())
    if not files:
        return f"Pass {what}."
    return f"Pass a file in it, such as {nearest(path.name + '.yml', map(str, files)) or files[0]}."


# Puts environment variables into the values of a tree: `${NAME}`, `${NAME:-default}`, `${secret:NAME}`.

_TOKEN = re.compile(r"\$\$\{|\$\{[^}]*\}?")
_BODY = re.compile(
    rf"\$\{{(?:secret:(?P<secret>{NAME.pattern})|(?P<name>{NAME.pattern})(?::-(?P<default>[^}}]*))?)\}}"
)


def interpolate(tree: Node, environ: Mapping[str, str]) -> tuple[Node, list[Problem]]:
    """The tree with all substitutions applied, and the problems found."""
    work = _Interpolation(environ)
    return work.node(tree), work.problems


class _Interpolation:
    """Substitutes the variables of a tree once; a value that aliases repeat is processed once."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.problems: list[Problem] = []
        self._done: dict[int, Node] = {}

    def node(self, node: Node) -> Node:
        """The node with all substitutions applied."""
        if id(node) not in self._done:
            self._done[id(node)] = self._made(node)
        return self._done[id(node)]

    def _made(self, node: Node) -> Node:
        match node:
            case ScalarNode():
                return self._scalar(node)
            case SequenceNode():
                return replace(node, children=tuple(self.node(child) for child in node.children))
            case MappingNode(pairs=pairs):
                wrong = [pair for pair in pairs if "${" in pair.key]
                self.problems += [VARIABLE_IN_KEY.at(pair.key_position, key=pair.key) for pair in wrong]
                return replace(node, pairs=tuple(replace(pair, node=self.node(pair.node)) for pair in pairs))
            case _:
                return node

    def _scalar(self, node: ScalarNode) -> ScalarNode:
        if not isinstance(node.resolved, str) or "${" not in node.text:
            return node
        parts = self._parts(node)
        if any(isinstance(part, SecretName) for part in parts):
            return replace(node, resolved=Secret.of(parts))
        text = "".join(str(part) for part in parts)
        bodies = all(_BODY.fullmatch(token) for token in _TOKEN.findall(node.text))
        alone = node.plain and bodies and not _TOKEN.sub("", node.text)
        position = node.text_position
        if text.count("\n") != node.text.count("\n"):
            # The substituted text has a different number of lines: only its start position is known.
            position = replace(position, follows_lines=False)
        return replace(node, resolved=resolve(text) if alone else text, text_position=position)

    def _parts(self, node: ScalarNode) -> list[str | SecretName]:
        parts: list[str | SecretName] = []
        end = 0
        for token in _TOKEN.finditer(node.text):
            parts += [node.text[end : token.start()], self._token(token, node)]
            end = token.end()
        return [*parts, node.text[end:]]

    def _token(self, token: re.Match[str], node: ScalarNode) -> str | SecretName:
        if token[0] == "$${":
            return "${"
        body = _BODY.fullmatch(token[0])
        if body is None:
            self.problems.append(VARIABLE_MALFORMED.at(_place(node, token.start()), found=shown(token[0])))
            return ""
        if body["secret"]:
            return SecretName(body["secret"])
        # As in a shell, the default applies if the variable is unset or empty.
        name, value = body["name"], self.environ.get(body["name"])
        if value is None and body["default"] is None:
            close = nearest(name, self.environ)
            hint = f"Did you mean {close}? " if close else ""
            self.problems.append(VARIABLE_MISSING.at(_place(node, token.start()), name=name, hint=hint))
        return value or body["default"] or ""


def _place(node: ScalarNode, offset: int) -> Position:
    """The position in the file of the `${` at an offset of the text."""
    index = node.text.count("${", 0, offset)
    return node.substitutions[index] if node.substitutions else node.position


@dataclass(frozen=True)
class YamlFile:
    """A pipeline file after variable substitution, before validation."""

    file: str
    root: Path
    tree: Node
    problems: tuple[Problem, ...] = ()
    """Variables that could not be substituted."""

    @classmethod
    def read(cls, file: Path, environ: Mapping[str, str] = os.environ) -> YamlFile:
        """Read a file; raises PipelineError if it is not valid YAML."""
        tree, problems = interpolate(read_tree(file), environ)
        return cls(str(file), Path(os.path.abspath(file)).parent, tree, tuple(problems))

    def position_of(self, part: str, name: str) -> Position | None:
        """The position where the file declares an object; None if it does not."""
        declared = self.tree.get(part)
        found = declared.step(name) if declared else None
        return found[0] if found else None

    def spec(
        self, more: Mapping[str, Mapping[str, Any]] = MappingProxyType({}), places: Places | None = None
    ) -> PipelineSpec:
        """The spec, with the declarations that a program added; raises Refused with all problems."""
        tree, problems = self.tree, self.problems
        values = {**tree.value}
        for part, things in more.items():
            if things:
                values[part] = {**(values.get(part) or {}), **things}
        try:
            spec = judge(Declaration(values, places or self.tree, self.root, self.file))
        except Refused as error:
            others = _not_following(problems, error.problems, tree)
            sound = _unspoilt(error.sound, problems, tree) if error.sound else None
            raise Refused(*in_order([*problems, *others]), sound=sound, besides=error.besides) from None
        if problems:
            raise Refused(*problems, sound=_unspoilt(spec, problems, tree), besides=spec.names)
        return spec


def _unspoilt(spec: PipelineSpec, problems: Sequence[Problem], tree: Node) -> PipelineSpec | None:
    """The spec without objects that miss a substitution; None if a name might miss one."""
    if any(problem.entry is VARIABLE_IN_KEY for problem in problems):
        return None
    missed = {problem.place for problem in problems}
    kept = {
        part: tuple(
            thing for thing in getattr(spec, part) if not missed & _places_in(tree.find((part, thing.name)))
        )
        for part in ("sources", "tables", "sinks")
    }
    return spec.model_copy(update=kept)


def _places_in(node: Node) -> set[Place | None]:
    """The positions at or below the node where a substitution can be missing."""
    if isinstance(node, ScalarNode):
        return {node.position, *node.substitutions}
    return {place for part in node.parts for place in _places_in(part)}


def _not_following(first: Sequence[Problem], others: Iterable[Problem], tree: Node) -> list[Problem]:
    """The other problems: a value that could not be substituted is not reported twice."""
    missed = {problem.place for problem in first}
    spoilt: set[Place | None] = {pair.key_position for pair in _pairs(tree) if pair.key_position in missed}
    for pair in _pairs(tree):
        values = pair.node.children if isinstance(pair.node, SequenceNode) else (pair.node,)
        for value in values:
            if isinstance(value, ScalarNode) and missed & {value.position, *value.substitutions}:
                spoilt |= {value.position, pair.key_position}
    return [
        problem
        for problem in others
        if problem.place not in spoilt or problem.entry in (KEY_RENAMED, KEY_UNKNOWN, PIPELINE_NO_SINKS)
    ]


def _pairs(node: Node) -> Iterator[Pair]:
    yield from node.pairs if isinstance(node, MappingNode) else ()
    for part in node.parts:
        yield from _pairs(part)
