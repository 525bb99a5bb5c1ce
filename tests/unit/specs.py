"""Specs from YAML text, without a file."""

from __future__ import annotations

import textwrap
from pathlib import Path

from headwater.loaders.judge import judge
from headwater.loaders.keys import Declaration
from headwater.loaders.yaml_form import interpolate, parse_tree
from headwater.spec import PipelineSpec

ROOT = Path("/project")


def spec_of(text: str, root: Path = ROOT) -> PipelineSpec:
    """The spec of a YAML text that stands in `root`."""
    tree, problems = interpolate(parse_tree(textwrap.dedent(text).lstrip("\n"), "pipeline.yml"), {})
    assert problems == []
    return judge(Declaration(tree.value, tree, root, "pipeline.yml"))
