"""A job that reaches every executor of a cluster, and the wait for executors to register."""

from __future__ import annotations

import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext, cloudpickle
from pyspark.errors import PySparkException

from headwater.checks import Finding, Severity
from headwater.connectors import sink_side, source_side
from headwater.engine import probe_task
from headwater.engine.prepare import Prepared
from headwater.engine.probe_task import Answer, Mark, Question, Reply
from headwater.engine.session import cores_of
from headwater.errors import Entry, Place, Problem
from headwater.errors.catalogue.environment import (
    EXECUTORS_CHECK_FAILED,
    EXECUTORS_MISSING,
    PATH_NOT_SHARED,
    PATH_NOT_WRITABLE,
)
from headwater.errors.catalogue.notices import EXECUTORS_CHECKING
from headwater.events import Emit, Notice
from headwater.plan import QueryFacts
from headwater.run_directory import RunDirectory
from headwater.spark.errors import python_failure, sentence_of
from headwater.spark.launch import is_local
from headwater.spark.private import default_file_system, executor_cores, time_setting
from headwater.spec import PipelineSpec, SinkOptions, SinkSpec, SourceSpec
from headwater.spec.paths import (
    as_glob,
    fixed_folder,
    in_project,
    is_pattern,
    is_uri,
    local_matches,
    plain_path,
)
from headwater.values import count_of

# The driver's half of the path probe: probe files on local paths, and the meaning of the executors' answers.
#
# The driver creates a file with a random name in each directory. Executors check for it and, if they will
# write there, create one of their own, which the driver checks for. A file, and a directory that the driver
# cannot write to, is recognized by its contents on the driver.

_PREFIX = ".headwater-probe-"
"""Spark reads no file whose name begins with a dot."""
_MOST_MARKS = 100
_MOST_HOSTS = 5
_UNSEEN = "the driver does not see the files that it creates there"


@dataclass(frozen=True)
class LocalPath:
    """A path on the driver that executors use, and where it was declared."""

    written: str
    """The path, with `file:` before it if it was declared so."""
    use: str
    """The beginning of a sentence that ends with the path."""
    key: str
    """The key or option that sets it."""
    place: Place | None
    writes: bool = False
    """Whether executors create files there."""
    created: bool = False
    """Whether the driver creates the directory when the run starts."""
    sink: str = ""

    @property
    def path(self) -> str:
        return plain_path(self.written)

    def is_on_disk(self, default: str) -> bool:
        """Whether Spark treats it as a local path; `default` is the file system of plain paths."""
        return self.written.startswith("file:") or (default.startswith("file:") and not is_uri(self.written))

    def problem(self, entry: Entry, reasons: Mapping[str, str]) -> Problem:
        """What is wrong with it, by host name."""
        shown = [f"{host} ({reason})" for host, reason in islice(sorted(reasons.items()), _MOST_HOSTS)]
        more = len(reasons) - len(shown)
        hosts = ", ".join([*shown, *([f"and {more} more"] if more else [])])
        return entry.at(self.place, use=self.use, path=self.path, hosts=hosts, key=self.key)


@dataclass(frozen=True)
class PathProbe:
    """Everything that was created to probe some paths, until it is removed."""

    paths: list[LocalPath]
    questions: list[Question] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """Files of executors that the driver does not see or cannot remove."""

    @classmethod
    @contextmanager
    def placed(cls, paths: list[LocalPath]) -> Iterator[PathProbe]:
        """Create the probe files; everything that the driver can remove is removed afterwards."""
        probe = cls(paths)
        try:
            for path in paths:
                probe.questions.append(_question(path, probe.directories))
            yield probe
        finally:
            probe.left.extend(file for each in probe.questions if each.probe for file in _removed(each))
            for directory in reversed(probe.directories):
                with suppress(OSError):
                    os.rmdir(directory)

    def findings(self, answers: list[Answer]) -> Iterator[Finding]:
        """The problems of each path, by host."""
        for number, (path, question) in enumerate(zip(self.paths, self.questions, strict=True)):
            replies = [(host, each[number]) for (host, _), each in answers]
            yield from self._against(path, question, replies)

    def _against(
        self, path: LocalPath, question: Question, replies: list[tuple[str, Reply]]
    ) -> Iterator[Finding]:
        not_shared: dict[str, str] = {}
        not_writable: dict[str, str] = {}
        for host, (unshared, created, refused) in replies:
            file = os.path.join(path.path, created)
            if unshared:
                reason, names = unshared
                # What has meanwhile also changed on the driver proves nothing.
                if not names or any(map(question.is_unchanged, names)):
                    not_shared[host] = reason
            elif refused:
                not_writable[host] = refused
            elif created and not os.path.lexists(file):
                not_shared[host] = _UNSEEN
                self.left.append(file)
        for entry, hosts in ((PATH_NOT_SHARED, not_shared), (PATH_NOT_WRITABLE, not_writable)):
            if hosts:
                yield Finding(path.problem(entry, hosts), sink=path.sink)


