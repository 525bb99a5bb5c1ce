"""A job that reaches every executor of a cluster, and the wait for executors to be there."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext, cloudpickle
from pyspark.errors import PySparkException

from headwater.engine import probe_task
from headwater.engine.probe_task import Answer
from headwater.engine.settings import cores_of
from headwater.engine.spark_errors import python_failure, sentence_of

# The executors may have no Headwater.
cloudpickle.register_pickle_by_value(probe_task)  # type: ignore[no-untyped-call]

Task = Callable[[Iterable[int]], Iterable[Answer]]

WAITING_TIME = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_TIMES = 10
"""So many times that, before a start: a cluster may have to make room for the first executor."""
_SETTLED_SECONDS = 3.0
_INCOMPLETE_SECONDS = 10.0
_NOTICE_SECONDS = 5.0
_LOOK_SECONDS = 0.1
_ROUNDS = 10


class NoExecutors(Exception):
    """No executor has registered within the time."""


class NotAsked(Exception):
    """Not all executors answered; the message says why, without a full stop."""

    def __init__(self, reason: str, answers: list[Answer] | None = None) -> None:
        super().__init__(reason)
        self.answers = answers or []
        """Those of the others."""


@dataclass
class Executors:
    """The executors of a running application, as far as they have registered by now."""

    context: SparkContext
    say: Callable[[str], None]
    go_on: Callable[[], None]
    """Called while this waits; it may raise."""
    waits_long: bool
    """Whether to wait longer for an answer than Spark itself waits for executors."""
    _began: float = field(default_factory=time.monotonic)
    _count: int = 0
    _joined: float = field(default_factory=time.monotonic)
    _said: bool = False

    @property
    def patience(self) -> float:
        """For how many seconds an answer may take."""
        times = _TIMES if self.waits_long else 1
        return times * float(self._scala.conf().getTimeAsMs(WAITING_TIME, "30s")) / 1_000

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
        raise NotAsked(f"only {_heard(answers)} of {self._count} executors answered", answers)

    @property
    def _scala(self) -> Any:
        return self.context._jsc.sc()

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
        """The cores that the application asks for; 0 where it takes what there is."""
        conf = dict(self.context.getConf().getAll())
        return cores_of(str(self.context.master), conf, machine_cores=0, running_cores=0)

    def _look(self) -> int:
        """The cores that are there; it takes note of executors that have joined."""
        listed = self._scala.statusStore().executorList(True)
        cores = [
            each.totalCores() for each in map(listed.apply, range(listed.size())) if each.id() != "driver"
        ]
        if len(cores) != self._count:
            self._count, self._joined = len(cores), time.monotonic()
        return sum(cores)

    def _collect(self, task: Task) -> list[Answer]:
        """One job with more tasks than there are slots: all free slots get one at once."""
        tasks = 2 * max(self._look(), self._wanted, 1)
        group, future = f"headwater-{uuid.uuid4().hex}", Future[list[Answer]]()

        def work() -> None:
            try:
                self.context.setJobGroup(group, "Headwater asks every executor about local paths", True)
                rows = self.context.parallelize(range(tasks), tasks)
                future.set_result(rows.mapPartitions(task).collect())
            except Exception as error:  # noqa: BLE001 - handed to the thread that waits
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
        self.go_on()
        time.sleep(_LOOK_SECONDS)
        if not self._said and time.monotonic() - self._began >= _NOTICE_SECONDS:
            self._said = True
            self._look()
            self.say(
                f"Checking that the executors of {self.context.master} share the pipeline's local paths: "
                f"waiting for answers, {self._count} registered so far."
            )


def _heard(answers: list[Answer]) -> int:
    return len({executor for executor, _ in answers})


def _reason(error: Exception) -> str:
    """Why a job failed: what the last of its tasks said, in one line."""
    raised = python_failure(error, Path("/"))
    if raised:
        return raised[0]
    said = str(error).partition("most recent failure: ")[2] or str(error)
    # Before it stand the task and the executor, in parentheses.
    return sentence_of(Exception(said.partition("): ")[2] or said))
