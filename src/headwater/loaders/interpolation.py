"""Puts environment variables into the values of a tree: `${NAME}`, `${NAME:-default}`, `${secret:NAME}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from headwater.errors import Problem
from headwater.errors.catalogue.documents import VARIABLE_IN_KEY, VARIABLE_MALFORMED, VARIABLE_MISSING
from headwater.loaders.yaml_nodes import MappingNode, Node, Pair, ScalarNode, SequenceNode, resolve
from headwater.loaders.yaml_source import shown
from headwater.values import Position, Secret, TextPosition, nearest
from headwater.values.secrets import NAME, SecretName

_TOKEN = re.compile(r"\$\$\{|\$\{[^}]*\}?")
_BODY = re.compile(
    rf"\$\{{(?:secret:(?P<secret>{NAME.pattern})|(?P<name>{NAME.pattern})(?::-(?P<default>[^}}]*))?)\}}"
)


def interpolate(tree: Node, environ: Mapping[str, str]) -> tuple[Node, list[Problem]]:
    """The tree with its substitutions done, and what could not be substituted."""
    work = _Interpolation(environ)
    return work.node(tree), work.problems


class _Interpolation:
    """One pass over a tree; a value that aliases repeat is done once."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.problems: list[Problem] = []
        self._done: dict[int, Node] = {}

    def node(self, node: Node) -> Node:
        """The node with its substitutions done."""
        if id(node) not in self._done:
            self._done[id(node)] = self._made(node)
        return self._done[id(node)]

    def _made(self, node: Node) -> Node:
        match node:
            case ScalarNode():
                return self._scalar(node)
            case SequenceNode():
                return replace(node, children=tuple(self.node(child) for child in node.children))
            case MappingNode():
                return replace(node, pairs=tuple(self._pair(pair) for pair in node.pairs))
            case _:
                return node

    def _pair(self, pair: Pair) -> Pair:
        if "${" in pair.key:
            self.problems.append(VARIABLE_IN_KEY.at(pair.key_position, key=pair.key))
        return replace(pair, node=self.node(pair.node))

    def _scalar(self, node: ScalarNode) -> ScalarNode:
        if not isinstance(node.resolved, str) or "${" not in node.text:
            return node
        parts = self._parts(node)
        if any(isinstance(part, SecretName) for part in parts):
            return replace(node, resolved=Secret.of(parts))
        text = "".join(str(part) for part in parts)
        resolved = resolve(text) if node.plain and _only_substitutions(node.text) else text
        return replace(node, resolved=resolved, text_position=_still_following(node, text))

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
        return self._variable(body["name"], body["default"], _place(node, token.start()))

    def _variable(self, name: str, default: str | None, place: Position) -> str:
        """As in a shell: a default stands in for a variable that is not set or empty."""
        value = self.environ.get(name)
        if default is not None:
            return value or default
        if value is None:
            close = nearest(name, self.environ)
            hint = f"Did you mean {close}? " if close else ""
            self.problems.append(VARIABLE_MISSING.at(place, name=name, hint=hint))
        return value or ""


def _only_substitutions(text: str) -> bool:
    return all(_BODY.fullmatch(token) for token in _TOKEN.findall(text)) and not _TOKEN.sub("", text)


def _place(node: ScalarNode, offset: int) -> Position:
    """Where the `${` at an offset of the text stands in the file."""
    index = node.text.count("${", 0, offset)
    return node.substitutions[index] if node.substitutions else node.position


def _still_following(node: ScalarNode, text: str) -> TextPosition:
    """Where the text came to have other lines than the file, only its beginning is known."""
    if text.count("\n") == node.text.count("\n"):
        return node.text_position
    return replace(node.text_position, follows_lines=False)