def _question(path: LocalPath, made: list[str]) -> Question:
    """How to probe a path; a directory that a start would create is created now, in the same way."""
    above = (Path(path.path), *Path(path.path).parents)
    # `Path.exists` raises an error if the driver has no access, such as below an unreadable directory.
    missing = [str(each) for each in above if not os.path.exists(each)]
    probe = f"{_PREFIX}{uuid.uuid4().hex}"
    try:
        for directory in reversed(missing) if path.created else ():
            os.mkdir(directory)
            made.append(directory)
        with open(os.path.join(path.path, probe), "x", encoding="utf-8"):
            return Question(path.path, probe, {}, path.writes)
    except OSError:
        # It is a file, or a directory that the driver only reads. What it cannot even create, it will report.
        there = Path(missing[-1]).parent if missing else Path(path.path)
        return Question(str(there), "", {} if missing else _marks(path.path), writes=False)


def _marks(path: str) -> dict[str, Mark]:
    """What there is to recognize: the file itself, the contents of the directory, or the empty directory."""
    try:
        if not os.path.isdir(path):
            return {"": probe_task.mark(path)}
        with os.scandir(path) as entries:
            marks = {entry.name: probe_task.mark(entry.path) for entry in islice(entries, _MOST_MARKS)}
        return marks or {"": probe_task.own_mark(path)}
    except OSError:
        # It was deleted meanwhile, or the driver cannot read it: Spark will report it.
        return {}


def _removed(question: Question) -> list[str]:
    """Remove the probe and what executors created next to it; returns what could not be removed."""
    left: list[str] = []
    with suppress(OSError):
        listed = os.listdir(question.path) if question.writes else [question.probe]
        names = [name for name in listed if name.startswith(question.probe)]
        for file in (os.path.join(question.path, name) for name in names):
            try:
                os.remove(file)
            except FileNotFoundError:
                continue
            except OSError:
                left.append(file)
    return left


# Headwater may not be installed on the executors.
cloudpickle.register_pickle_by_value(probe_task)  # type: ignore[no-untyped-call]

Task = Callable[[Iterable[int]], Iterable[Answer]]

WAITING_TIME = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_TIMES = 10
"""A multiple of that, before a start: a cluster may have to make room for the first executor."""
_SETTLED_SECONDS = 3.0
_INCOMPLETE_SECONDS = 10.0
_NOTICE_SECONDS = 5.0
_LOOK_SECONDS = 0.1
_ROUNDS = 10


class NoExecutors(Exception):
    """No executor has registered in time."""


class NotAsked(Exception):
    """Not all executors answered; the message says why, without a period."""

    def __init__(self, reason: str, answers: list[Answer] | None = None) -> None:
        super().__init__(reason)
        self.answers = answers or []
        """Those of the others."""


