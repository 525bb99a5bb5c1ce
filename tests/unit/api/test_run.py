"""When a run that is to end ends."""

from __future__ import annotations

from typing import cast

import pytest

from headwater.api.run import Output, _Started
from headwater.connectors.files.errors import FILES_UNREADABLE
from headwater.errors import CheckpointError
from headwater.events import Notice, QueryIdle, QueryStatus, QueryTerminated
from headwater.runtime import RunOptions
from headwater.runtime.handles import Run
from headwater.runtime.signals import Signals
from tests.unit.runtime.queries import Blocked, running

NEVER = FILES_UNREADABLE.at(None, name="s", says="Permission denied (a.parquet)")


def test_a_run_until_idle_ends_as_failed_where_some_input_is_never_taken_in() -> None:
    with running("out", tasks=[Blocked(NEVER)]) as (run, queries, events):
        queries["out"].in_batch = False
        # As long as something else is read, the run goes on.
        assert not run.reason_to_end()
        run._supervisor.handle(QueryIdle(query="out"))
        with Signals() as signals:
            started = _Started(RunOptions(until_idle=True), Output(events.append, print), signals)
            started._runs.append(run)
            started._until_ended(None)
        (ended,) = [each for each in events if isinstance(each, QueryTerminated)]
        assert (ended.status, ended.problem, run.exit_code) == (QueryStatus.FAILED, NEVER, 1)


def test_who_waits_for_a_run_to_be_idle_hears_why_it_never_is() -> None:
    with running("out", tasks=[Blocked(NEVER)]) as (run, _, _):
        run._supervisor.handle(QueryIdle(query="out"))
        with pytest.raises(CheckpointError) as never:
            run.wait_idle()
        assert never.value.problems == (NEVER,)
        assert run.is_active


def test_a_run_in_python_ends_when_it_is_idle_as_the_command_does() -> None:
    with running("out") as (run, queries, events):
        queries["out"].in_batch = False
        for _ in range(3):
            run._supervisor.handle(QueryIdle(query="out"))
        run.stop_when_idle()
        assert (run.is_active, run.exit_code) == (False, 0)
        assert [each.message for each in events if isinstance(each, Notice)] == ["No more data to read."]


def test_a_run_in_python_ends_as_failed_where_some_input_is_never_taken_in() -> None:
    with running("out", tasks=[Blocked(NEVER)]) as (run, queries, _):
        queries["out"].in_batch = False
        run._supervisor.handle(QueryIdle(query="out"))
        run.stop_when_idle()
        assert (run.is_active, run.exit_code, run.queries["out"].problem) == (False, 1, NEVER)


def test_an_interrupt_stops_the_run_before_it_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    with running("out") as (run, queries, _):
        queries["out"].in_batch = False
        monkeypatch.setattr(run, "reason_to_end", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.stop_when_idle()
        assert (run.is_active, run.exit_code) == (False, 0)


class EndingRun:
    """A run that ends between two questions."""

    id, is_stuck = "run", False

    def __init__(self) -> None:
        self._answers = iter((False, True))

    @property
    def has_ended(self) -> bool:
        return next(self._answers, True)


def test_a_run_that_ends_while_the_command_looks_at_it() -> None:
    with Signals() as signals:
        started = _Started(RunOptions(), Output(print, print), signals)
        started._runs.append(cast(Run, EndingRun()))
        started._until_ended(None)
        assert started.running[0].has_ended
