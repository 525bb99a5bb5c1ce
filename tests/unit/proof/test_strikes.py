"""What a kill is recorded as: the point that was really reached, and the edits of the logs."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headwater.connectors.contract import HoldLost
from headwater.proof.checkpoints import Progress, QueryLog
from headwater.proof.points import BY_NAME, PlannedKill, Victim
from headwater.proof.runs import Deadline
from headwater.proof.strikes import KillResult, Strike


@dataclass
class Run:
    """A run that does its next step whenever a condition is asked, and nothing once it is dead."""

    steps: list[Callable[[], object]]
    ended: bool = False
    exit_code: int | None = None
    was_killed: bool = False
    victims: list[Victim] = field(default_factory=list)

    def wait_until(self, condition: Callable[[], object], deadline: Deadline, seconds: float = 1) -> bool:
        while not condition():
            if not self.steps:
                self.ended, self.exit_code = True, 0
                return bool(condition())
            self.steps.pop(0)()
        return True

    def kill(self, victim: Victim) -> bool:
        self.victims.append(victim)
        self.ended = victim is not Victim.JVM
        return True


class Sink:
    """A store that knows its newest batch, if it is set."""

    newest: int | None = None

    def newest_batch(self, name: str) -> int | None:
        return self.newest

    def hold(self, name: str) -> Any:
        return nullcontext(Held())


class Held:
    def waiting(self) -> bool:
        return True

    def disconnect(self) -> int:
        return 2


class Scene:
    """A query with one committed batch."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sink = folder, Sink()
        self.log = QueryLog(folder)
        for log in ("offsets", "commits"):
            (folder / log).mkdir()
        self.plan(0)
        self.commit(0)

    def plan(self, batch: int) -> None:
        (self.folder / "offsets" / str(batch)).touch()

    def commit(self, batch: int) -> None:
        (self.folder / "commits" / str(batch)).touch()

    def write(self, batch: int) -> None:
        self.sink.newest = batch

    def strike(
        self, point: str, *steps: Callable[[], object], victim: Victim = Victim.BOTH
    ) -> tuple[KillResult, Run]:
        run = Run(list(steps))
        kill = PlannedKill(1, BY_NAME[point], "out", victim, 0.0)
        deadline = Deadline(time.monotonic() + 60, "1 minute", 1)
        strike = Strike(kill, run, self.log, self.sink, deadline, 0.01)  # type: ignore[arg-type]
        return strike(), run

    def batch(self, number: int) -> list[Callable[[], object]]:
        """The steps of one batch."""
        return [partial(step, number) for step in (self.plan, self.write, self.commit)]

    def at_once(self, number: int) -> None:
        """A batch and the plan of the next one, faster than anyone looks."""
        for step in self.batch(number):
            step()
        self.plan(number + 1)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_batch_is_killed_after_its_plan(scene: Scene) -> None:
    result, run = scene.strike("after-offsets", *scene.batch(1))
    assert (result.reached, result.batch, result.state) == (True, 1, "batch 1 was planned")
    assert run.victims == [Victim.BOTH]
    assert scene.log.progress == Progress(1, 0)


def test_a_run_that_has_no_more_batches_is_not_killed(scene: Scene) -> None:
    result, run = scene.strike("after-offsets")
    assert (result.reached, result.finished, result.killed, run.victims) == (False, True, False, [])


def test_the_commit_of_spark_is_taken_back(scene: Scene) -> None:
    result, _ = scene.strike("before-spark-commit", *scene.batch(1))
    assert (result.reached, result.edited) == (True, True)
    assert result.state == "the sink had batch 1, and Spark had not committed it"
    assert scene.log.progress == Progress(1, 0)


def test_the_commit_of_the_sink_needs_no_edit_if_it_is_seen(scene: Scene) -> None:
    result, _ = scene.strike("after-sink-commit", *scene.batch(1))
    assert (result.reached, result.edited, scene.log.progress) == (True, False, Progress(1, 0))


def test_a_planned_batch_without_a_commit_is_not_a_crash_before_the_commit(scene: Scene) -> None:
    # Spark had committed batch 1 and planned the next one before the kill.
    result, _ = scene.strike("before-spark-commit", lambda: scene.at_once(1))
    assert (result.reached, result.edited, result.state) == (False, False, "batch 2 was planned")


@pytest.mark.parametrize(("victim", "reached"), [(Victim.BOTH, True), (Victim.DRIVER, False)])
def test_a_plan_is_taken_back_only_if_all_is_dead_and_the_sink_has_nothing_of_it(
    scene: Scene, victim: Victim, reached: bool
) -> None:
    result, _ = scene.strike("before-offsets", lambda: scene.at_once(1), victim=victim)
    assert (result.reached, result.edited) == (reached, reached)
    assert scene.log.progress == (Progress(1, 1) if reached else Progress(2, 1))


def test_a_transaction_that_was_committed_before_the_kill_is_not_inside(scene: Scene) -> None:
    steps = [*scene.batch(1), lambda: scene.plan(2)]
    result, _ = scene.strike("after-staging", *steps)
    assert (result.reached, result.state) == (True, "batch 2 was planned")

    def last() -> None:
        scene.plan(4)
        scene.write(4)

    result, _ = scene.strike("before-sink-commit", *scene.batch(3), last)
    assert (result.reached, result.state) == (
        False,
        "the sink had batch 4, and Spark had not committed it",
    )


def test_lost_connections_do_not_kill_the_run(scene: Scene) -> None:
    result, run = scene.strike("connection", *scene.batch(1), lambda: scene.plan(2), victim=Victim.CONNECTION)
    assert (result.reached, result.state) == (True, "2 connections terminated")
    assert (run.ended, run.victims, run.was_killed) == (False, [], True)


@pytest.mark.parametrize("point", ["after-staging", "before-sink-commit", "connection"])
def test_a_lock_that_is_lost_is_a_point_that_was_not_reached(scene: Scene, point: str) -> None:
    def lose() -> None:
        raise HoldLost("connection lost")

    result, run = scene.strike(point, *scene.batch(1), lose)
    assert (result.reached, result.killed, run.victims) == (False, False, [])
