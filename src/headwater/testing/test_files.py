"""Tests from a test file: YAML beside the pipeline, read with positions into `Test`s."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from pathlib import Path
from typing import Any

from headwater.errors import PipelineError, Problem
from headwater.errors.catalogue.pipelines import (
    MISSING_KEY,
    YAML_NOT_MAPPING,
    YAML_TOO_LARGE,
)
from headwater.errors.catalogue.testing import TEST_FILE, TEST_FILE_TOO_LARGE, TEST_NONE
from headwater.loaders.judge import in_order
from headwater.loaders.user_files import called_function
from headwater.loaders.yaml_nodes import MappingNode, Node, Pair, ScalarNode, SequenceNode
from headwater.loaders.yaml_tree import read_tree
from headwater.testing.file_steps import ROW_FILES, ROWS_EXAMPLE, Reader, StepReader, place_of
from headwater.testing.steps import Read, Rows, Step, Test
from headwater.values import Position, nearest

SETTINGS = ("day", "clock", "env", "given", "sinks", "no_data_batches")
TOP_KEYS = ("pipeline", *SETTINGS, "tests")
TEST_KEYS = (*SETTINGS, "steps")
TEST_EXAMPLE = "owls are counted: [{feed: {words: [{word: owl}]}}]"
STEP_EXAMPLE = "- feed: {words: [{word: owl}]}"
READ_EXAMPLE = '{read: "checks.py:read_totals"}'


def load_tests(file: Path) -> tuple[Test, ...]:
    """The tests of a file; PipelineError carries everything that is wrong with it."""
    try:
        tree = read_tree(file)
    except PipelineError as error:
        raise PipelineError.of([_retold(problem, file) for problem in error.problems]) from None
    # A misspelt key is told as such.
    if not any(nearest(pair.key, ("pipeline", "tests")) for pair in tree.pairs):
        raise PipelineError(TEST_FILE.at(tree.position, file=str(file)))
    return _FileReader(file, tree).tests()


def _retold(problem: Problem, file: Path) -> Problem:
    """What is wrong with the file as YAML, where the remedy for a pipeline file would mislead."""
    if problem.entry is YAML_NOT_MAPPING:
        return TEST_FILE.at(problem.place or Position(str(file), 1), file=str(file))
    limit = problem.params.get("limit", "")
    if problem.entry is YAML_TOO_LARGE and "levels" not in str(limit):
        return TEST_FILE_TOO_LARGE.at(problem.place, file=str(file), limit=limit)
    return problem


@dataclass(frozen=True)
class Sinks:
    """What `sinks:` says."""

    real: Mapping[str, Read | None] = field(default_factory=dict)
    all_real: bool = False


@dataclass(frozen=True)
class Settings:
    """How the surroundings of a pipeline are replaced; None where nothing is said."""

    day: str | None = None
    clock: str | None = None
    env: Mapping[str, str] | None = None
    given: Mapping[str, Rows | str] | None = None
    sinks: Sinks | None = None
    no_data_batches: bool | None = None

    def above(self, file: Settings) -> Settings:
        """These settings, and the file's where they say nothing; rows and variables name by name."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        merged = {
            name: getattr(file, name) if value is None else _together(getattr(file, name), value)
            for name, value in said.items()
        }
        return Settings(**merged)


def _together(outer: Any, inner: Any) -> Any:
    return {**(outer or {}), **inner} if isinstance(inner, Mapping) else inner


