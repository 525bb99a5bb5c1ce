"""The process that runs a script: its time, its messages, its end."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace

import pytest

from headwater.engine.plain_facts import trigger_text
from headwater.errors.catalogue.programs import CHECKPOINT_CONFLICT, SCRIPT_FAILED, SINK_PATH_MISSING
from headwater.programs.script import (
    STANDSTILL_SECONDS,
    CapturedQuery,
    Clock,
    Teller,
    _cut_off,
    problem_from_json,
)
from headwater.values import Position
from tests.unit.checks.facts import aggregation, facts, key

GATEWAY = "PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java gateway process exited"


@pytest.mark.parametrize(
    ("detail", "output", "code", "error"),
    [
        (
            "requests: Max retries exceeded with url: /.",
            "",
            "HW-SCRIPT-NETWORK",
            "requests: Max retries exceeded with url: /",
        ),
        (
            GATEWAY,
            "a\n  :: unresolved dependency: a#b;1: not found\nb",
            "HW-SCRIPT-NETWORK",
            "unresolved dependency: a#b;1: not found",
        ),
        ("KeyError: 1", "Connection refused", "HW-SCRIPT-FAILED", "it"),
    ],
)
def test_a_failure_for_want_of_a_network_says_so(detail: str, output: str, code: str, error: str) -> None:
    problem = _cut_off(replace(SCRIPT_FAILED.at(None, error="it"), detail=detail), output)
    assert (problem.code, problem.params["error"]) == (code, error)


class Hand:
    """The time, moved by hand."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def test_only_the_scripts_own_time_counts() -> None:
    now, heard = Hand(), list[bool]()
    clock = Clock(60, heard.append, now)
    now.at += 50
    assert (clock.left(), clock.runs) == (STANDSTILL_SECONDS - 50, False)
    clock.run()
    now.at += 20
    assert (clock.left(), clock.runs) == (40, True)
    with clock.standing():
        now.at += 90
        with clock.standing():
            now.at += 90
        assert (clock.left(), clock.runs) == (STANDSTILL_SECONDS - 180, False)
    assert clock.left() == 40
    now.at += 41
    assert clock.left() == -1
    assert heard == [True, False, True]


def test_a_clock_may_not_stand_for_ever() -> None:
    now = Hand()
    clock = Clock(60, now=now)
    now.at += STANDSTILL_SECONDS
    assert clock.left() == 0
    clock.wait_until_over()


def test_who_waits_hears_of_a_change() -> None:
    clock, over = Clock(0), threading.Event()

    def wait() -> None:
        clock.wait_until_over()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    assert not over.is_set()
    clock.run()
    assert over.wait(60)


def test_a_query_comes_through_whole() -> None:
    place = Position("/jobs/job.py", 7)
    problem = SINK_PATH_MISSING.at(place, name="q", format="csv")
    caught = CapturedQuery(
        facts(aggregation(key("a"))), place, (problem,), (CHECKPOINT_CONFLICT.at(None, name="q"),)
    )
    ours, theirs = os.pipe()
    Teller(theirs).tell(kind="query", query=caught.to_json())
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        (line,) = pipe.readlines()
    assert CapturedQuery.from_json(json.loads(line)["query"]) == caught


def test_a_parameter_of_any_kind_comes_as_text() -> None:
    told = {"entry": {"code": "HW-X", "message": "{a}.", "hint": "{a}."}, "params": {"a": "1"}}
    assert problem_from_json({**told, "place": None, "detail": "d"}).message == "1."


def test_triggers() -> None:
    texts = {
        "ProcessingTimeTrigger(0)": "default",
        "ProcessingTimeTrigger(60000)": "every 1 minute",
        "OneTimeTrigger": "once",
        "AvailableNowTrigger": "available now",
        "ContinuousTrigger(1000)": "continuous 1 second",
        "RealTimeTrigger(300000)": "real time 5 minutes",
        "SomeTrigger(1)": "SomeTrigger(1)",
    }
    assert {java: trigger_text(java) for java in texts} == texts