@dataclass
class Executors:
    """The executors of a running application that have registered so far."""

    context: SparkContext
    emit: Emit
    check_cancelled: Callable[[], None]
    """Called while this waits; it may raise."""
    waits_long: bool
    """Whether to wait longer for an answer than Spark itself waits for executors."""
    _began: float = field(default_factory=time.monotonic)
    _count: int = 0
    _joined: float = field(default_factory=time.monotonic)
    _said: bool = False

    @property
    def patience(self) -> float:
        """How many seconds an answer may take."""
        times = _TIMES if self.waits_long else 1
        return times * time_setting(self.context, WAITING_TIME, "30s") / 1_000

    def ask(self, task: Task) -> list[Answer]:
        """The answers of every executor that has registered, some of them more than once."""
        answers: list[Answer] = []
        for _ in range(_ROUNDS):
            self._settle()
            if answers and self._count <= _heard(answers):
                return answers
            answers += self._collect(task)
        if self._count <= _heard(answers):
            return answers
        answered = f"only {_heard(answers)} of {count_of(self._count, 'executor')} answered"
        raise NotAsked(answered, answers)

    def _settle(self) -> None:
        """Wait for the configured cores, or until no executor has joined for some time.

        The cluster may have fewer cores than that, or may start executors only when there is work for them.
        """
        wanted = self._wanted
        longest = _INCOMPLETE_SECONDS if wanted else _SETTLED_SECONDS
        while not 0 < wanted <= self._look() and time.monotonic() - self._joined < longest:
            self._pause()

    @property
    def _wanted(self) -> int:
        """The cores that the application requests; 0 if it uses all available ones."""
        conf = dict(self.context.getConf().getAll())
        return cores_of(str(self.context.master), conf, machine_cores=0, running_cores=0)

    def _look(self) -> int:
        """The available cores; also records executors that have joined."""
        cores = executor_cores(self.context)
        if len(cores) != self._count:
            self._count, self._joined = len(cores), time.monotonic()
        return sum(cores)

    def _collect(self, task: Task) -> list[Answer]:
        """One job with more tasks than there are slots, so that every free slot gets one."""
        tasks = 2 * max(self._look(), self._wanted, 1)
        group, future = f"headwater-{uuid.uuid4().hex}", Future[list[Answer]]()

        def work() -> None:
            try:
                self.context.setJobGroup(group, "Headwater checks local paths on every executor", True)
                rows = self.context.parallelize(range(tasks), tasks)
                future.set_result(rows.mapPartitions(task).collect())
            except Exception as error:  # noqa: BLE001 - passed to the waiting thread
                future.set_exception(error)

        # A daemon: a job that hangs must not keep this process alive.
        threading.Thread(target=work, name="headwater-probe", daemon=True).start()
        return self._result(group, future)

    def _result(self, group: str, future: Future[list[Answer]]) -> list[Answer]:
        deadline = time.monotonic() + self.patience
        try:
            while not future.done():
                if time.monotonic() >= deadline:
                    self._look()
                    raise NotAsked(f"no answer within {self.patience:g} s") if self._count else NoExecutors
                self._pause()
        except BaseException:
            self.context.cancelJobGroup(group)
            raise
        try:
            return future.result()
        except (PySparkException, Py4JError) as error:
            raise NotAsked(_reason(error)) from error

    def _pause(self) -> None:
        self.check_cancelled()
        time.sleep(_LOOK_SECONDS)
        if not self._said and time.monotonic() - self._began >= _NOTICE_SECONDS:
            self._said = True
            self._look()
            asked = EXECUTORS_CHECKING.at(None, master=self.context.master, count=self._count)
            self.emit(Notice.of(asked))


def _heard(answers: list[Answer]) -> int:
    return len({executor for executor, _ in answers})


def _reason(error: Exception) -> str:
    """Why a job failed: the message of the last of its tasks, in one line."""
    raised = python_failure(error, Path("/"))
    if raised:
        return raised[0]
    said = str(error).partition("most recent failure: ")[2] or str(error)
    # The task and the executor precede it, in parentheses.
    return sentence_of(Exception(said.partition("): ")[2] or said))


# The local paths that a pipeline's executors use, and whether they share them with the driver.
#
# On a cluster, executors that do not see the driver's disk write state and output to their own: every batch
# succeeds, and the loss shows at the next restart. So each start asks them first.

_MOST_DIRECTORIES = 50


def stream_paths(prepared: Prepared, spec: PipelineSpec, facts: Mapping[str, QueryFacts]) -> list[LocalPath]:
    """What the executors of a run use; only those of a stateful query write into its checkpoint."""
    directory = RunDirectory(spec.run_dir)
    stateful = [sink for sink in spec.sinks if sink.name in facts and facts[sink.name].stateful]
    states = [
        LocalPath(
            str(directory.checkpoint(sink.query)),
            f"Query `{sink.query}` stores its state in",
            "`run_dir`",
            spec.at("run_dir"),
            writes=True,
            created=True,
            sink=sink.name,
        )
        for sink in stateful
    ]
    read = [source for source in spec.sources if prepared.graph.readers(source.name)]
    copied = [source for source in read if _is_copied(source)]
    in_run_directory = {
        f"Source `{each.name}` stores copies of its files in": directory.source(each.name).snapshots
        for each in copied
    } | {
        f"Replayed rows of `{name}` are read from": directory.quarantine(name).replay
        for name in prepared.builder.parts(lambda node: node.replayed)
    }
    kept = [
        LocalPath(str(path), use, "`run_dir`", spec.at("run_dir"), created=True)
        for use, path in in_run_directory.items()
    ]
    sources = [each for source in read if source not in copied for each in _source_paths(source, spec.root)]
    sinks = [each for sink in spec.sinks for each in _sink_paths(sink, sink.options)]
    return [*states, *sinks, *sources, *kept]