class _FileReader:
    """Walks the tree of one file and collects problems."""

    def __init__(self, file: Path, tree: MappingNode) -> None:
        self.file = file
        self.tree = tree
        self.reader = Reader(file)
        self.steps = StepReader(self.reader)

    def tests(self) -> tuple[Test, ...]:
        self.reader.unknown(self.tree, TOP_KEYS, "a test file")
        pipeline = self._pipeline()
        settings = self._settings(self.tree)
        tests = list(self._tests(pipeline or self.file, settings))
        if self.reader.problems:
            raise PipelineError.of(in_order(self.reader.problems))
        return tuple(tests)

    def _needed(self, key: str, example: str) -> Pair | None:
        """A key that must be there; a misspelt one has been told."""
        found = _pair(self.tree, key)
        if found is None and not any(nearest(each.key, TOP_KEYS) == key for each in self._unknown()):
            place = Position(str(self.file), 1)
            problem = MISSING_KEY.at(place, key=key, where="the test file", example=f"`{example}`")
            self.reader.problems.append(problem)
        return found

    def _unknown(self) -> list[Pair]:
        return [pair for pair in self.tree.pairs if pair.key not in TOP_KEYS]

    def _pipeline(self) -> Path | None:
        example = "pipeline: my_pipeline.yml"
        pair = self._needed("pipeline", example)
        written = self.reader.text(pair, example) if pair else None
        if pair is None or written is None:
            return None
        return self.reader.pipeline(pair, written)

    def _tests(self, pipeline: Path, settings: Settings) -> Iterator[Test]:
        pair = self._needed("tests", f"tests: {{{TEST_EXAMPLE}}}")
        if pair is None:
            return
        if isinstance(pair.node, MappingNode) and pair.node.pairs:
            for each in pair.node.pairs:
                test = self._test(each, pipeline, settings)
                if test is not None:
                    yield test
        elif pair.node.value:
            self.reader.wanted(pair, "a mapping of names to steps", f"tests: {{{TEST_EXAMPLE}}}")
        else:
            self._nothing(pair, TEST_EXAMPLE)

    def _test(self, pair: Pair, pipeline: Path, settings: Settings) -> Test | None:
        if isinstance(pair.node, MappingNode):
            self.reader.unknown(pair.node, TEST_KEYS, f"the test `{pair.key}`")
            settings = self._settings(pair.node).above(settings)
            steps = self._steps_of(pair, pair.node)
        else:
            steps = self._steps(pair)
        if steps is None:
            return None
        sinks = settings.sinks or Sinks()
        return Test(
            name=pair.key,
            pipeline=pipeline,
            steps=steps,
            given=settings.given or {},
            real=sinks.real,
            all_real=sinks.all_real,
            env=settings.env or {},
            day=settings.day,
            clock=settings.clock,
            no_data_batches=settings.no_data_batches,
            file=self.file,
            place=pair.key_position,
        )

    def _steps_of(self, pair: Pair, node: MappingNode) -> tuple[Step, ...] | None:
        """The steps of a test that has settings of its own."""
        found = _pair(node, "steps")
        if found is not None:
            return self._steps(found)
        others = [each.key for each in node.pairs if each.key not in TEST_KEYS]
        if not any(nearest(other, TEST_KEYS) == "steps" for other in others):
            place, where = pair.key_position, f"the test `{pair.key}`"
            example = f"`steps:`, and below it `{STEP_EXAMPLE}`"
            self.reader.problems.append(MISSING_KEY.at(place, key="steps", where=where, example=example))
        return None

    def _steps(self, pair: Pair) -> tuple[Step, ...] | None:
        if isinstance(pair.node, SequenceNode) and pair.node.children:
            return tuple(step for step in map(self.steps.step, pair.node.children) if step)
        if pair.node.value in (None, []):
            self._nothing(pair, STEP_EXAMPLE)
        else:
            self.reader.wanted(pair, "a list of steps", STEP_EXAMPLE)
        return None

    def _nothing(self, pair: Pair, example: str) -> None:
        self.reader.problems.append(TEST_NONE.at(place_of(pair), key=pair.key, example=example))

    def _settings(self, node: MappingNode) -> Settings:
        read: dict[str, Callable[[Pair], Any]] = {
            "day": self._day,
            "clock": lambda pair: self.reader.time(pair, "clock: 08:00"),
            "env": lambda pair: self.reader.by_name(pair, "env: {TOPIC: words}", self._variable),
            "given": lambda pair: self.reader.by_name(pair, f"given: {{ads: {ROWS_EXAMPLE}}}", self._given),
            "sinks": self._sinks,
            "no_data_batches": self.reader.truth,
        }
        return Settings(**{pair.key: read[pair.key](pair) for pair in node.pairs if pair.key in SETTINGS})

    def _day(self, pair: Pair) -> str | None:
        text = pair.node.value
        if isinstance(text, str) and _is_day(text):
            return text
        self.reader.wanted(pair, "a day", "day: 2026-01-31")
        return None

    def _variable(self, pair: Pair) -> str | None:
        """The text of a variable: the environment knows no numbers."""
        if isinstance(pair.node, ScalarNode) and pair.node.resolved is not None:
            return pair.node.text
        self.reader.wanted(pair, "text", f"{pair.key}: words")
        return None

    def _given(self, pair: Pair) -> Rows | str | None:
        if pair.node.value == "real":
            return "real"
        if isinstance(pair.node, SequenceNode) or str(pair.node.value).endswith(ROW_FILES):
            return self.reader.rows(pair, f"`given` of `{pair.key}`")
        wanted = "a list of rows, a file of them, or `real`,"
        self.reader.wanted(pair, wanted, f"{pair.key}: {ROWS_EXAMPLE}` or `{pair.key}: real")
        return None

    def _sinks(self, pair: Pair) -> Sinks | None:
        if pair.node.value in ("real", "captured"):
            return Sinks(all_real=pair.node.value == "real")
        if not isinstance(pair.node, MappingNode):
            self.reader.wanted(pair, "`captured` or `real`", "sinks: real` or `sinks: {counts: real}")
            return None
        real: dict[str, Read | None] = {}
        for each in pair.node.pairs:
            if each.node.value == "real":
                real[each.key] = None
            elif each.node.value != "captured":
                real[each.key] = self._read(each)
        return Sinks(real)

    def _read(self, pair: Pair) -> Read | None:
        """How a real sink is read back."""
        function = _pair(pair.node, "read")
        if isinstance(pair.node, MappingNode):
            self.reader.unknown(pair.node, ("read",), f"`sinks` of `{pair.key}`")
        if function is None:
            if not isinstance(pair.node, MappingNode) or not pair.node.pairs:
                wanted = f"`captured`, `real` or `{READ_EXAMPLE}`"
                self.reader.wanted(pair, wanted, f"{pair.key}: real")
            return None
        written = self.reader.text(function, READ_EXAMPLE)
        return self._function(function, written) if written is not None else None

    def _function(self, pair: Pair, written: str) -> Read | None:
        file, colon, name = written.rpartition(":")
        if not colon or not file.endswith(".py") or not name.isidentifier():
            says = f"`{written}` does not name a function of a Python file"
            self.reader.wrong(pair, says, f"Write `{READ_EXAMPLE}`.")
            return None
        place, path = place_of(pair), self.reader.path(file)
        self.reader.collected(lambda: called_function(path, name, ("spark",), place))
        return Read(f"{path}:{name}", place)


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _pair(node: Node, key: str) -> Pair | None:
    if not isinstance(node, MappingNode):
        return None
    return next((pair for pair in node.pairs if pair.key == key), None)
