"""What goes through the pipe comes out again."""

from __future__ import annotations

import json
import os

from headwater.engine.plain_facts import trigger_text
from headwater.errors.catalogue.programs import NO_PATH, SAME_CHECKPOINT
from headwater.programs.script import Caught, Teller, problem_from_json
from headwater.values import Position
from tests.unit.checks.facts import aggregation, facts, key


def test_a_query_comes_through_whole() -> None:
    place = Position("/jobs/job.py", 7)
    problem = NO_PATH.at(place, name="q", format="csv")
    caught = Caught(facts(aggregation(key("a"))), place, (problem,), (SAME_CHECKPOINT.at(None, name="q"),))
    ours, theirs = os.pipe()
    Teller(theirs).tell(kind="query", query=caught.to_json())
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        (line,) = pipe.readlines()
    assert Caught.from_json(json.loads(line)["query"]) == caught


def test_a_parameter_of_any_kind_comes_as_text() -> None:
    told = {"entry": {"code": "HW-X", "sentence": "{a}.", "remedy": "{a}."}, "params": {"a": "1"}}
    assert problem_from_json({**told, "place": None, "detail": "d"}).sentence == "1."


def test_triggers() -> None:
    texts = {
        "ProcessingTimeTrigger(0)": "unpaced",
        "ProcessingTimeTrigger(60000)": "every 1 minute",
        "OneTimeTrigger": "once",
        "AvailableNowTrigger": "available now",
        "ContinuousTrigger(1000)": "continuous 1 second",
        "RealTimeTrigger(300000)": "real time 5 minutes",
        "SomeTrigger(1)": "SomeTrigger(1)",
    }
    assert {java: trigger_text(java) for java in texts} == texts
