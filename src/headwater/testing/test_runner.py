"""Runs tests of pipelines one after another in one JVM."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from headwater.engine.pipeline_file import load
from headwater.engine.project_code import ProjectCode
from headwater.engine.session import PipelineSession, open_session
from headwater.errors import HeadwaterError, PipelineError, Place
from headwater.errors.catalogue.environment import INTERNAL_ERROR
from headwater.errors.catalogue.testing import TEST_TIME_INVALID
from headwater.events import Event, Notice
from headwater.run_directory import RunDirectory
from headwater.spark.private import has_context
from headwater.spec import Mode, PipelineSpec
from headwater.testing.queries import DEFAULT_LIMIT, Environment, QueriesUnderTest, refuse_sinks
from headwater.testing.results import StepTrace, TestResult
from headwater.testing.step_runner import StepRunner
from headwater.testing.steps import ReadStep, Test
from headwater.testing.subjects import FunctionSubject, PipelineSubject, ReadFunction, Subject, in_utc
from headwater.testing.values import BadRow, LocalDay, read_date, read_time
from headwater.values import scrub

T = TypeVar("T")
FOLDER = "HEADWATER_TEST_DIR"
"""The variable with the path of the test's own directory, for the pipeline and its functions."""
DEFAULT_DAY = "2026-01-01"


