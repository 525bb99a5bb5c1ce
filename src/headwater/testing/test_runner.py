"""Tests of pipelines, played one after another in one JVM."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from headwater.engine.loading import load
from headwater.engine.project_code import ProjectCode
from headwater.engine.session import PipelineSession, open_session
from headwater.errors import HeadwaterError, PipelineError, Place, Problem
from headwater.errors.catalogue.environment import INTERNAL
from headwater.errors.catalogue.testing import TEST_BAD_TIME
from headwater.events import Event, Notice
from headwater.run_directory import RunDirectory
from headwater.scripted.subjects import FunctionSubject, PipelineSubject, Subject, in_utc
from headwater.scripted.subjects import Read as ReadBack
from headwater.scripted.times import BadRow, Reading, read_date, read_time
from headwater.spark.private import has_context
from headwater.spec import Mode, PipelineSpec
from headwater.testing.queries import DEFAULT_LIMIT, Environment, ScriptedQueries, refuse_sinks
from headwater.testing.results import StepTrace, TestResult
from headwater.testing.step_runner import StepRunner
from headwater.testing.steps import Read, Step, Test
from headwater.values import scrub

FOLDER = "HEADWATER_TEST_FOLDER"
"""The variable that names the test's own folder to the pipeline and to its functions."""
DEFAULT_DAY = "2026-01-01"


@dataclass(frozen=True)
class Known:
    """A pipeline that was analyzed already, and by what it can be told from another version of it."""

    key: object
    subject: PipelineSubject


@dataclass
class TestRunner:
    """Plays tests; Spark starts with the first one, and every pipeline has a session of its own."""

    __test__ = False

    conf: Mapping[str, str] = field(default_factory=dict)
    say: Callable[[str], None] = lambda text: None
    limit: float = DEFAULT_LIMIT
    _root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="headwater-test-")))
    _subjects: dict[str, Known] = field(default_factory=dict)
    _own: PipelineSession | None = None
    """The session for functions, where the process had none."""
    _numbers: Iterator[int] = field(default_factory=count)
    _outside: Mapping[str, str | None] = field(default_factory=dict)
    """The variables of the test that is played, as they are outside of it."""
    _needed: bool = False
    """A test did not pass, so that somebody may want to read the log."""

    @property
    def logs(self) -> Path:
        return RunDirectory(self._root).logs

    def play(self, test: Test, said: Callable[[StepTrace], None] = lambda trace: None) -> TestResult:
        """One test from start to end; what keeps it from running stands in the result."""
        began = time.monotonic()
        result = TestResult(test.name, test.file, (), 0.0, day=test.day or DEFAULT_DAY, place=test.place)
        with self.isolated(test.env):
            try:
                result = self._played(test, result, said)
            except HeadwaterError as error:
                result = replace(result, problems=error.problems)
            except Exception as error:  # noqa: BLE001 - one broken test must not take the others with it
                result = replace(result, problems=(_unforeseen(error),))
        problems = tuple(replace(problem, place=problem.place or test.place) for problem in result.problems)
        self._needed |= bool(problems) or not result.passed
        return replace(result, problems=problems, seconds=time.monotonic() - began)

    def close(self) -> None:
        """End Spark, if it was started here, and remove what the tests left."""
        for session in (self._own, *(known.subject.session for known in self._subjects.values())):
            if session:
                session.jvm.stop()
        self._subjects.clear()
        for folder in self._root.iterdir():
            # A message may have named the log.
            if folder != self.logs or not self._needed:
                shutil.rmtree(folder, ignore_errors=True)
        if not self._needed:
            self._root.rmdir()

    def _played(self, test: Test, result: TestResult, said: Callable[[StepTrace], None]) -> TestResult:
        subject = self.subject(test.pipeline, test.env)
        environment = replace(environment_of(self, test, subject.zone), real=_real(test, subject))
        start = start_time(test, environment.reading)
        script = ScriptedQueries(subject, _sinks(test, subject), environment, start)
        steps = StepRunner(script, lambda path: self.subject(path, test.env), said)
        try:
            steps.all(test.steps)
        finally:
            script.close()
        return steps.result(result)

    def _notice(self, event: Event) -> None:
        if isinstance(event, Notice):
            self.say(event.text)

    def subject(self, pipeline: Path, env: Mapping[str, str]) -> PipelineSubject:
        """The pipeline of a file; analyzed again only if it says something else than before."""
        file = os.path.abspath(pipeline)
        spec = load(pipeline, reads=False)
        # A Python file makes other functions each time that it is loaded.
        python = pipeline.suffix.startswith(".py")
        key = os.stat(file.rpartition(":")[0] or file).st_mtime_ns if python else spec
        known = self._subjects.get(file)
        if known and known.key == key and not known.subject.stopped:
            return known.subject
        # What starts now lives longer than the test: Spark's Python workers keep the variables they get.
        with _variables({name: self._outside.get(name) for name in env}):
            session = open_session(
                spec, conf=self.conf, logs=self.logs, stdout=lambda line: None, emit=self._notice
            )
        # Nothing of a test belongs into the run folder of the pipeline.
        own = spec.model_copy(update={"folder": self.new_folder()})
        subject = PipelineSubject(session, own, RunDirectory(self._root).spark_log)
        self._subjects[file] = Known(key, subject)
        return subject

    def function(
        self, function: Callable[..., Any], streams: Mapping[str, Any], static: Mapping[str, Any], mode: str
    ) -> FunctionSubject:
        """A function of the user's, in a copy of the session that is active; Spark is started if need be."""
        if not has_context():
            spec = PipelineSpec(name="scripted", root=self._root, folder=self.new_folder())
            self._own = open_session(
                spec, conf=self.conf, logs=self.logs, stdout=lambda line: None, emit=self._notice
            )
            in_utc()
        return FunctionSubject.of(function, streams, static, Mode(mode))

    def new_folder(self) -> Path:
        """A folder of its own for one test."""
        folder = self._root / str(next(self._numbers))
        folder.mkdir()
        return folder

    @contextmanager
    def isolated(self, env: Mapping[str, str]) -> Iterator[None]:
        """The variables of a test, and an empty folder under the same name for each."""
        own = self._root / "folder"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(exist_ok=True)
        with _variables({**env, FOLDER: str(own)}) as self._outside:
            yield
        shutil.rmtree(own, ignore_errors=True)


