"""Pipelines declared in YAML."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import PipelineError
from headwater.loaders.declaration import Declaration, Route
from headwater.loaders.interpolation import interpolate
from headwater.loaders.judge import in_order, judge
from headwater.loaders.yaml_nodes import Node, ScalarNode
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


def load_yaml(file: Path, environ: Mapping[str, str] = os.environ) -> PipelineSpec:
    """The spec of a YAML file; PipelineError with everything that is wrong with it."""
    tree, problems = interpolate(read_tree(file), environ)
    root = Path(os.path.abspath(file)).parent
    try:
        spec = judge(Declaration(tree.value, TreePlaces(tree), root, str(file)))
    except PipelineError as error:
        raise PipelineError.of(in_order([*problems, *error.problems])) from None
    if problems:
        raise PipelineError.of(problems)
    return spec
