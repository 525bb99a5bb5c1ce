"""Where a source starts, settled with a cluster that is made up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headwater.connectors import Context
from headwater.connectors.kafka import KafkaSource
from headwater.connectors.kafka.cluster import ClusterError, Topic
from headwater.connectors.kafka.start import cluster_problem, resolve_positions
from headwater.errors import PipelineError
from headwater.run_directory import RunDirectory
from headwater.values import BadRows

AFTER = "2026-01-01 00:00:00"
CONTEXT: dict[str, Any] = {
    "place": None,
    "root": Path("/project"),
    "directory": RunDirectory(Path("/project/.headwater")).source("clicks"),
    "load": lambda ref: print,
    "keep": lambda file, text: None,
    "at": lambda *key: None,
}


@dataclass
class Cluster:
    """One topic of two partitions; into the first messages go all the time, the second is quiet."""

    asked: list[Mapping[Any, Any]] = field(default_factory=list)
    end: int = 100

    def topics(self, names: Any) -> dict[str, Topic | None]:
        return {name: Topic(name, "one", 2) if name == "clicks" else None for name in names}

    def names(self) -> list[str]:
        return ["clicks"]

    def offsets(self, wanted: Mapping[tuple[str, int], int | str]) -> dict[tuple[str, int], int]:
        self.asked.append(wanted)
        self.end += 50
        latest = {0: self.end, 1: 7}
        known = {"earliest": lambda number: 5, "latest": latest.__getitem__}
        return {
            (topic, number): known[where](number) if isinstance(where, str) else (90, -1)[number]
            for (topic, number), where in wanted.items()
        }


def settled(start: Any, *, batch: bool = False, resumes: bool = False, of: Any = CONTEXT, **keys: Any) -> Any:
    options = KafkaSource.model_validate(
        {"bootstrap_servers": "a:1", "topic": "clicks", "start": start, **keys}
    )
    context = Context("clicks", batch=batch, resumes=resumes, **of)
    found = resolve_positions(Cluster(), options, context, "UTC")  # type: ignore[arg-type]
    return {key: json.loads(value) if "{" in value else value for key, value in found.items()}


@pytest.mark.parametrize(
    ("start", "offsets"),
    [
        ("latest", {"0": 150, "1": 7}),
        ({"offsets": {"clicks": {"0": "latest", "1": "earliest"}}}, {"0": 150, "1": -2}),
        ({"offsets": {"clicks": {"1": 6}}, "default": "latest"}, {"0": 250, "1": 6}),
        ({"timestamp": AFTER, "fallback": "latest"}, {"0": 90, "1": 7}),
        ({"timestamp": {"clicks": {"0": AFTER}}, "default": "latest"}, {"0": 90, "1": 7}),
    ],
)
def test_latest_is_settled_once_for_all_queries(start: Any, offsets: dict[str, int]) -> None:
    """Each query would else find out for itself what it is, a moment later than the one before."""
    assert settled(start) == {"startingOffsets": {"clicks": offsets}}


def test_a_start_that_was_cut_off_is_gone_on_with(tmp_path: Path) -> None:
    kept: dict[Path, str] = {}
    run = {**CONTEXT, "directory": RunDirectory(tmp_path).source("clicks"), "keep": kept.__setitem__}
    first = settled({"timestamp": AFTER, "fallback": "latest"}, of=run)
    ((file, text),) = kept.items()
    note = json.loads(text)
    assert (note["version"], note["offsets"]) == (1, {"clicks": {"1": 7}})
    # A check leaves no note; a run does, before its first query starts.
    assert settled("latest", of=run) == {"startingOffsets": {"clicks": {"0": 150, "1": 7}}}
    file.parent.mkdir(parents=True)
    file.write_text(text.replace('"1": 7', '"1": 6'))
    first["startingOffsets"]["clicks"]["1"] = 6
    assert settled({"timestamp": AFTER, "fallback": "latest"}, of=run) == first
    # Another start is another matter, and so is a partition that came since.
    assert settled("latest", of=run) == {"startingOffsets": {"clicks": {"0": 150, "1": 7}}}
    for noted, offsets in (({"0": 9}, {"0": 9, "1": -2}), ({"0": 9, "1": 8}, {"0": 9, "1": -2})):
        file.write_text(json.dumps({"version": 1, "start": "latest", "offsets": {"clicks": noted}}))
        assert settled("latest", of=run) == {"startingOffsets": {"clicks": offsets}}


def test_a_note_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    file = tmp_path / "kafka/starts/clicks.json"
    file.parent.mkdir(parents=True)
    file.write_text("{")
    with pytest.raises(PipelineError) as told:
        settled("latest", of={**CONTEXT, "directory": RunDirectory(tmp_path).source("clicks")})
    (problem,) = told.value.problems
    assert (problem.code, problem.params["file"]) == ("HW-KAFKA-RECORD-UNREADABLE", str(file))


def test_the_beginning_stays_a_word() -> None:
    assert settled("earliest") == {"startingOffsets": "earliest"}


def test_where_rows_are_set_aside_it_is_settled_once_too(tmp_path: Path) -> None:
    """Else Kafka could delete, between two starts, what one query has dropped and the quarantine not seen."""
    of = {**CONTEXT, "directory": RunDirectory(tmp_path).source("clicks"), "bad_rows": BadRows.QUARANTINE}
    of["keep"] = lambda file, text: (file.parent.mkdir(parents=True), file.write_text(text))
    first = settled("earliest", of=of)
    assert first == {"startingOffsets": {"clicks": {"0": 5, "1": 5}}}
    assert settled("earliest", of={**of, "keep": CONTEXT["keep"]}) == first


def test_a_batch_holds_nothing_of_a_partition_without_a_message_so_late() -> None:
    found = settled({"timestamp": AFTER, "fallback": "latest"}, batch=True)
    assert found["startingOffsets"] == {"clicks": {"0": 90, "1": 7}}


@pytest.mark.parametrize(
    ("start", "code"),
    [
        ({"timestamp": AFTER}, "HW-KAFKA-NO-OFFSET-FOR-TIMESTAMP"),
        ({"offsets": {"clicks": {"2": 6}}}, "HW-KAFKA-PARTITION-NOT-FOUND"),
        ({"offsets": {"views": {"0": 6}}}, "HW-KAFKA-TOPIC-NOT-READ"),
        ({"offsets": {"clicks": {"1": 4}}}, "HW-KAFKA-OFFSET-OUT-OF-RANGE"),
        ({"offsets": {"clicks": {"1": 8}}}, "HW-KAFKA-OFFSET-OUT-OF-RANGE"),
    ],
)
def test_a_start_is_judged_where_it_counts(start: Any, code: str) -> None:
    with pytest.raises(PipelineError) as refused:
        settled(start)
    assert [problem.code for problem in refused.value.problems] == [code]
    assert settled(start, resumes=True) == {"startingOffsets": "earliest"}


def test_an_offset_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(PipelineError) as refused:
        settled({"offsets": {"clicks": {"1": 8}}})
    params = refused.value.problems[0].params
    assert [params[key] for key in ("key", "partition", "offset", "first", "next")] == ["start", 1, 8, 5, 7]
    with pytest.raises(PipelineError) as refused:
        settled("earliest", batch=True, end={"offsets": {"clicks": {"1": 8}}})
    assert refused.value.problems[0].params["key"] == "end"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("TimeoutException", "HW-KAFKA-UNREACHABLE"),
        ("SaslAuthenticationException", "HW-KAFKA-AUTHENTICATION-FAILED"),
        ("TopicAuthorizationException", "HW-KAFKA-NOT-AUTHORIZED"),
        ("ConfigException", "HW-KAFKA-SETTINGS-INVALID"),
        ("UnsupportedVersionException", "HW-KAFKA-REQUEST-FAILED"),
        ("UnknownServerException", "HW-KAFKA-REQUEST-FAILED"),
    ],
)
def test_only_brokers_that_do_not_answer_are_out_of_reach(kind: str, code: str) -> None:
    options = KafkaSource.model_validate({"bootstrap_servers": "a:1", "topic": "clicks"})
    problem = cluster_problem(ClusterError(kind, "says"), options, Context("clicks", batch=False, **CONTEXT))
    assert problem.code == code
