"""Every kind of event is the same after its JSON form was stored and read."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from headwater.errors.catalogue.running import CONNECTION_FAILED
from headwater.events import kinds
from headwater.events.kinds import (
    Alert,
    BacklogChanged,
    Event,
    Notice,
    QueryDetails,
    QueryProgress,
    QueryRestarting,
    QueryStarted,
    QueryStatus,
    QuerySummary,
    QueryTerminated,
    RunFinished,
    RunStarted,
)
from headwater.events.stored import event_from_json, problem_from_json
from headwater.values import Position

PROBLEM = CONNECTION_FAILED.at(Position("/p.yml", 3, 5), sink="{out}", says="refused")
DETAILS = QueryDetails(connector="files", sources=("clicks",), interval_ms=10)
SUMMARY = QuerySummary(
    status="failed",
    rows_in=1,
    rows_out=None,
    sources={},
    expectations={},
    late_rows={"join": 2},
    batch=3,
    idle_inputs=({"message": "m"},),
    problem=PROBLEM,
)
EVENTS: list[Event] = [
    RunStarted(
        run_id="r",
        pipeline="p",
        queries=("out",),
        run_dir="/d",
        spark_version="4.1.0",
        details={"out": DETAILS},
    ),
    QueryStarted(query="out", id="i", run_id="q"),
    QueryStarted(query="out", id="i", run_id="q", details=DETAILS),
    QueryProgress(query="out", rows_out=1, progress={"batchId": 1, "numInputRows": 2}),
    BacklogChanged(query="out", files={"/in": 3}),
    QueryRestarting(query="out", attempt=1, attempts=3, delay_ms=10, problem=PROBLEM),
    QueryTerminated(query="out", status=QueryStatus.FAILED, problem=PROBLEM),
    QueryTerminated(query="out", status=QueryStatus.STOPPED),
    RunFinished(run_id="r", exit_code=1, queries={"out": SUMMARY}),
    Alert(query="out", alert="a", severity="critical", active=True, code="HW-A", message="m"),
    kinds.Found(finding={"code": "HW-A", "message": "m"}),
    Notice(message="m", code="HW-A"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_has_the_same_json_form_again(event: Event) -> None:
    stored = json.loads(json.dumps(event.to_json()))
    again = event_from_json(stored)
    assert type(again) is type(event)
    assert json.loads(json.dumps(again.to_json())) == stored


def test_a_problem_keeps_its_texts_and_position() -> None:
    found = problem_from_json(json.loads(json.dumps(PROBLEM.to_json())))
    assert (found.code, found.message, found.hint) == (PROBLEM.code, PROBLEM.message, PROBLEM.hint)
    assert (found.location, found.entry.retryable) == ("/p.yml:3:5", True)


@pytest.mark.parametrize("found", [{}, {"event": "new"}, {"event": "query_started", "at": "t"}])
def test_an_event_of_another_version_is_none(found: dict[str, str]) -> None:
    assert event_from_json(found) is None


def test_unknown_fields_are_ignored() -> None:
    stored = {**EVENTS[1].to_json(), "seq": 7, "new": True}
    assert event_from_json(stored) == EVENTS[1]
    assert {each.name for each in fields(EVENTS[1])} == {"at", "query", "id", "run_id", "details"}
