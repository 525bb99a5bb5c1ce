"""The order in which the queries of a run are made ready and started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import MagicMock

import pytest

from headwater.engine.listener import EventListener
from headwater.engine.query import RunningQuery
from headwater.errors import CheckpointError, PipelineError, SetupError
from headwater.errors.catalogue.environment import JAR_DIR_NOT_FOUND, JVM_START_FAILED
from headwater.errors.catalogue.running import CHECKPOINT_FIRST_BATCH_PENDING, SPARK_ANALYSIS_FAILED
from headwater.events import Notice
from headwater.runtime.application import APPLICATION
from headwater.runtime.starter import PlannedQuery, QueryStarter
from headwater.runtime.tasks import Tasks
from headwater.spark.errors import SparkStopped
from tests.unit.runtime.queries import scope_of


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventListener, "open", lambda listener, spark: None)


@dataclass(frozen=True)
class Noted(QueryStarter):
    """Notes its steps; the query named `bad` must not start."""

    steps: list[str] = field(default_factory=list)

    def resume_query(self, each: PlannedQuery, tasks: Tasks) -> Iterator[Notice]:
        self.steps.append(f"{each.sink.name} is ready")
        if each.sink.name == "bad":
            raise CheckpointError(CHECKPOINT_FIRST_BATCH_PENDING.at(batch=0, checkpoint="here"))
        yield Notice(code="HW-NOTICE", message=each.sink.name)

    def begun(self, each: PlannedQuery) -> RunningQuery:
        self.steps.append(f"{each.sink.name} is started")
        return MagicMock()


def starter(*sinks: str) -> Noted:
    prepared: Any = MagicMock()
    prepared.builder.kept = {}
    plan = []
    for name in sinks:
        query: Any = MagicMock(is_group=False)
        query.name = query.sink.name = name
        query.sink.connector = "noop"
        query.sinks = (query.sink,)
        plan.append(PlannedQuery(query, (), MagicMock(), (MagicMock(),)))
    return Noted(scope_of([], MagicMock()), prepared, tuple(plan))


def test_all_queries_are_ready_before_the_first_one_starts() -> None:
    it, supervisor = starter("a", "b"), MagicMock()
    it.start(supervisor)
    assert it.steps == ["a is ready", "b is ready", "a is started", "b is started"]
    supervisor.tasks.prepare.assert_called_once_with()
    supervisor.tasks.close.assert_not_called()


def test_a_query_that_must_not_start_is_told_before_another_writes() -> None:
    it, supervisor = starter("a", "bad"), MagicMock(queries={})
    with pytest.raises(CheckpointError):
        it.start(supervisor)
    assert it.steps == ["a is ready", "bad is ready"]
    # Facts are those of the last start, and this was none.
    directory: Any = it.scope.directory
    directory.store_facts.assert_not_called()
    supervisor.tasks.close.assert_called_once_with()


@pytest.mark.parametrize(
    ("error", "lives", "raised"),
    [
        (PipelineError(SPARK_ANALYSIS_FAILED.at(None, where="it", says="refused")), False, SparkStopped),
        (PipelineError(SPARK_ANALYSIS_FAILED.at(None, where="it", says="refused")), True, PipelineError),
        (SetupError(JVM_START_FAILED.at(reason="killed", log="log")), False, SparkStopped),
        (SetupError(JAR_DIR_NOT_FOUND.at(setting="HEADWATER_JARS", folder="jars")), False, SetupError),
    ],
)
def test_a_spark_that_dies_while_it_starts_again_is_what_is_reported(
    monkeypatch: pytest.MonkeyPatch, error: Exception, lives: bool, raised: type[Exception]
) -> None:
    def fail() -> QueryStarter:
        raise error

    monkeypatch.setattr(APPLICATION, "lives", lambda spec: lives)
    with pytest.raises(raised):
        replace(starter("a"), new_spark=fail).with_new_spark(MagicMock(), ["a"])


def test_a_run_ends_for_the_application_before_another_can_have_its_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[str] = []
    it = starter("a")
    locks: Any = it.scope.locks
    locks.release.side_effect = lambda: steps.append("released")
    monkeypatch.setattr(APPLICATION, "ended", lambda spec: steps.append("ended"))
    it.close()
    assert steps == ["ended", "released"]
