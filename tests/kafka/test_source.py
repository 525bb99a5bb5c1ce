"""The Kafka source on a real broker: what is read, from where, and how much at once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.api.check import check
from headwater.dev import Broker
from headwater.errors import PipelineError
from headwater.events import Event
from headwater.runtime.handles import Run
from tests.messages import Message, consume, fresh_topic, produce
from tests.pipelines import batches, rows_of, run_as_batch, run_until_idle, run_while, wait_for, write


def pipeline(servers: str, sources: dict[str, str], head: str = "", sink: str = "format: json") -> str:
    """A pipeline whose sources hold numbers, each written to a folder of its name."""
    lines = [f"name: kafka\n{head}", "sources:"]
    for name, keys in sources.items():
        lines.append(f"  {name}: {{connector: kafka, bootstrap_servers: '{servers}', {keys}}}")
    lines.append("sinks:")
    lines += [f"  {name}: {{reads: {name}, connector: files, path: out/{name}, {sink}}}" for name in sources]
    return "\n".join(lines)


def together(servers: str, sources: dict[str, str], head: str = "") -> str:
    """A pipeline with one query, which writes the numbers of all sources with their names.

    The messages are plain numbers: where they are read is the question here, and not how.
    """
    lines = [f"name: kafka\n{head}", "sources:"]
    for name, keys in sources.items():
        lines.append(f"  {name}: {{connector: kafka, bootstrap_servers: '{servers}', {keys}, format: text}}")
    union = " UNION ALL ".join(f"SELECT '{name}' AS source, int(value) AS n FROM {name}" for name in sources)
    sink = "{reads: every, connector: files, path: out, format: json}"
    return "\n".join([*lines, f"tables:\n  every: {union}", f"sinks:\n  out: {sink}"])


def by_source(spark: SparkSession, folder: Path) -> dict[str, Counter[int]]:
    found: dict[str, Counter[int]] = {}
    for (source, n), count in rows_of(spark, folder, schema="source string, n int").items():
        found.setdefault(source, Counter())[n] = count
    return found


def numbers(spark: SparkSession, folder: Path, name: str) -> Counter[int]:
    found = rows_of(spark, folder / "out" / name, schema="n int")
    return Counter({row[0]: count for row, count in found.items()})


def listed(*wanted: int) -> Counter[int]:
    return Counter(wanted)


@pytest.mark.feature("B4.1")
@pytest.mark.feature("B4.5")
def test_topics_are_chosen_by_name_list_pattern_and_partition(
    spark: SparkSession, tmp_path: Path, broker: Broker
) -> None:
    one = fresh_topic(broker.servers, 2, prefix="choose")
    other = fresh_topic(broker.servers, 1, prefix="choose")
    apart = fresh_topic(broker.servers, 1, prefix="apart", retention_ms="-1")
    produce(broker.servers, one, ["1"], partition=0)
    produce(broker.servers, one, ["2"], partition=1)
    produce(broker.servers, other, ["3"])
    sent = Message(b"4", key=b"k", headers=[("h", b"\x01"), ("h", None)], timestamp=1_700_000_000_123)
    produce(broker.servers, apart, [sent])
    sources = {
        "single": f"topic: {one}",
        "several": f"topic: [{one}, {apart}]",
        "fitting": "topic_pattern: 'choose-.*'",
        "parts": f"partitions: {{{one}: [1], {other}: [0]}}",
    }
    text = together(broker.servers, sources)
    keys = f"connector: kafka, bootstrap_servers: '{broker.servers}', topic: {apart}, format: raw"
    raw_source = f"sources:\n  raw: {{{keys}}}"
    text = text.replace("sources:", raw_source)
    text += "\n  raw: {reads: raw, connector: files, path: raw, format: parquet}"
    assert run_until_idle(write(tmp_path, text)).exit_code == 0
    assert by_source(spark, tmp_path / "out") == {
        "single": listed(1, 2),
        "several": listed(1, 2, 4),
        "fitting": listed(1, 2, 3),
        "parts": listed(2, 3),
    }
    raw = spark.read.parquet(str(tmp_path / "raw"))
    assert raw.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    (row,) = raw.selectExpr("*", "unix_millis(timestamp) AS ms").collect()
    assert (bytes(row.key), bytes(row.value), row.topic, row.partition, row.offset) == (
        b"k",
        b"4",
        apart,
        0,
        0,
    )
    assert (row.ms, row.timestampType) == (1_700_000_000_123, 0)
    assert [tuple(each) for each in row.headers] == [("h", bytearray(b"\x01")), ("h", None)]


HOUR = 3_600_000
MIDNIGHT = 1_767_222_000_000  # 2026-01-01 00:00:00 in Europe/Berlin


@pytest.fixture
def timed(broker: Broker) -> tuple[str, str]:
    """Two topics of two partitions with a message each hour: 0, 1, 2 and 10, 11, 12, and 100 more."""
    names = []
    for base in (0, 100):
        topic = fresh_topic(broker.servers, 2, prefix="timed", retention_ms="-1")
        for partition in (0, 1):
            sent = [
                Message(str(base + 10 * partition + hour).encode(), timestamp=MIDNIGHT + hour * HOUR)
                for hour in range(3)
            ]
            produce(
                broker.servers,
                topic,
                [Message(m.value, partition=partition, timestamp=m.timestamp) for m in sent],
            )
        names.append(topic)
    return names[0], names[1]


@pytest.mark.feature("B4.2")
def test_a_first_start_begins_where_it_is_told(
    spark: SparkSession, tmp_path: Path, broker: Broker, timed: tuple[str, str]
) -> None:
    a, b = timed
    both = f"topic: [{a}, {b}]"
    at = "2026-01-01 01:00:00"
    sources = {
        "all": both,
        "earliest": f"{both}, start: earliest",
        "latest": f"{both}, start: latest",
        "offsets": f'{both}, start: {{offsets: {{{a}: {{"0": 2, "1": latest}}}}, default: latest}}',
        "default": f'{both}, start: {{offsets: {{{a}: {{"0": latest}}, {b}: {{"0": 1, "1": 3}}}}}}',
        "timestamp": f'{both}, start: {{timestamp: "{at}"}}',
        "zoned": f'{both}, start: {{timestamp: "2026-01-01T01:00:00+00:00"}}',
        "by_topic": f'{both}, start: {{timestamp: {{{a}: "{at}"}}, default: latest}}',
        "by_partition": f'{both}, start: {{timestamp: {{{a}: {{"1": "{at}"}}, {b}: "2026-01-01 02:00:00"}}}}',
        "later": f'{both}, start: {{timestamp: "2030-01-01", fallback: latest}}',
    }
    file = write(tmp_path, together(broker.servers, sources, "timezone: Europe/Berlin"))
    assert run_until_idle(file).exit_code == 0
    everything = listed(0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112)
    wanted = {
        "all": everything,
        "earliest": everything,
        "offsets": listed(2),
        "default": listed(10, 11, 12, 101, 102),
        "timestamp": listed(1, 2, 11, 12, 101, 102, 111, 112),
        "zoned": listed(2, 12, 102, 112),
        "by_topic": listed(1, 2, 11, 12),
        "by_partition": listed(0, 1, 2, 11, 12, 102, 112),
    }
    assert by_source(spark, tmp_path / "out") == wanted
    # What was sent since comes to every one of them, and where they were to start counts no more.
    produce(broker.servers, a, ["3"], partition=0)
    later = file.read_text().replace("start: latest", "start: earliest")
    # No partition has a message so late; nobody asks any more.
    file.write_text(later.replace(", fallback: latest", ""))
    found = [each for each in check(file).findings if each.code == "HW-OPTION-IGNORED-AFTER-FIRST-START"]
    assert {each.problem.params["source"] for each in found} == set(sources) - {"all"}
    assert {each.severity for each in found} == {"note"}
    assert run_until_idle(file).exit_code == 0
    assert by_source(spark, tmp_path / "out") == {
        name: wanted.get(name, Counter()) + listed(3) for name in sources
    }


@contextmanager
def flowing(servers: str, topic: str) -> Iterator[None]:
    """Good messages and bad ones by turns, all the time."""
    over = threading.Event()

    def send() -> None:
        number = 0
        while not over.wait(0.05):
            produce(servers, topic, [{"n": number}, "no json"])
            number += 1

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()


@pytest.mark.feature("B4.2", part="all queries of a source begin with the same message")
def test_queries_that_start_one_after_another_begin_with_the_same_message(
    spark: SparkSession, tmp_path: Path, broker: Broker, topic: str
) -> None:
    keys = f"topic: {topic}, schema: {{n: int}}, start: latest, bad_rows: quarantine"
    file = write(tmp_path, pipeline(broker.servers, {"numbers": keys}))
    events: list[Event] = []
    queries = ("numbers", "quarantine.numbers")

    def all_have_read(run: Run) -> None:
        wait_for(lambda: all(any(each.rows_in for each in batches(events, name)) for name in queries), run)

    with flowing(broker.servers, topic):
        run_while(file, all_have_read, events)
    starts = [_noted_start(tmp_path / f".headwater/checkpoints/{name}") for name in queries]
    (begun,) = {start[topic]["0"] for start in starts}
    assert begun > 0
    assert run_until_idle(file).exit_code == 0
    sent = {each.offset: each.value for each in consume(broker.servers, topic) if each.offset >= begun}
    quarantined = spark.read.parquet(str(tmp_path / ".headwater/quarantine/numbers/rows")).select(
        "row.offset"
    )
    assert Counter(row.offset for row in quarantined.collect()) == Counter(
        offset for offset, value in sent.items() if value == b"no json"
    )
    assert numbers(spark, tmp_path, "numbers") == Counter(
        json.loads(value or b"")["n"] for value in sent.values() if value != b"no json"
    )


def _noted_start(checkpoint: Path) -> Any:
    return json.loads((checkpoint / "sources/0/0").read_bytes().partition(b"\n")[2])


@pytest.mark.feature("B4.3")
def test_batches_are_limited_and_divided(
    spark: SparkSession, tmp_path: Path, broker: Broker, topic: str
) -> None:
    produce(broker.servers, topic, [{"n": n} for n in range(10)])
    common = f"topic: {topic}, schema: {{n: int}}"
    sources = {
        "most": f"{common}, max_rows_per_batch: 4",
        "least": f"{common}, min_rows_per_batch: 4, max_rows_per_batch: 8",
        "tasks": f"{common}, min_partitions: 5",
        "rows": f"{common}, max_rows_per_partition: 3",
    }
    events: list[Event] = []
    file = write(tmp_path, pipeline(broker.servers, sources))
    assert run_until_idle(file, events).exit_code == 0

    def sizes(name: str) -> list[int]:
        return [each.rows_in for each in batches(events, name) if each.rows_in]

    assert sizes("most") == [4, 4, 2]
    # Nothing is held back by a run that ends when nothing is left.
    assert sizes("least") == [8, 2]
    assert (sizes("tasks"), sizes("rows")) == ([10], [10])
    assert len(list((tmp_path / "out/tasks").glob("part-*"))) == 5
    assert len(list((tmp_path / "out/rows").glob("part-*"))) == 4
    for name in sources:
        assert numbers(spark, tmp_path, name) == listed(*range(10))


@pytest.mark.feature("B4.3", part="a batch waits for rows, but not for ever")
def test_a_batch_waits_for_rows(spark: SparkSession, tmp_path: Path, broker: Broker, topic: str) -> None:
    produce(broker.servers, topic, [{"n": n} for n in range(10)])
    keys = f"topic: {topic}, schema: {{n: int}}, min_rows_per_batch: 4, max_rows_per_batch: 8"
    file = write(tmp_path, pipeline(broker.servers, {"least": f"{keys}, max_wait: 3 seconds"}))
    events: list[Event] = []
    run_while(file, lambda run: wait_for(lambda: len(batches(events, "least")) == 2, run), events)
    held, waited = batches(events, "least")
    assert (held.rows_in, waited.rows_in) == (8, 2)
    assert _seconds(waited) - _seconds(held) >= 2.5
    assert numbers(spark, tmp_path, "least") == listed(*range(10))


def _seconds(progress: Any) -> float:
    from datetime import datetime

    return datetime.fromisoformat(progress.progress["timestamp"]).timestamp()


@pytest.mark.feature("B4.6")
def test_a_topic_is_read_as_a_batch(
    spark: SparkSession, tmp_path: Path, broker: Broker, timed: tuple[str, str]
) -> None:
    a, _ = timed
    one = f"topic: {a}"
    sources = {
        "whole": one,
        "offsets": f'{one}, start: {{offsets: {{{a}: {{"0": 1}}}}}}, end: {{offsets: {{{a}: {{"1": 2}}}}}}',
        "timestamp": f'{one}, start: {{timestamp: "2026-01-01 01:00:00"}}, end: {{timestamp: "2026-01-01 02:00:00"}}',
        "by_partition": f'{one}, end: {{timestamp: {{{a}: {{"0": "2026-01-01 01:00:00", "1": "2030-01-01"}}}}}}',
    }
    file = write(tmp_path, together(broker.servers, sources, "timezone: Europe/Berlin"))
    run_as_batch(file, tmp_path / "into")
    found = by_source(spark, tmp_path / "into/out")
    assert found == {
        "whole": listed(0, 1, 2, 10, 11, 12),
        "offsets": listed(1, 2, 10, 11),
        "timestamp": listed(1, 11),
        "by_partition": listed(0, 10, 11, 12),
    }
    # A stream joined with the topic as it is now.
    end = f'end: {{offsets: {{{a}: {{"0": 2}}}}}}'
    joined = f"""
