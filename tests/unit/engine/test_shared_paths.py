"""Executors that do not answer when they are asked about local paths; the cluster is put in by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark import SparkContext

from headwater.checks import Severity
from headwater.engine import probe_task, shared_paths
from headwater.engine.prepare import Prepared
from headwater.engine.probe_task import Answer, Question
from headwater.engine.shared_paths import Executors, LocalPath, NotAsked, Task
from headwater.events import Event

MASTER = "spark://somewhere:7077"
CONTEXT = SimpleNamespace(
    master=MASTER,
    _jsc=SimpleNamespace(hadoopConfiguration=lambda: {"fs.defaultFS": "file:///"}),
)


class Cluster(Executors):
    """Some executors, of which only the first ones get a task."""

    answering = 0

    def _settle(self) -> None:
        self._count = 3

    def _collect(self, task: Task) -> list[Answer]:
        (answer,) = task(())
        return [(("host", number), answer[1]) for number in range(self.answering)]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    monkeypatch.setattr(shared_paths, "Executors", Cluster)
    return lambda answering: monkeypatch.setattr(Cluster, "answering", answering)


def test_an_executor_that_never_answers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Event] = []
    executors = Cluster(cast(SparkContext, CONTEXT), said.append, lambda: None, waits_long=True)
    monkeypatch.setattr(Cluster, "answering", 2)
    with pytest.raises(NotAsked, match=r"^only 2 of 3 executors answered$") as error:
        executors.ask(lambda _: [(("host", 0), [])])
    assert {executor for executor, _ in error.value.answers} == {("host", 0), ("host", 1)}
    monkeypatch.setattr(Cluster, "answering", 3)
    assert len(executors.ask(lambda _: [(("host", 0), [])])) == 3
    assert said == []


@pytest.mark.parametrize("starts", [True, False])
def test_what_the_others_answered_is_reported_beside_it(
    cluster: Callable[[int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: bool
) -> None:
    def elsewhere(questions: list[Question], _: Iterable[int]) -> list[Answer]:
        return [(("host", 0), [(("it is missing", ()), "", "") for _ in questions])]

    monkeypatch.setattr(probe_task, "answer", elsewhere)
    cluster(2)
    prepared = SimpleNamespace(session=SimpleNamespace(jvm=SimpleNamespace(context=CONTEXT)))
    found = shared_paths.unshared(
        cast(Prepared, prepared),
        [LocalPath(str(tmp_path), "Something uses", "`path`", None)],
        lambda text: None,
        starts=starts,
    )
    assert [(each.problem.code, each.severity) for each in found] == [
        ("HW-EXECUTORS-CHECK-FAILED", Severity.ERROR),
        ("HW-PATH-NOT-SHARED", Severity.ERROR),
    ]