def batch_paths(
    prepared: Prepared, spec: PipelineSpec, options: Mapping[str, SinkOptions]
) -> list[LocalPath]:
    """What the executors of a batch run use; the sinks' options are those with `--output-dir`."""
    keys = {name: "`--output-dir`" for sink in spec.sinks if options[name := sink.name] != sink.options}
    written = (_sink_paths(sink, options[sink.name], keys.get(sink.name, "`path`")) for sink in spec.sinks)
    read = (_source_paths(each, spec.root) for each in spec.sources if prepared.graph.readers(each.name))
    return [each for paths in (*written, *read) for each in paths]


def unshared(
    prepared: Prepared,
    paths: Iterable[LocalPath],
    emit: Emit,
    check_cancelled: Callable[[], None] = lambda: None,
    *,
    starts: bool = True,
) -> list[Finding]:
    """An error for each local path that some executor does not see, or cannot write to although it must.

    On one machine there is nothing to ask. `check_cancelled` is called while this waits for executors; it may raise.
    Unless a run `starts`, a cluster without a free executor causes a warning and no long wait.
    """
    context = prepared.session.jvm.context
    if is_local(str(context.master)):
        return []
    by_default = default_file_system(context)
    used = [each for each in paths if each.is_on_disk(by_default)]
    if not used:
        return []
    executors = Executors(context, emit, check_cancelled, waits_long=starts)
    asked = {"master": str(context.master), "path": used[0].path}
    try:
        with PathProbe.placed(used) as probe:
            findings = list(_answered(executors, probe, asked))
        if probe.left:
            with suppress(NoExecutors, NotAsked):
                executors.ask(partial(probe_task.remove, probe.left))
        return findings
    except NoExecutors:
        none = EXECUTORS_MISSING.at(None, **asked, seconds=f"{executors.patience:g}")
        return [Finding(none, Severity.ERROR if starts else Severity.WARNING)]


def _answered(executors: Executors, probe: PathProbe, asked: Mapping[str, str]) -> Iterator[Finding]:
    """The executors' answers; an error if some do not answer, because any of them may not have a path."""
    try:
        answers = executors.ask(partial(probe_task.answer, probe.questions))
    except NotAsked as error:
        answers, python = error.answers, ".".join(platform.python_version_tuple()[:2])
        yield Finding(EXECUTORS_CHECK_FAILED.at(None, **asked, reason=str(error), python=python))
    yield from probe.findings(answers)


def _is_copied(source: SourceSpec) -> bool:
    """Whether executors read copies of a static source's files, from the run directory."""
    side = source_side(source.connector)
    remote = any(is_uri(plain_path(place)) for place in side.places(source.options))
    return source.static and side.static_copies and not remote


def _sink_paths(sink: SinkSpec, options: SinkOptions, key: str = "`path`") -> Iterator[LocalPath]:
    side = sink_side(sink.connector)
    if side.on_driver:
        return
    use, place = f"Sink `{sink.name}` writes to", sink.at("path")
    if sink.is_quarantine:
        use, key = f"The quarantine of `{sink.reads}` is in", "`run_dir`"
    for written in side.places(options):
        if os.path.isabs(plain_path(written)):
            yield LocalPath(written, use, key, place, writes=True, created=True, sink=sink.name)


def _source_paths(source: SourceSpec, root: Path) -> Iterator[LocalPath]:
    """The directories of a source, and files that it lists individually."""
    for number, written in enumerate(source_side(source.connector).places(source.options)):
        path = plain_path(written)
        if os.path.isabs(path):
            place = source.places.get(("path", number), source.at("path"))
            for found in _found(path, root):
                shown = f"file:{found}" if path != written else found
                yield LocalPath(shown, f"Source `{source.name}` reads", "`path`", place)


def _found(path: str, root: Path) -> list[str]:
    """What a path or a glob matches now: for files, the directories that contain them."""
    found = [path]
    if is_pattern(in_project(path, root)):
        matches = local_matches(as_glob(path, root))
        inside = dict.fromkeys(each if os.path.isdir(each) else os.path.dirname(each) for each in matches)
        found = list(inside)[:_MOST_DIRECTORIES] or [fixed_folder(path, root)]
    # If it is also missing on the driver, the check reports more.
    return [each for each in found if os.path.exists(each)]