name: static
sources:
  clicks: {{connector: kafka, bootstrap_servers: '{broker.servers}', {one}, format: text}}
  names: {{connector: kafka, bootstrap_servers: '{broker.servers}', {one}, format: text, static: true, {end}}}
tables:
  both: SELECT int(value) AS n FROM clicks JOIN names USING (value)
sinks:
  both: {{reads: both, connector: files, path: out/both, format: json}}
"""
    assert run_until_idle(write(tmp_path / "static", joined)).exit_code == 0
    assert numbers(spark, tmp_path / "static", "both") == listed(0, 1, 10, 11, 12)


@pytest.mark.feature("B4.1", part="what is not there is refused before the start")
@pytest.mark.parametrize(
    ("keys", "code", "params"),
    [
        ("topic: TOPICC", "HW-KAFKA-TOPIC-NOT-FOUND", {"hint": "Did you mean `TOPIC`?"}),
        (
            "partitions: {TOPIC: [1]}",
            "HW-KAFKA-PARTITION-NOT-FOUND",
            {"partition": 1, "hint": "Use partition 0, the only one."},
        ),
        ("topic_pattern: 'nothing-fits-.*'", "HW-KAFKA-TOPIC-NOT-FOUND", {}),
        ("topic_pattern: '['", "HW-KAFKA-PATTERN-INVALID", {}),
        ("topic: TOPIC, start: {offsets: {other: {'0': 1}}}", "HW-KAFKA-TOPIC-NOT-READ", {"topic": "other"}),
        (
            "topic: TOPIC, start: {offsets: {TOPIC: {'7': 1}}}",
            "HW-KAFKA-PARTITION-NOT-FOUND",
            {"partition": 7},
        ),
        (
            "topic: TOPIC, start: {offsets: {TOPIC: {'0': 1}}}",
            "HW-KAFKA-OFFSET-OUT-OF-RANGE",
            {"offset": 1, "next": 0},
        ),
        (
            "topic: TOPIC, start: {timestamp: '2030-01-01'}",
            "HW-KAFKA-NO-OFFSET-FOR-TIMESTAMP",
            {"partition": 0},
        ),
    ],
)
def test_what_is_not_there_is_refused_before_the_start(
    spark: SparkSession, tmp_path: Path, broker: Broker, keys: str, code: str, params: dict[str, Any]
) -> None:
    topic = fresh_topic(broker.servers, prefix="refused")
    keys = keys.replace("TOPIC", topic)
    file = write(tmp_path, pipeline(broker.servers, {"numbers": f"{keys}, schema: {{n: int}}"}))
    (found,) = [each for each in check(file).findings if each.is_error]
    assert found.code == code
    expected = {
        key: each.replace("TOPIC", topic) if isinstance(each, str) else each for key, each in params.items()
    }
    assert {key: found.problem.params[key] for key in expected} == expected
    assert found.location.endswith(tuple(f":4:{column}" for column in range(1, 200)))


def test_a_batch_that_could_hold_nothing_is_refused(
    tmp_path: Path, broker: Broker, topic: str, spark: Any
) -> None:
    one = f"topic: {topic}, schema: {{n: int}}"
    for keys, code in (
        (f"{one}, start: latest", "HW-KAFKA-RANGE-EMPTY"),
        (
            f'{one}, start: {{offsets: {{{topic}: {{"0": 5}}}}}}, end: {{offsets: {{{topic}: {{"0": 2}}}}}}',
            "HW-KAFKA-RANGE-REVERSED",
        ),
    ):
        file = write(tmp_path, pipeline(broker.servers, {"numbers": keys}))
        with pytest.raises(PipelineError) as refused:
            run_as_batch(file, tmp_path / "into")
        assert [problem.code for problem in refused.value.problems] == [code]


def test_nobody_answers(
    tmp_path: Path, broker: Broker, spark: SparkSession, make_topic: Callable[..., str]
) -> None:
    """Within seconds, although Kafka's own clients would try for minutes."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for servers, code in (
        (f"127.0.0.1:{port}", "HW-KAFKA-UNREACHABLE"),
        ("no.such.host.invalid:9092", "HW-KAFKA-SETTINGS-INVALID"),
    ):
        file = write(tmp_path, pipeline(servers, {"numbers": "topic: t, schema: {n: int}"}))
        assert [each.code for each in check(file).findings if each.is_error] == [code]
