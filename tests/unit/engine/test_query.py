"""How the start of a query fails, and how it is seen to have terminated."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from headwater.engine import query
from headwater.engine.query import RunningQuery, start_query
from headwater.errors import PipelineError
from headwater.values import Unpaced
from tests.unit.specs import spec_of

PIPELINE = """
name: p
sources: {clicks: {connector: rate}}
sinks:
  out: {reads: clicks, connector: noop}
"""


def test_whatever_spark_says_is_told_at_the_sink(tmp_path: Path) -> None:
    spec, pools = spec_of(PIPELINE), list[object]()

    def refuse(settings: object) -> None:
        raise Py4JError("no answer")

    context = SimpleNamespace(setLocalProperty=lambda key, value: pools.append(value))
    session: Any = SimpleNamespace(apply=refuse, spark=SimpleNamespace(sparkContext=context))
    builder: Any = SimpleNamespace(spec=spec)
    frame: Any = None
    with pytest.raises(PipelineError) as failed:
        start_query(
            session, builder, spec.sinks[0], frame, checkpoint=tmp_path, settings=(), trigger=Unpaced()
        )
    (problem,) = failed.value.problems
    assert problem.place is not None
    assert problem.place.line == 4
    assert pools == [None]


def test_a_plan_that_cannot_be_rewritten_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(rows: object) -> object:
        raise TypeError("'JavaPackage' object is not callable\nand more")

    monkeypatch.setattr(query, "evaluated_once", fail)
    rows: Any = object()
    assert query._evaluated_once(rows, "orders") is rows
    assert [(each.levelname, each.message) for each in caplog.records] == [
        (
            "WARNING",
            "Query orders: Spark may parse each message twice "
            "(could not rewrite its plan: 'JavaPackage' object is not callable)",
        )
    ]


class EndingHandle:
    """Spark's handle of a query that has told the program of its end; its thread ends after some more questions."""

    def __init__(self, questions: int, *, active: bool = False) -> None:
        self.isActive = active
        self._left = questions
        thread = SimpleNamespace(isAlive=self._is_alive)
        self._jsq = SimpleNamespace(
            streamingQuery=lambda: SimpleNamespace(queryExecutionThread=lambda: thread)
        )

    def _is_alive(self) -> bool:
        self._left -= 1
        return self._left >= 0


@pytest.mark.parametrize(
    ("questions", "active", "seconds", "terminated"),
    [
        (0, False, 20.0, True),
        # `awaitTermination` has returned, and the thread has not ended.
        (3, False, 20.0, True),
        (3, False, -1.0, False),
        # Nobody waits for a query that continues.
        (3, True, 20.0, False),
    ],
)
def test_a_query_about_to_terminate_is_waited_for(
    questions: int, active: bool, seconds: float, terminated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "_POLL_SECONDS", 0.0)
    handle: Any = EndingHandle(questions, active=active)
    spark: Any = None
    running = RunningQuery("out", handle, spark, "id")
    assert running.has_terminated(time.monotonic() + seconds) is terminated
