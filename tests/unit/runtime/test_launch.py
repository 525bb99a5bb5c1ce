"""The order in which the queries of a run are made ready and started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from headwater.engine.listener import EventListener
from headwater.engine.query import RunningQuery
from headwater.errors import CheckpointError
from headwater.errors.catalogue.running import FIRST_BATCH_OPEN
from headwater.events import Said
from headwater.runtime.launch import Launch, Planned
from headwater.runtime.query_state import Phases
from headwater.runtime.supervisor import RunOptions

PHASES = Phases(lambda event: None)


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventListener, "open", lambda listener, spark: None)


@dataclass(frozen=True)
class Noted(Launch):
    """A launch that notes its steps; the query named `bad` must not start."""

    steps: list[str] = field(default_factory=list)

    def _made_ready(self, each: Planned) -> Iterator[Said]:
        self.steps.append(f"{each.sink.name} is ready")
        if each.sink.name == "bad":
            raise CheckpointError(FIRST_BATCH_OPEN.at(batch=0, checkpoint="here"))
        yield Said(text=each.sink.name)

    def _begun(self, each: Planned) -> RunningQuery:
        self.steps.append(f"{each.sink.name} is started")
        return MagicMock()


def launch(folder: Path, *sinks: str) -> Noted:
    prepared: Any = MagicMock()
    prepared.builder.kept = {}
    plan = []
    for name in sinks:
        sink: Any = MagicMock()
        sink.name = name
        plan.append(Planned(sink, (), MagicMock()))
    kept: Any = MagicMock(path=folder)
    source: Any = MagicMock()
    return Noted(
        prepared, MagicMock(), kept, tuple(plan), "run", RunOptions(), lambda event: None, (source,), ()
    )


def test_all_queries_are_ready_before_the_first_one_starts(tmp_path: Path) -> None:
    it = launch(tmp_path, "a", "b")
    it.start(MagicMock(), PHASES, lambda: None)
    assert it.steps == ["a is ready", "b is ready", "a is started", "b is started"]
    source: Any = it.sources[0]
    source.close.assert_not_called()


def test_a_query_that_must_not_start_is_told_before_another_writes(tmp_path: Path) -> None:
    it = launch(tmp_path, "a", "bad")
    with pytest.raises(CheckpointError):
        it.start(MagicMock(), PHASES, lambda: None)
    assert it.steps == ["a is ready", "bad is ready"]
    # Facts are those of the last start, and this was none.
    folder: Any = it.directory
    folder.store_facts.assert_not_called()
    source: Any = it.sources[0]
    source.close.assert_called_once_with()