@contextmanager
def _variables(wanted: Mapping[str, str | None]) -> Iterator[Mapping[str, str | None]]:
    """Variables of the environment for a while, and what they were before; None takes one away."""
    before = {name: os.environ.get(name) for name in wanted}
    _set(wanted)
    try:
        yield before
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _unforeseen(error: Exception) -> Problem:
    text = scrub(f"{type(error).__name__}: {error}".splitlines()[0])
    return replace(INTERNAL.at(None, error=text), detail=scrub(traceback.format_exc()))


def environment_of(runner: TestRunner, test: Test, zone: str) -> Environment:
    """What a test says about the world around the pipeline, in a folder of its own."""
    return Environment(
        _reading(test, zone),
        runner.new_folder(),
        given=test.given,
        no_data_batches=test.no_data_batches,
        limit=runner.limit,
    )


def start_time(test: Test, reading: Reading) -> int:
    """Processing time at the start of a test, in milliseconds since 1970."""
    try:
        return int(read_time(test.clock or "00:00", reading).timestamp() * 1_000)
    except BadRow as bad:
        raise PipelineError(TEST_BAD_TIME.at(test.place, key=test.clock, says=bad.says)) from None


def _real(test: Test, subject: PipelineSubject) -> dict[str, ReadBack | None]:
    named = dict.fromkeys(subject.modes) if test.all_real else {}
    return {
        name: _read_back(read, subject)
        for name, read in {**named, **test.real}.items()
        if name not in subject.modes or not subject.captured(name)
    }


def _read_back(read: Read | None, subject: PipelineSubject) -> ReadBack | None:
    if read is None:
        return None
    file, _, name = read.function.rpartition(":")
    path = Path(os.path.abspath(file))
    code = ProjectCode.of(path.parent, [path])
    code.ship(subject.spark.sparkContext)
    return code.function(path, name, read.place)


def _sinks(test: Test, subject: Subject) -> Sequence[str]:
    """The sinks that the test is about: those that it names, or all of them."""
    named: dict[str, Place | None] = dict.fromkeys(test.real, test.place)
    for step in test.steps:
        for name in _named(step):
            named.setdefault(name, step.place)
    refuse_sinks(subject, named)
    return list(named) or list(subject.modes)


def _named(step: Step) -> Iterator[str]:
    yield from step.expect
    yield from step.state
    for check in (step.watermark, step.late):
        if isinstance(check, Mapping):
            yield from check


def _reading(test: Test, zone: str) -> Reading:
    try:
        return Reading(read_date(test.day or DEFAULT_DAY), ZoneInfo(zone))
    except BadRow as bad:
        raise PipelineError(TEST_BAD_TIME.at(test.place, key=test.day, says=bad.says)) from None
