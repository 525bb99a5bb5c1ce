"""Tests from a test file: YAML with positions, read into `Test`s."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from headwater.errors import PipelineError, Problem, shown_file
from headwater.errors.catalogue.pipelines import VALUE_INVALID, YAML_NOT_MAPPING, YAML_TOO_LARGE
from headwater.errors.catalogue.testing import (
    TEST_EMPTY,
    TEST_FILE_INVALID,
    TEST_FILE_TOO_LARGE,
    TEST_PIPELINE_NOT_FOUND,
    TEST_ROW_FILE_NOT_FOUND,
    TEST_ROW_INVALID,
    TEST_STEP_CONFLICT,
    TEST_STEP_EMPTY,
    TEST_UNKNOWN_STEP,
)
from headwater.loaders.judge import in_order
from headwater.loaders.keys import Declaration, Part, Route
from headwater.loaders.user_files import called_function
from headwater.loaders.validation import read_keys
from headwater.loaders.yaml_form import read_tree
from headwater.loaders.yaml_syntax import MappingNode, ScalarNode
from headwater.testing.file_keys import (
    ACTIONS,
    CHECKS,
    ROW_FILES,
    STEP_EXAMPLE,
    TEST_EXAMPLE,
    WORDS,
    FileKeys,
    ReadKeys,
    SettingsKeys,
    StepKeys,
    TestKeys,
    found_words,
    read_rows,
)
from headwater.testing.steps import (
    Advance,
    ChangeTo,
    Check,
    Crash,
    Feed,
    ReadStep,
    Restart,
    Row,
    Rows,
    Start,
    Step,
    Stop,
    Test,
)
from headwater.values import Position, did_you_mean, nearest

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)

PIPELINE_FILES = (".yml", ".yaml", ".py")
_STEPS: Mapping[str, type[Step]] = {kind.word: kind for kind in (Restart, Stop, Start, Crash)}
_EXAMPLES = {
    "feed": "feed: {words: [{word: owl}]}",
    "advance": "advance: 2 hours",
    "change_to": "change_to: version2.yml",
}


def load_tests(file: Path) -> tuple[Test, ...]:
    """The tests of a file; PipelineError carries all its problems."""
    try:
        tree = read_tree(file)
    except PipelineError as error:
        raise PipelineError.of([_retold(problem, file) for problem in error.problems]) from None
    # A misspelled key is reported as such.
    if not any(nearest(pair.key, ("pipeline", "tests")) for pair in tree.pairs):
        raise PipelineError(TEST_FILE_INVALID.at(tree.position, file=str(file)))
    return _FileReader(file, tree).tests()


def _retold(problem: Problem, file: Path) -> Problem:
    """A YAML problem of the file, if the hint for a pipeline file would be misleading."""
    if problem.entry is YAML_NOT_MAPPING:
        return TEST_FILE_INVALID.at(problem.place or Position(str(file), 1), file=str(file))
    limit = problem.params.get("limit", "")
    if problem.entry is YAML_TOO_LARGE and "levels" not in str(limit):
        return TEST_FILE_TOO_LARGE.at(problem.place, file=str(file), limit=limit)
    return problem


class _FileReader:
    """Reads one file and collects problems."""

    def __init__(self, file: Path, tree: MappingNode) -> None:
        self.file = file
        self.tree = tree
        self.declaration = Declaration(tree.value, tree, file.parent, str(file))
        self.problems: list[Problem] = []

    def tests(self) -> tuple[Test, ...]:
        keys = self._keys(FileKeys, self.tree.value, (), "the test file", "a test file")
        written = self.tree.value.get("tests")
        settings = self._settings(keys, ()) if keys else {}
        path = self.tree.value.get("pipeline")
        pipeline = self._pipeline(("pipeline",), path) if isinstance(path, str) else self.file
        if "tests" in self.tree.value and not written:
            self._nothing(("tests",), "tests", TEST_EXAMPLE)
        named = written.items() if isinstance(written, Mapping) else ()
        tests = [self._test(name, each, pipeline, settings) for name, each in named]
        if self.problems:
            raise PipelineError.of(in_order(self.problems))
        return tuple(test for test in tests if test)

    def _keys(
        self, model: type[Model], written: Mapping[str, Any], route: Route, where: str, around: str = ""
    ) -> Model | None:
        keys, problems, _ = read_keys(model, Part(written, self.declaration, route, where), around)
        self.problems += problems
        return keys

    def _place(self, route: Route) -> Position:
        """The position of a value; an empty one has none, so its key is used."""
        node = self.tree.find(route)
        nothing = isinstance(node, ScalarNode) and node.resolved is None
        return self.tree.of_key(route) if nothing else node.position

    def _nothing(self, route: Route, key: str, example: str) -> None:
        self.problems.append(TEST_EMPTY.at(self._place(route), key=key, example=example))

    def _settings(self, keys: SettingsKeys, route: Route) -> dict[str, Any]:
        """The settings of the environment, as a Test has them."""
        said: dict[str, Any] = {name: getattr(keys, name) for name in SettingsKeys.model_fields}
        said = {name: value for name, value in said.items() if name in keys.model_fields_set}
        if "env" in said:
            # Environment variables are strings: use the original text.
            texts = {name: self.tree.find((*route, "env", name)) for name in said["env"]}
            said["env"] = {name: node.text for name, node in texts.items() if isinstance(node, ScalarNode)}
        if "given" in said:
            of = {name: f"`given` of `{name}`" for name in said["given"]}
            said["given"] = {
                name: rows if rows == "real" else self._rows((*route, "given", name), rows, of[name])
                for name, rows in said["given"].items()
            }
        if "sinks" in said:
            sinks = said.pop("sinks")
            named = sinks if isinstance(sinks, Mapping) else {}
            reads = {name: each for name, each in named.items() if each != "captured"}
            said["real"] = {name: self._read((*route, "sinks", name), each) for name, each in reads.items()}
            said["all_real"] = sinks == "real"
        return said

    def _read(self, route: Route, written: Any) -> ReadStep | None:
        """How a real sink is read back, if that must be configured."""
        if written == "real":
            return None
        keys = self._keys(ReadKeys, written, route, f"`sinks` of `{route[-1]}`")
        if keys is None:
            return None
        file, _, name = keys.read.rpartition(":")
        place, path = self._place((*route, "read")), self._path(file)
        self._collected(lambda: called_function(path, name, ("spark",), place))
        return ReadStep(f"{path}:{name}", place)

    def _test(self, name: str, written: Any, pipeline: Path, settings: Mapping[str, Any]) -> Test | None:
        route: Route = ("tests", name)
        listed = not isinstance(written, Mapping)
        keys = self._keys(TestKeys, {"steps": written} if listed else written, route, f"the test `{name}`")
        if keys is None:
            return None
        below: Route = route if listed else (*route, "steps")
        if not keys.steps:
            self._nothing(below, str(below[-1]), STEP_EXAMPLE)
            return None
        own = self._settings(keys, route)
        merged = {
            key: {**settings[key], **own[key]} if key in ("env", "given") and key in settings else own[key]
            for key in own
        }
        steps = [self._step((*below, index), each) for index, each in enumerate(keys.steps)]
        return Test(
            **{**settings, **merged},
            name=name,
            pipeline=pipeline,
            steps=tuple(step for step in steps if step),
            file=self.file,
            place=self.tree.of_key(route),
        )

    def _step(self, route: Route, written: Any) -> Step | None:
        """One step; None if it is invalid."""
        place = self.tree.find(route).position
        if written is None or written == {}:
            self.problems.append(TEST_STEP_EMPTY.at(place, known=", ".join((*ACTIONS, *CHECKS))))
        elif isinstance(written, Mapping):
            actions = [key for key in written if key in ACTIONS]
            for other in actions[1:]:
                at = self.tree.of_key((*route, other))
                self.problems.append(TEST_STEP_CONFLICT.at(at, first=actions[0], second=other))
            keys = self._keys(StepKeys, written, route, "a step")
            return self._action(keys, actions[0] if actions else "", route, place) if keys else None
        elif written in WORDS:
            return _STEPS[written](place=place)
        else:
            word = written if isinstance(written, str) else found_words(written).strip("`")
            self.problems.append(TEST_UNKNOWN_STEP.at(place, word=word, hint=_word_hint(word)))
        return None

    def _action(self, keys: StepKeys, action: str, route: Route, place: Position) -> Step:
        said: dict[str, Any] = {key: getattr(keys, key) for key in CHECKS if key in keys.model_fields_set}
        checks = {**said, "place": place}
        if "expect" in said:
            checks["expect"] = self._by_name((*route, "expect"), keys.expect, "`expect` of")
        if "state" in said:
            kept = keys.state.items()
            checks["state"] = {name: self._state((*route, "state", name), each) for name, each in kept}
        match action:
            case "":
                return Check(**checks)
            case "feed":
                return Feed(self._by_name((*route, "feed"), keys.feed, "`feed` to"), **checks)
            case "advance":
                return Advance(keys.advance, **checks)
            case "change_to":
                return ChangeTo(self._pipeline((*route, "change_to"), keys.change_to), **checks)
            case word:
                return _STEPS[word](**checks)

    def _by_name(self, route: Route, rows: Mapping[str, Any], where: str) -> dict[str, Rows]:
        return {name: self._rows((*route, name), each, f"{where} `{name}`") for name, each in rows.items()}

    def _state(self, route: Route, kept: Any) -> Any:
        """The number of state rows, the rows, or rows by operator, side of a join or state variable."""
        if isinstance(kept, int):
            return kept
        if isinstance(kept, Mapping):
            return {name: self._state((*route, name), rows) for name, rows in kept.items()}
        rows = self._rows(route, kept, f"`state` of `{route[-1]}`")
        if any(isinstance(row, Row) and isinstance(row.values, list) for row in rows):
            says, hint = "a row of state must have column names", "Write `{key: {…}, value: {…}}` for it."
            at = self._place(route)
            self.problems.append(VALUE_INVALID.at(at, what=f"`{route[-1]}`", says=says, hint=hint))
        return rows

    def _rows(self, route: Route, written: Any, where: str) -> Rows:
        """A list of rows by column or in column order, or the rows of a file next to the test."""
        if isinstance(written, str):
            path = self._path(written)
            if path.is_file():
                return self._collected(lambda: read_rows(path)) or []
            told = {"file": shown_file(str(path)), "where": where, "hint": self._hint(path, ROW_FILES)}
            self.problems.append(TEST_ROW_FILE_NOT_FOUND.at(self._place(route), **told))
            return []
        rows = []
        for index, values in enumerate(written):
            place = self.tree.find((*route, index)).position
            rows.append(Row(values, place))
            if not isinstance(values, Mapping | list):
                self.problems.append(TEST_ROW_INVALID.at(place, where=where, kind=found_words(values)))
        return rows

    def _path(self, written: str) -> Path:
        """A path relative to the directory of the test file."""
        return Path(os.path.abspath(self.file.parent / written))

    def _pipeline(self, route: Route, written: str) -> Path:
        """A pipeline file; `pipeline.py:name` selects one of several in a Python file."""
        stem, colon, name = written.partition(".py:")
        path = self._path(f"{stem}.py" if colon else written)
        if not path.is_file():
            told = {"file": shown_file(str(path)), "hint": self._hint(path, PIPELINE_FILES)}
            self.problems.append(TEST_PIPELINE_NOT_FOUND.at(self._place(route), **told))
        return Path(f"{path}:{name}") if colon else path

    def _collected(self, read: Callable[[], T]) -> T | None:
        """The result of a reader of another file; its problems are reported together with the others."""
        try:
            return read()
        except PipelineError as error:
            self.problems += error.problems
            return None

    def _hint(self, path: Path, suffixes: tuple[str, ...]) -> str:
        """What a path that does not exist may mean, relative to the test file."""
        beside = "Paths are relative to the directory of the test file."
        if not path.parent.is_dir():
            return f"{beside} Directory {path.parent} does not exist."
        close = nearest(path.name, [each.name for each in path.parent.iterdir() if each.suffix in suffixes])
        if close is None:
            return f"{beside} List the existing files: `ls {path.parent}`."
        written = os.path.relpath(path.parent / close, os.path.abspath(self.file.parent))
        return f"{beside} Did you mean `{Path(written).as_posix()}`?"


def _word_hint(word: str) -> str:
    """What to write instead of an unknown step."""
    if word in (*_EXAMPLES, *CHECKS):
        return f"Give it a value: write `- {_EXAMPLES.get(word, f'{word}: …')}`."
    every = f"Use one of {', '.join(WORDS)}, or a mapping: `{_EXAMPLES['feed']}`."
    return did_you_mean(word, (*ACTIONS, *CHECKS), every)
