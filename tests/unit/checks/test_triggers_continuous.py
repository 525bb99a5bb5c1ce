"""Rules about queries that keep their cores, and about checkpoints of another trigger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.checks import Reached, Situation
from headwater.checks.triggers import cores_conflict, trigger_changed
from headwater.plan import Graph, QueryFacts, SourceFacts
from headwater.plan.predicates import most_partitions
from tests.unit.checks.facts import facts
from tests.unit.specs import spec_of

PIPELINE = """
    name: quick
    sources:
      ticks: {connector: rate}
    sinks:
      one: {reads: ticks, connector: console, trigger: continuous 1 second}
      two: {reads: ticks, connector: console, trigger: %s}
"""
CONTINUOUS = "continuous 1 second"


def known(sink: str, trigger: str, slots: int = 1, cores: int = 2, switches: bool = False) -> QueryFacts:
    source = SourceFacts("ticks", "rate", continuous=True, slots=slots, switches=switches)
    return facts(sink=sink, trigger=trigger, sources=(source,), cores=cores, connector="console")


def situation(two: str, *queries: QueryFacts, **keys: Any) -> Situation:
    spec = spec_of(PIPELINE % two)
    return Situation(spec, Graph.of(spec), {each.sink: each for each in queries}, **{"environ": {}, **keys})


@pytest.mark.feature("J3", part="note when cores are too few")
@pytest.mark.parametrize(
    ("two", "slots", "cores", "said"),
    [
        pytest.param(CONTINUOUS, (1, 1), 2, None, id="each has its core"),
        pytest.param(CONTINUOUS, (1, 2), 2, ("3 cores", 3, "one of them"), id="one too many"),
        pytest.param("every 1 second", (1, 0), 2, None, id="one is left for batches"),
        pytest.param("every 1 second", (2, 0), 2, ("2 cores", 3, "`two`"), id="none is left for batches"),
        pytest.param(
            "real time 5 minutes", (1, 2), 2, ("3 cores", 3, "one of them"), id="real time has them too"
        ),
        pytest.param(CONTINUOUS, (3, 1), 2, None, id="too large by itself, which another rule tells"),
        pytest.param(CONTINUOUS, (0, 2), 2, ("2 cores", 3, "`one`"), id="of one nothing is known"),
    ],
)
def test_cores_are_added_up(
    two: str, slots: tuple[int, int], cores: int, said: tuple[str, int, str] | None
) -> None:
    found = cores_conflict.findings(
        situation(two, known("one", CONTINUOUS, slots[0], cores), known("two", two, slots[1], cores))
    )
    told = [(each.problem.params["slots"], each.problem.params["needed"], each.problem.params["starved"])
            for each in found]  # fmt: skip
    assert told == ([said] if said else [])


REACHED = Reached("/project/.headwater/checkpoints/one", (3,), batch=3)


@pytest.mark.parametrize(
    ("before", "now", "code"),
    [
        (known("one", CONTINUOUS), known("one", "continuous 5 seconds"), None),
        (known("one", "default"), known("one", "every 5 seconds"), None),
        (known("one", CONTINUOUS), known("one", "default"), "HW-TRIGGER-CHANGED"),
        (known("one", "once"), known("one", CONTINUOUS), "HW-TRIGGER-CHANGED"),
        (known("one", CONTINUOUS, 1), known("one", CONTINUOUS, 2), "HW-PARTITIONS-CHANGED"),
        (known("one", CONTINUOUS, 0), known("one", CONTINUOUS, 2), None),
        (known("one", CONTINUOUS), known("one", "default", switches=True), None),
        (known("one", "real time 5 minutes"), known("one", CONTINUOUS, switches=True), None),
        (known("one", CONTINUOUS, 1), known("one", CONTINUOUS, 2, switches=True), None),
    ],
)
def test_a_checkpoint_fits_its_kind_of_trigger(before: QueryFacts, now: QueryFacts, code: str | None) -> None:
    keys = {"stored": {"one": before}, "reached": {"one": REACHED}}
    found = [each.problem.code for each in trigger_changed.findings(situation("once", now, **keys))]
    assert found == ([code] if code else [])


@pytest.mark.parametrize(
    ("connector", "fix"),
    [("rate", "Set `num_partitions: 1`"), ("socket", "Restore the 1 partition of `ticks`")],
)
def test_the_number_of_partitions_can_be_restored(connector: str, fix: str) -> None:
    before, now = known("one", CONTINUOUS, 1), known("one", CONTINUOUS, 2)
    now = replace(now, sources=tuple(replace(each, connector=connector) for each in now.sources))
    keys = {"stored": {"one": before}, "reached": {"one": REACHED}}
    (finding,) = trigger_changed.findings(situation("once", now, **keys))
    assert "had 1 partition, and now has 2." in finding.problem.message
    assert finding.problem.hint.startswith(f"{fix}, or start from scratch: ")


def test_a_checkpoint_without_offsets_fits_everything() -> None:
    keys = {"stored": {"one": known("one", "once")}, "reached": {"one": replace(REACHED, batch=-1)}}
    assert list(trigger_changed.findings(situation("once", known("one", CONTINUOUS), **keys))) == []


@pytest.mark.parametrize(
    ("two", "cores", "most"),
    [
        pytest.param(
            known("two", CONTINUOUS, 1, 6), 6, 3, id="each of the two takes one of each two that are left"
        ),
        pytest.param(known("two", CONTINUOUS, 1, 3), 3, 2, id="none for both"),
        pytest.param(known("two", "every 1 second", 0, 6), 6, 5, id="one is left for batches"),
    ],
)
def test_how_many_partitions_there_are_cores_for(two: QueryFacts, cores: int, most: int) -> None:
    one = known("one", CONTINUOUS, slots=2, cores=cores)
    assert most_partitions(one, "ticks", [one, two]) == most
    if "every" in two.trigger:
        assert most_partitions(two, "ticks", [one, two]) is None
