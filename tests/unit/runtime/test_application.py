"""Which pipeline starts the process of Spark again, when several have lost it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException

from headwater.engine import session
from headwater.errors import PipelineError, SetupError
from headwater.runtime import application
from headwater.runtime.application import Application
from headwater.runtime.scope import RunOptions


class Processes:
    """Stands in for the processes of Spark; `running` is the one that sessions are in."""

    def __init__(self) -> None:
        self.started = 0
        self.running: Any = None
        self.refuses = False
        self.besides: list[list[str]] = []
        """For each launch, the other pipelines whose jars and settings it was given."""

    def launch(self, spec: Any, *, besides: Sequence[Any], **options: Any) -> None:
        self.besides.append([each.run_dir.name for each in besides])

    def connect(self, spec: Any, launched: object, stdout: object) -> Any:
        if self.refuses:
            raise OSError("no memory")
        owned = self.running is None
        if owned:
            self.started += 1
            self.running = object()
        jvm = MagicMock(owned=owned, works=True)
        jvm.kill.side_effect = self.kill
        return SimpleNamespace(jvm=jvm)

    def kill(self) -> None:
        self.running = None


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    found = Processes()
    monkeypatch.setattr(application, "launch_spark", found.launch)
    monkeypatch.setattr(application, "_connected", found.connect)
    return found


def pipeline(name: str) -> Any:
    return SimpleNamespace(name=name, run_dir=Path(name), position=None)


def dies(it: Application) -> None:
    """The process of Spark exits."""
    it._process.works = False  # type: ignore[union-attr, misc]


def with_spec(call: Callable[..., object], spec: Any) -> None:
    call(spec, RunOptions(), lambda event: None, lambda line: None)


def test_two_pipelines_that_lost_spark_start_it_once(processes: Processes) -> None:
    it, first, second = Application(), pipeline("a"), pipeline("b")
    for spec in (first, second):
        with_spec(it.open, spec)
    assert (processes.started, it.lives(first), it.lives(second)) == (1, True, True)
    dies(it)
    with_spec(it.reopen, second)
    assert (processes.started, it.lives(first), it.lives(second)) == (2, False, True)
    with_spec(it.reopen, first)
    assert (processes.started, it.lives(first), it.lives(second)) == (2, True, True)


def test_a_name_belongs_to_one_running_pipeline(processes: Processes) -> None:
    it, spec = Application(), pipeline("orders")
    other: Any = SimpleNamespace(name="orders", run_dir=Path("elsewhere"), position=None)
    with_spec(it.open, spec)
    with pytest.raises(PipelineError) as caught:
        with_spec(it.open, other)
    (problem,) = caught.value.problems
    assert (problem.code, problem.params["name"]) == ("HW-PIPELINE-NAME-CONFLICT", "orders")
    assert str(problem.params["other"]).endswith("with the run directory orders")
    # Its start has failed, which ends nothing of the first. That one does not clash with itself.
    it.ended(other)
    dies(it)
    with_spec(it.reopen, spec)
    assert it.lives(spec)
    it.ended(spec)
    with_spec(it.open, other)
    assert (it.lives(spec), it.lives(other)) == (False, True)


def test_the_other_pipeline_starts_a_spark_that_died_meanwhile(processes: Processes) -> None:
    it, first, second = Application(), pipeline("a"), pipeline("b")
    for spec in (first, second):
        with_spec(it.open, spec)
    dies(it)
    with_spec(it.reopen, first)
    # The new one is dead before the second pipeline has a session in it, and the first one has ended.
    dies(it)
    assert not it.lives(first)
    with_spec(it.reopen, second)
    assert (processes.started, it.lives(second)) == (3, True)


def test_a_pipeline_that_cannot_start_its_queries_leaves_the_spark_of_the_others_alone(
    processes: Processes,
) -> None:
    it, broken, healthy = Application(), pipeline("a"), pipeline("b")
    for spec in (broken, healthy):
        with_spec(it.open, spec)
    dies(it)
    for spec in (broken, healthy):
        with_spec(it.reopen, spec)
    # Its broker is unreachable, so it asks again and again.
    for _ in range(3):
        with_spec(it.reopen, broken)
    assert (processes.started, it.lives(broken), it.lives(healthy)) == (2, True, True)
    # When no other run uses the process, it may be what keeps the pipeline from starting.
    it.ended(healthy)
    with_spec(it.reopen, broken)
    assert (processes.started, it.lives(broken), it.lives(healthy)) == (3, True, False)


def test_a_spark_that_no_pipeline_can_use_is_replaced_even_if_its_process_lives(
    processes: Processes,
) -> None:
    it, first, second = Application(), pipeline("a"), pipeline("b")
    for spec in (first, second):
        with_spec(it.open, spec)
    processes.refuses = True
    with pytest.raises(OSError, match="no memory"):
        with_spec(it.reopen, first)
    processes.refuses = False
    # The second one has lost it as well.
    for spec in (second, first):
        with_spec(it.reopen, spec)
    assert (processes.started, it.lives(first), it.lives(second)) == (2, True, True)


def test_spark_starts_again_with_what_every_run_needs_that_has_not_ended(processes: Processes) -> None:
    it, *specs = Application(), *map(pipeline, "abc")
    it.expect([specs[0]])
    for spec in specs:
        with_spec(it.open, spec)
    it.expect(())
    it.ended(specs[2])
    dies(it)
    # The one that starts it again leaves its session for a moment, but its run continues.
    with_spec(it.reopen, specs[1])
    with_spec(it.reopen, specs[0])
    assert processes.besides == [[], ["a"], ["a", "b"], ["a"], ["b"]]


def test_a_pipeline_does_not_live_in_a_spark_that_did_not_start(processes: Processes) -> None:
    it, spec = Application(), pipeline("a")
    with_spec(it.open, spec)
    processes.refuses = True
    with pytest.raises(OSError, match="no memory"):
        with_spec(it.reopen, spec)
    assert not it.lives(spec)
    processes.refuses = False
    with_spec(it.reopen, spec)
    assert (processes.started, it.lives(spec)) == (2, True)


def test_a_spark_of_other_code_after_the_own_one_ended_is_not_restarted(processes: Processes) -> None:
    it, spec = Application(), pipeline("a")
    with_spec(it.open, spec)
    assert it.can_restart
    # A start that fails stops the process; the notebook then starts one.
    dies(it)
    with_spec(it.open, spec)
    assert (processes.started, it.can_restart, it.lives(spec)) == (1, False, True)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ConnectionRefusedError(111, "Connection refused"), SetupError),
        (Py4JError("Answer from Java side is empty"), SetupError),
        (AnalysisException("[INVALID_CONF_VALUE] no such value"), AnalysisException),
    ],
)
def test_a_spark_that_dies_right_after_its_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, raised: type[Exception]
) -> None:
    monkeypatch.setattr(application, "launch_spark", MagicMock())
    monkeypatch.setattr(session, "connect", MagicMock(side_effect=error))
    with pytest.raises(raised) as caught:
        with_spec(Application().open, pipeline(str(tmp_path)))
    if isinstance(caught.value, SetupError):
        (problem,) = caught.value.problems
        assert (problem.code, problem.params["log"]) == (
            "HW-JVM-START-FAILED",
            str(tmp_path / "logs/spark.log"),
        )
        assert problem.detail == f"{type(error).__name__}: {error}"