@dataclass
class TestRunner:
    """Runs tests; Spark starts with the first one, and every pipeline has a separate session."""

    __test__ = False

    conf: Mapping[str, str] = field(default_factory=dict)
    say: Callable[[str], None] = lambda text: None
    limit: float = DEFAULT_LIMIT
    _root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="headwater-test-")))
    _subjects: dict[str, tuple[object, PipelineSubject]] = field(default_factory=dict)
    """Pipelines that were already analyzed, each with what distinguishes its versions."""
    _own: PipelineSession | None = None
    """The session for functions, if the process had none."""
    _numbers: Iterator[int] = field(default_factory=count)
    _outside: Mapping[str, str | None] = field(default_factory=dict)
    """The variables of the current test, as they are outside of it."""
    _needed: bool = False
    """A test did not pass, so the log may be needed."""

    @property
    def logs(self) -> Path:
        return RunDirectory(self._root).logs

    def play(self, test: Test, on_step: Callable[[StepTrace], None] = lambda trace: None) -> TestResult:
        """One test from start to end; if it cannot run, the result says why."""
        began = time.monotonic()
        result = TestResult(test.name, test.file, (), 0.0, day=test.day or DEFAULT_DAY, place=test.place)
        with self.isolated(test.env):
            try:
                result = self._played(test, result, on_step)
            except HeadwaterError as error:
                result = replace(result, problems=error.problems)
            except Exception as error:  # noqa: BLE001 - one broken test must not stop the others
                text = scrub(f"{type(error).__name__}: {error}".splitlines()[0])
                problem = replace(INTERNAL_ERROR.at(None, error=text), detail=scrub(traceback.format_exc()))
                result = replace(result, problems=(problem,))
        problems = tuple(replace(problem, place=problem.place or test.place) for problem in result.problems)
        self._needed |= bool(problems) or not result.passed
        return replace(result, problems=problems, seconds=time.monotonic() - began)

    def close(self) -> None:
        """Stop Spark, if it was started here, and remove what the tests left."""
        for session in (self._own, *(subject.session for _, subject in self._subjects.values())):
            if session:
                session.jvm.stop()
        self._subjects.clear()
        for folder in self._root.iterdir():
            # A message may have mentioned the log.
            if folder != self.logs or not self._needed:
                shutil.rmtree(folder, ignore_errors=True)
        if not self._needed:
            self._root.rmdir()

    def _played(self, test: Test, result: TestResult, on_step: Callable[[StepTrace], None]) -> TestResult:
        subject = self.subject(test.pipeline, test.env)
        script = self.script(test, subject, _real(test, subject), _sinks(test, subject))
        steps = StepRunner(script, lambda path: self.subject(path, test.env), on_step)
        try:
            steps.start()
            steps.play(test.steps)
        finally:
            script.close()
        return steps.result(result)

    def _notice(self, event: Event) -> None:
        if isinstance(event, Notice):
            self.say(event.message)

    def script(
        self,
        test: Test,
        subject: Subject,
        real: Mapping[str, ReadFunction | None],
        sinks: Sequence[str],
    ) -> QueriesUnderTest:
        """The queries of a test, in a separate directory; the first step starts them."""
        local = LocalDay(_read(read_date, test.day or DEFAULT_DAY, test), ZoneInfo(subject.zone))
        start = _read(lambda written: read_time(written, local), test.clock or "00:00", test)
        environment = Environment(
            local, self.new_folder(), test.given, real, test.no_data_batches, self.limit
        )
        return QueriesUnderTest(subject, sinks, environment, int(start.timestamp() * 1_000))

    def subject(self, pipeline: Path, env: Mapping[str, str]) -> PipelineSubject:
        """The pipeline of a file; analyzed again only if it has changed."""
        file = os.path.abspath(pipeline)
        spec = load(pipeline, reads=False)
        # A Python file creates new functions each time it is loaded.
        python = pipeline.suffix.startswith(".py")
        key = os.stat(file.rpartition(":")[0] or file).st_mtime_ns if python else spec
        known, analyzed = self._subjects.get(file, (None, None))
        if analyzed and known == key and not analyzed.stopped:
            return analyzed
        # What starts now lives longer than the test: Spark's Python workers keep the variables they get.
        with _variables({name: self._outside.get(name) for name in env}):
            session = self._session(spec)
        # Nothing of a test belongs in the run directory of the pipeline.
        own = spec.model_copy(update={"run_dir": self.new_folder()})
        subject = PipelineSubject(session, own, RunDirectory(self._root).spark_log)
        self._subjects[file] = key, subject
        return subject

    def function(
        self, function: Callable[..., Any], streams: Mapping[str, Any], static: Mapping[str, Any], mode: str
    ) -> FunctionSubject:
        """A user's function, in a copy of the active session; Spark is started if necessary."""
        if not has_context():
            spec = PipelineSpec(name="scripted", root=self._root, run_dir=self.new_folder())
            self._own = self._session(spec)
            in_utc()
        return FunctionSubject.of(function, streams, static, Mode(mode))

    def _session(self, spec: PipelineSpec) -> PipelineSession:
        return open_session(spec, conf=self.conf, logs=self.logs, stdout=lambda line: None, emit=self._notice)

    def new_folder(self) -> Path:
        """A separate directory for one test."""
        folder = self._root / str(next(self._numbers))
        folder.mkdir()
        return folder

    @contextmanager
    def isolated(self, env: Mapping[str, str]) -> Iterator[None]:
        """The variables of a test, and an empty directory under the same name for each."""
        own = self._root / "folder"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(exist_ok=True)
        with _variables({**env, FOLDER: str(own)}) as self._outside:
            yield
        shutil.rmtree(own, ignore_errors=True)


@contextmanager
def _variables(wanted: Mapping[str, str | None]) -> Iterator[Mapping[str, str | None]]:
    """Environment variables for a while, and their values before; None removes one."""
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


def _real(test: Test, subject: PipelineSubject) -> dict[str, ReadFunction | None]:
    named = dict.fromkeys(subject.modes) if test.all_real else {}
    return {
        name: _read_back(read, subject)
        for name, read in {**named, **test.real}.items()
        if name not in subject.modes or not subject.captured(name)
    }


def _read_back(read: ReadStep | None, subject: PipelineSubject) -> ReadFunction | None:
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
        by_sink = (each for each in (step.watermark, step.late) if isinstance(each, Mapping))
        for name in chain(step.expect, step.state, *by_sink):
            named.setdefault(name, step.place)
    refuse_sinks(subject, named)
    return list(named) or list(subject.modes)


def _read(reader: Callable[[str], T], written: str, test: Test) -> T:
    """A day or a time that the test contains."""
    try:
        return reader(written)
    except BadRow as bad:
        raise PipelineError(TEST_TIME_INVALID.at(test.place, key=written, says=bad.says)) from None
