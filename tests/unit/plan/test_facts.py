"""Facts are stored with a version and read back as they were."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headwater.plan import QueryFacts, Refusal, SourceFacts
from headwater.plan.facts import changes_between
from headwater.plan.operators import EventTime, Key, Kind, Operator, Window
from headwater.plan.state_layout import StateLayout, StoredValue

FACTS = QueryFacts(
    sink="revenue",
    connector="files",
    mode="append",
    root="/project",
    timezone="UTC",
    sources=(SourceFacts("clicks", "files", ("/project/in", "/project/more")), SourceFacts("t", "rate")),
    output_schema={"id": "int"},
    held_schema={"id": "bigint"},
    settings={"spark.sql.shuffle.partitions": "2"},
    passed_over={"spark.sql.shuffle.partitions": "4"},
    spark_version="4.1.4",
)
# What version 1 wrote, as it stands on disk: it stays readable.
VERSION_1 = """{
  "connector": "files", "held_schema": {"id": "bigint"}, "mode": "append",
  "output_schema": {"id": "int"}, "passed_over": {"spark.sql.shuffle.partitions": "4"},
  "root": "/project", "settings": {"spark.sql.shuffle.partitions": "2"}, "sink": "revenue",
  "sources": [
    {"connector": "files", "name": "clicks", "places": ["/project/in", "/project/more"], "streaming": true},
    {"connector": "rate", "name": "t", "places": [], "streaming": true}
  ],
  "spark_version": "4.1.4", "timezone": "UTC", "version": 1
}
"""


def test_facts_come_back_as_they_were() -> None:
    assert QueryFacts.from_json(FACTS.to_json()) == FACTS


def test_what_the_sink_holds_comes_back_as_it_was() -> None:
    facts = replace(FACTS, places=("/out",), held_batch=3, held_outside="/a", held_unreadable="gone")
    assert QueryFacts.from_json(facts.to_json()) == facts


def test_steps_come_back_as_they_were() -> None:
    window = Key("window", "window", "struct", True, 600_000, Window(False, "at", 60_000, 60_000))
    grouped = Operator(
        Kind.AGGREGATION, "GROUP BY", (0,), ("clicks",), (EventTime("at", 600_000),), (window,)
    )
    facts = replace(FACTS, operators=(grouped,), refusal=Refusal("A_CONDITION", "It can't be done."))
    assert QueryFacts.from_json(facts.to_json()) == facts


def test_facts_of_version_1_are_read() -> None:
    assert QueryFacts.from_json(VERSION_1) == replace(FACTS, version=1)


def test_facts_of_version_2_say_nothing_of_the_state() -> None:
    stored = json.loads(replace(FACTS, version=2).to_json())
    del stored["state"], stored["fixed_options"]
    read = QueryFacts.from_json(json.dumps(stored))
    assert (read.state, read.fixed_options) == (None, {})


def test_the_state_comes_back_as_it_was() -> None:
    keys = (StoredValue("clicks.user", "string"),)
    layout = StateLayout("GROUP BY", {"keys": keys, "aggregates": ()}, "totals", 3, 1)
    facts = replace(FACTS, state=(layout,))
    assert QueryFacts.from_json(facts.to_json()) == facts


@pytest.mark.parametrize("version", [0, 4, None, "1"])
def test_another_version_is_refused(version: object) -> None:
    text = json.dumps({**json.loads(FACTS.to_json()), "version": version})
    with pytest.raises(ValueError) as error:
        QueryFacts.from_json(text)
    assert str(error.value) == f"version {version}"


@pytest.mark.parametrize("text", ["", "[]", "3", "null", '{"version": 1'])
def test_what_is_no_facts_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        QueryFacts.from_json(text)


def test_changes_have_words_and_values() -> None:
    now = replace(FACTS, trigger="every 1 second", output_schema={"id": "bigint"}, sources=(), cores=8)
    found = changes_between(FACTS, now)
    assert [each.words for each in found] == ["trigger", "sources", "output columns"]
    assert [each.to_json() for each in found] == [
        {"what": "trigger", "before": "default", "after": "every 1 second"},
        {"what": "sources", "before": None, "after": None},
        {"what": "output_schema", "before": {"id": "int"}, "after": {"id": "bigint"}},
    ]
    assert changes_between(FACTS, FACTS) == ()
