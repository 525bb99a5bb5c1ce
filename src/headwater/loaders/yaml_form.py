"""Pipelines declared in YAML."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headwater.errors import Place, Problem
from headwater.errors.catalogue.documents import VARIABLE_IN_KEY
from headwater.errors.catalogue.pipelines import NO_SINKS, UNKNOWN_KEY
from headwater.loaders.declaration import Declaration, Places, Refused, Route
from headwater.loaders.interpolation import interpolate
from headwater.loaders.judge import in_order, judge
from headwater.loaders.yaml_nodes import MappingNode, Node, Pair, ScalarNode, SequenceNode
from headwater.loaders.yaml_tree import read_tree
from headwater.spec import PipelineSpec
from headwater.values import Position, TextPosition


@dataclass(frozen=True)
class TreePlaces:
    """Places of keys and values in a YAML tree."""

    tree: Node

    def of_key(self, route: Route) -> Position:
        return self.tree.key_position(route)

    def of_value(self, route: Route) -> Position:
        return self.tree.find(route).position

    def of_text(self, route: Route) -> TextPosition:
        node = self.tree.find(route)
        return node.text_position if isinstance(node, ScalarNode) else TextPosition(node.position)


@dataclass(frozen=True)
class YamlFile:
    """A pipeline file that was read, with its variables substituted, and that was not judged yet."""

    file: str
    root: Path
    tree: Node
    problems: tuple[Problem, ...] = ()
    """Variables that could not be substituted."""

    @classmethod
    def read(cls, file: Path, environ: Mapping[str, str] = os.environ) -> YamlFile:
        """Read a file; PipelineError where it is not YAML."""
        tree, problems = interpolate(read_tree(file), environ)
        return cls(str(file), Path(os.path.abspath(file)).parent, tree, tuple(problems))

    @property
    def places(self) -> TreePlaces:
        return TreePlaces(self.tree)

    def position_of(self, part: str, name: str) -> Position | None:
        """Where the file declares a thing; None where it does not."""
        declared = self.tree.get(part)
        found = declared.step(name) if declared else None
        return found[0] if found else None

    def spec(
        self, more: Mapping[str, Mapping[str, Any]] = MappingProxyType({}), places: Places | None = None
    ) -> PipelineSpec:
        """The spec, with what a program has added; what is Refused says everything that is wrong."""
        tree, problems = self.tree, self.problems
        values = {**tree.value}
        for part, things in more.items():
            if things:
                values[part] = {**(values.get(part) or {}), **things}
        try:
            spec = judge(Declaration(values, places or self.places, self.root, self.file))
        except Refused as error:
            others = _not_following(problems, error.problems, tree)
            sound = _unspoilt(error.sound, problems, tree) if error.sound else None
            raise Refused(*in_order([*problems, *others]), sound=sound, besides=error.besides) from None
        if problems:
            raise Refused(*problems, sound=_unspoilt(spec, problems, tree), besides=spec.names)
        return spec


def _unspoilt(spec: PipelineSpec, problems: Sequence[Problem], tree: Node) -> PipelineSpec | None:
    """The spec without what lacks a substitution; None where a name may lack one."""
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
    """The places at which a value below the node may lack a substitution."""
    match node:
        case MappingNode():
            return {place for pair in node.pairs for place in _places_in(pair.node)}
        case SequenceNode():
            return {place for child in node.children for place in _places_in(child)}
        case ScalarNode():
            return {node.position, *node.substitutions}
        case _:
            return {node.position}


def _not_following(first: Sequence[Problem], others: Iterable[Problem], tree: Node) -> list[Problem]:
    """What is wrong besides: a value that could not be substituted is not judged a second time."""
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
        if problem.place not in spoilt or problem.entry in (UNKNOWN_KEY, NO_SINKS)
    ]


def _pairs(node: Node) -> Iterator[Pair]:
    if isinstance(node, MappingNode):
        for pair in node.pairs:
            yield pair
            yield from _pairs(pair.node)
    elif isinstance(node, SequenceNode):
        for child in node.children:
            yield from _pairs(child)
