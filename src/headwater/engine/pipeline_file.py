"""A pipeline from its file, in either form."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType

from headwater.checks import Situation, examine, suppressed
from headwater.engine.project_code import ProjectCode
from headwater.errors import Entry, PipelineError, Problem, UsageError
from headwater.errors.catalogue.pipelines import (
    PIPELINE_AMBIGUOUS,
    PIPELINE_FILE_INVALID,
    PIPELINE_NOT_FOUND,
    SOURCE_PATH_NOT_FOUND,
)
from headwater.loaders.judge import in_order
from headwater.loaders.keys import Refused
from headwater.loaders.python_form import Declarations
from headwater.loaders.user_files import declares_pipeline
from headwater.loaders.yaml_form import YamlFile
from headwater.plan import Graph
from headwater.spec import PipelineSpec


def load(file: str | Path, *, reads: bool = True) -> PipelineSpec:
    """The spec of a .yml, .yaml or .py file; `pipeline.py:name` selects one of several in a Python file.

    PipelineError carries all problems of its form, and further problems of the valid parts. If nothing is to
    be read (`reads=False`), the paths of sources do not need to exist.
    """
    return judged(declared(file), () if reads else (SOURCE_PATH_NOT_FOUND,))


def judged(pipeline: Declarations | YamlFile, passed_over: Collection[Entry] = ()) -> PipelineSpec:
    """The spec of what was declared; problems in `passed_over` are ignored."""
    try:
        return pipeline.spec()
    except Refused as refused:
        if refused.sound is None:
            raise
        wrong = [problem for problem in refused.problems if problem.entry not in passed_over]
        if not wrong:
            return refused.sound
        raise PipelineError.of(in_order([*wrong, *_wrong_besides(refused)])) from None


def _wrong_besides(refused: Refused) -> Iterator[Problem]:
    assert refused.sound is not None, "some parts are sound"
    graph = Graph.of(refused.sound, besides=refused.besides)
    yield from graph.problems
    for finding in suppressed(examine(Situation(refused.sound, graph, whole=False)), refused.sound):
        if finding.is_error:
            yield finding.problem


def declared(file: str | Path) -> Declarations | YamlFile:
    """What a file declares, before validation."""
    text = str(file)
    name = ""
    if ".py:" in text:
        text, _, name = text.rpartition(":")
    path = Path(text)
    if path.suffix == ".py":
        return _load_python(path, name)
    if path.suffix in (".yml", ".yaml") or path.is_dir() or not path.exists():
        return YamlFile.read(path)
    raise UsageError(PIPELINE_FILE_INVALID.at(None, file=text))


def _load_python(path: Path, name: str) -> Declarations:
    absolute = Path(os.path.abspath(path))
    if absolute.is_file() and not declares_pipeline(absolute):
        # Do not run it to find out: a user's script may start its own queries.
        raise PipelineError(PIPELINE_NOT_FOUND.at(None, file=str(path)))
    module = ProjectCode.of(absolute.parent, [absolute]).load(absolute, by_value=True)
    found = _pipelines(module)
    if name in found:
        return found[name]
    if not found:
        raise PipelineError(PIPELINE_NOT_FOUND.at(None, file=str(path)))
    if len(found) > 1 or name:
        names = ", ".join(found)
        raise UsageError(PIPELINE_AMBIGUOUS.at(None, file=str(path), names=names, first=next(iter(found))))
    return next(iter(found.values()))


def _pipelines(module: ModuleType) -> dict[str, Declarations]:
    found: dict[str, Declarations] = {}
    for name, value in vars(module).items():
        if isinstance(value, Declarations) and value not in found.values():
            found[name] = value
    return found
