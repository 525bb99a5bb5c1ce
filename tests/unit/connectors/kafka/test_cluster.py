"""The task that looks after topics, on a cluster that is made up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headwater.connectors import Context
from headwater.connectors.contract import QueryCheckpoint, StopQueries, Tick
from headwater.connectors.kafka import KafkaSource
from headwater.connectors.kafka.cluster import SECONDS, ClusterError, Topic
from headwater.connectors.kafka.source import ANSWER_SECONDS, LOOK_SECONDS, TopicWatch
from headwater.errors import CheckpointError, HeadwaterError, Problem
from headwater.run_directory import RunDirectory


@dataclass
class Cluster:
    """Topics by name, and the first offset of each partition that is not 0."""

    topics_there: dict[str, Topic]
    first: dict[tuple[str, int], int] = field(default_factory=dict)
    answers: bool = True
    asked: int = 0
    connected: bool = False

    def topics(self, names: Any) -> dict[str, Topic | None]:
        self.asked += 1
        assert self.connected
        if not self.answers:
            raise ClusterError("TimeoutException", "nobody is there")
        return {name: self.topics_there.get(name) for name in names}

    def offsets(self, wanted: Mapping[tuple[str, int], int | str]) -> dict[tuple[str, int], int]:
        return {each: self.first.get(each, 0) for each in wanted}

    def connect(self, seconds: int) -> Cluster:
        self.connected = True
        return self

    def close(self) -> None:
        self.connected = False


class World:
    """A cluster, a checkpoint and a clock."""

    def __init__(self, folder: Path, most: int | None = None, **keys: Any) -> None:
        self.folder = folder
        self.cluster = Cluster({"clicks": Topic("clicks", "one", 1)})
        self.now = 100.0
        options = KafkaSource.model_validate(
            {"bootstrap_servers": "a:1", "topic": "clicks", **keys}, context={"root": folder}
        )
        context = Context(
            "clicks",
            None,
            folder,
            RunDirectory(folder / ".headwater").source("clicks"),
            lambda ref: print,
            lambda file, text: None,
            at=lambda *key: None,
            batch=False,
        )
        self.checkpoint = folder / "checkpoint"
        readers = [
            QueryCheckpoint("out", self.checkpoint, (), ("other", "clicks"), most_partitions=most),
            QueryCheckpoint("elsewhere", folder / "nothing", (), ("other",)),
        ]
        connect: Any = lambda seconds: self.cluster.connect(seconds)  # noqa: E731 - a cluster that is made up
        self.watch = TopicWatch(options, context, readers, connect, lambda: self.now)

    def committed(self, batch: int, offset: int | None) -> None:
        """A batch up to an offset, or one that holds nothing of the topic."""
        lines = ["v1", '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}', '{"logOffset":0}']
        reached = {"clicks": {"0": offset}} if offset is not None else {}
        for name, text in {
            f"offsets/{batch}": "\n".join([*lines, json.dumps(reached)]),
            f"commits/{batch}": 'v1\n{"nextBatchWatermarkMs":0}',
        }.items():
            (self.checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
            (self.checkpoint / name).write_text(text)

    def begin(self) -> list[Problem]:
        return self.watch.before_start("out", self.folder / "backup")

    def look(self, *progress: Mapping[str, Any]) -> list[str]:
        """The codes and offsets of what a look says."""
        self.now += LOOK_SECONDS
        try:
            self.watch.tick(Tick(frozenset({"out"}), progress={"out": progress}))
        except HeadwaterError as error:
            return [_short(problem) for problem in error.problems]
        return []


def _short(problem: Problem) -> str:
    params = problem.params
    where = f" {params['first']}-{params['last']}" if "first" in params else ""
    return problem.code.removeprefix("HW-KAFKA-") + where


def progress(start: int, end: int, rows: int) -> dict[str, Any]:
    read = {
        "startOffset": {"clicks": {"0": start}},
        "endOffset": {"clicks": {"0": end}},
        "numInputRows": rows,
    }
    return {"sources": [{"startOffset": None, "endOffset": {"logOffset": 0}, "numInputRows": 0}, read]}


def test_the_id_of_each_topic_is_kept_beside_the_checkpoint(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.begin() == []
    known = json.loads((tmp_path / ".headwater/kafka/out.json").read_text())
    assert known == {"version": 1, "sources": {"clicks": {"clicks": "one"}}}
    assert not (tmp_path / ".headwater/kafka/elsewhere.json").exists()


@pytest.mark.parametrize(
    ("on_topic_recreated", "code"), [("fail", "TOPIC-RECREATED"), ("earliest", "TOPIC-RECREATED-STOPPED")]
)
def test_a_topic_made_again_ends_the_query(tmp_path: Path, on_topic_recreated: str, code: str) -> None:
    world = World(tmp_path, on_topic_recreated=on_topic_recreated)
    world.begin()
    world.committed(0, 5)
    assert world.look() == []
    world.cluster.topics_there["clicks"] = Topic("clicks", "two", 1)
    world.now += LOOK_SECONDS
    with pytest.raises(StopQueries) as ended:
        world.watch.tick(Tick(frozenset()))
    assert {name: _short(problem) for name, problem in ended.value.queries.items()} == {"out": code}
    # It is the same at the next look and at the next start: what is in the checkpoint is what counts.
    assert world.look() == [code]


def test_a_start_is_refused_or_begins_with_the_new_topic(tmp_path: Path) -> None:
    first = World(tmp_path)
    first.begin()
    first.committed(0, 5)
    again = {"clicks": Topic("clicks", "two", 1)}
    refusing = World(tmp_path)
    refusing.cluster.topics_there = again
    with pytest.raises(CheckpointError) as refused:
        refusing.begin()
    assert [_short(problem) for problem in refused.value.problems] == ["TOPIC-RECREATED"]
    anew = World(tmp_path, on_topic_recreated="earliest")
    anew.cluster = Cluster(again, {("clicks", 0): 3})
    assert [_short(problem) for problem in anew.begin()] == ["TOPIC-RESET"]
    lines = (tmp_path / "checkpoint/offsets/0").read_text().splitlines()
    assert json.loads(lines[3]) == {"clicks": {"0": 3}}
    assert (tmp_path / "backup/offsets/0").exists()
    # The ids are those of the new topic now.
    assert anew.begin() == []


def test_a_new_checkpoint_is_bound_to_nothing_of_the_old_one(tmp_path: Path) -> None:
    World(tmp_path).begin()
    world = World(tmp_path)
    world.cluster.topics_there = {"clicks": Topic("clicks", "two", 1)}
    assert world.begin() == []
    world.committed(0, 5)
    assert world.look() == []


def test_a_loss_is_told_once(tmp_path: Path) -> None:
    world = World(tmp_path, on_data_loss="warn")
    world.begin()
    world.committed(0, 10)
    assert world.look() == []
    world.cluster.first["clicks", 0] = 15
    assert world.look() == ["ROWS-DELETED 10-14"]
    assert world.look() == []
    world.cluster.first["clicks", 0] = 17
    assert world.look() == ["ROWS-DELETED 15-16"]
    # The batch that runs over it is no news.
    world.committed(1, 20)
    assert world.look(progress(10, 20, 3)) == []


def test_a_loss_between_two_looks_is_found_by_the_rows_that_did_not_come(tmp_path: Path) -> None:
    world = World(tmp_path, on_data_loss="warn")
    world.begin()
    world.committed(0, 10)
    assert world.look() == []
    world.cluster.first["clicks", 0] = 15
    world.committed(1, 20)
    assert world.look(progress(10, 20, 5)) == ["ROWS-DELETED 10-14"]
    # What was read before it was deleted is no loss.
    world.cluster.first["clicks", 0] = 30
    world.committed(2, 30)
    assert world.look(progress(20, 30, 10)) == []


def test_a_start_after_a_loss_tells_it(tmp_path: Path) -> None:
    world = World(tmp_path, on_data_loss="warn")
    world.committed(0, 10)
    world.cluster.first["clicks", 0] = 15
    assert [_short(problem) for problem in world.begin()] == ["ROWS-DELETED 10-14"]


def test_where_a_loss_fails_the_query_spark_tells_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.begin()
    world.committed(0, 10)
    world.cluster.first["clicks", 0] = 15
    assert world.look() == []


def test_a_topic_that_is_gone_is_told_once(tmp_path: Path) -> None:
    world = World(tmp_path, on_data_loss="warn")
    world.begin()
    world.committed(0, 10)
    world.cluster.topics_there = {}
    assert world.look() == ["TOPIC-LOST"]
    assert world.look() == []
    # Made again it is another one.
    world.cluster.topics_there = {"clicks": Topic("clicks", "two", 1)}
    assert world.look() == ["TOPIC-RECREATED"]


def test_the_cluster_is_asked_every_now_and_then(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.begin()
    before = world.cluster.asked
    for _ in range(10):
        world.watch.tick(Tick(frozenset({"out"})))
    assert world.cluster.asked == before + 1
    world.cluster.answers = False
    assert world.look() == ["UNREACHABLE"]
    # Nobody is bothered again at once.
    before = world.cluster.asked
    assert world.look() == []
    assert world.cluster.asked == before


def test_what_came_last_is_looked_at_before_the_end(tmp_path: Path) -> None:
    world = World(tmp_path, on_data_loss="warn")
    world.begin()
    world.committed(0, 10)
    assert world.look() == []
    world.cluster.first["clicks", 0] = 15
    with pytest.raises(CheckpointError):
        world.watch.tick(Tick(frozenset({"out"}), last=True))
    world.watch.close()
    assert not world.cluster.connected


def test_a_topic_that_the_checkpoint_let_go_of_may_come_back(tmp_path: Path) -> None:
    world = World(tmp_path, on_data_loss="warn")
    world.begin()
    world.committed(0, 10)
    assert world.look() == []
    world.cluster.topics_there = {}
    assert world.look() == ["TOPIC-LOST"]
    world.committed(1, None)
    assert world.look() == []
    # The new one is read from its start, as any topic that comes later.
    world.cluster.topics_there = {"clicks": Topic("clicks", "two", 1)}
    assert world.look() == []
    world.committed(2, 3)
    assert world.look() == []
    # It is known now: another one is told from it.
    world.cluster.topics_there = {"clicks": Topic("clicks", "three", 1)}
    assert world.look() == ["TOPIC-RECREATED"]


def test_brokers_that_give_no_ids_tell_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.begin()
    world.committed(0, 10)
    world.cluster.topics_there = {"clicks": Topic("clicks", "", 1)}
    assert (world.look(), world.begin()) == ([], [])
    # What was known before is kept.
    world.cluster.topics_there = {"clicks": Topic("clicks", "two", 1)}
    assert world.look() == ["TOPIC-RECREATED"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"version": 2, "sources": {}}'])
def test_a_record_that_can_not_be_read_is_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / ".headwater/kafka/out.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(CheckpointError) as told:
        World(tmp_path).begin()
    (problem,) = told.value.problems
    assert (problem.code, problem.params["file"]) == ("HW-KAFKA-RECORD-UNREADABLE", str(file))
    assert file.read_text() == text


@pytest.mark.parametrize(("answers", "asked"), [(True, 1), (False, 0)])
def test_after_a_failure_only_brokers_that_answer_are_asked_again(
    tmp_path: Path, answers: bool, asked: int
) -> None:
    world = World(tmp_path, on_data_loss="warn")
    world.begin()
    world.cluster.answers = answers
    assert world.look() == ([] if answers else ["UNREACHABLE"])
    before = world.cluster.asked
    world.watch.tick(Tick(frozenset({"out"}), last=True, healthy=False))
    assert world.cluster.asked == before + asked


def test_it_says_how_long_it_waited(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.cluster.answers = False
    with pytest.raises(HeadwaterError) as told:
        world.begin()
    assert told.value.problems[0].params["seconds"] == SECONDS
    world.now += 100
    with pytest.raises(HeadwaterError) as told:
        world.watch.tick(Tick(frozenset()))
    assert told.value.problems[0].params["seconds"] == ANSWER_SECONDS


def test_a_start_that_is_refused_leaves_no_connection(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.begin()
    world.look()
    assert world.cluster.connected
    world.watch.close()
    assert not world.cluster.connected


def test_the_note_of_a_start_goes_when_every_query_has_begun(tmp_path: Path) -> None:
    world = World(tmp_path)
    note = tmp_path / ".headwater/kafka/starts/clicks.json"
    note.parent.mkdir(parents=True)
    note.write_text("{}")
    world.begin()
    assert world.look() == []
    assert note.exists()
    world.committed(0, 5)
    assert world.look() == []
    assert not note.exists()


@pytest.mark.parametrize("most", [None, 3, 2])
def test_a_query_that_keeps_a_core_for_each_partition_is_stopped_when_they_are_too_many(
    tmp_path: Path, most: int | None
) -> None:
    world = World(tmp_path, most=most)
    world.watch.before_start("out", tmp_path / "backup")
    world.cluster.topics_there["clicks"] = Topic("clicks", "one", 3)
    world.now += LOOK_SECONDS
    if most != 2:
        world.watch.tick(Tick(frozenset()))
        return
    with pytest.raises(StopQueries) as ended:
        world.watch.tick(Tick(frozenset()))
    (problem,) = ended.value.queries.values()
    assert list(ended.value.queries) == ["out"]
    assert (problem.code, problem.params["partitions"], problem.params["most"]) == (
        "HW-KAFKA-TOO-FEW-CORES",
        3,
        2,
    )


@pytest.mark.parametrize("planned", [False, True])
def test_a_start_that_spark_has_noted_counts_only_where_a_batch_was_planned_from_it(
    tmp_path: Path, planned: bool
) -> None:
    world = World(tmp_path)
    note = world.checkpoint / "sources/1/0"
    note.parent.mkdir(parents=True)
    note.write_text('v1\n{"clicks":{"0":7}}')
    if planned:
        world.committed(0, 7)
        (world.checkpoint / "commits/0").unlink()
    assert world.begin() == []
    assert note.exists() == planned
    assert (tmp_path / "backup/sources/1/0").exists() != planned
