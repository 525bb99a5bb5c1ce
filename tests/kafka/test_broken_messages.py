"""Many messages, three in a hundred broken in ten ways: none is lost, none comes twice."""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet  # type: ignore[import-untyped]
import pytest

from headwater.api.quarantine import show
from headwater.checkpoint import LocalStore, SinkLog
from headwater.dev import Broker
from headwater.spec.paths import local_path
from tests.messages import Message, fresh_topic, produce
from tests.pipelines import run_until_idle
from tests.processes import headwater

MESSAGES = 100_000 if os.environ.get("HEADWATER_SOAK") else 20_000
BATCH = MESSAGES * 15 // 100
PARTITIONS = 3
LARGE = 2_000

PIPELINE = """
name: clicks
sources:
  clicks:
    connector: kafka
    bootstrap_servers: {servers}
    topic: {topic}
    start: earliest
    format: json
    schema: {{id: bigint not null, page: string, cost: 'decimal(10,2)', tags: array<int>}}
    bad_rows: quarantine
    max_row_bytes: {large}
    max_rows_per_batch: {batch}
tables:
  ids: SELECT id FROM clicks
sinks:
  clicks: {{reads: ids, connector: files, path: out, format: parquet}}
"""

WAYS: dict[str, tuple[str, Callable[[int], bytes | None]]] = {
    "no JSON": ("malformed", lambda n: b"nonsense %d" % n),
    "cut off": ("malformed", lambda n: b'{"id": %d, "page": "a' % n),
    "a list": ("malformed", lambda n: b"[%d, 2]" % n),
    "no text": ("malformed", lambda n: b'\xff\xfe{"id": %d' % n),
    "a word for a number": ("type_mismatch", lambda n: b'{"id": "n%d"}' % n),
    "a number too large": ("type_mismatch", lambda n: b'{"id": %d, "cost": 12345678901.5}' % n),
    "a word in a list": ("type_mismatch", lambda n: b'{"id": %d, "tags": [1, "x"]}' % n),
    "no id": ("missing_value", lambda n: b'{"page": "/%d"}' % n),
    "null for an id": ("missing_value", lambda n: b'{"id": null, "page": "/%d"}' % n),
    "too_large": ("too_large", lambda n: b'{"id": %d, "page": "%s"}' % (n, b"x" * LARGE)),
}


def messages() -> Iterator[tuple[bytes | None, str]]:
    """Every message with the reason for which it is bad; an empty one for the good."""
    chance = random.Random(7)
    ways = list(WAYS.values())
    for number in range(MESSAGES):
        if chance.random() < 0.03:
            reason, make = chance.choice(ways)
            yield make(number), reason
        else:
            tags = f', "tags": [{number % 7}]' if number % 3 else ""
            yield f'{{"id": {number}, "page": "/{number % 9}", "cost": {number % 100}.25{tags}}}'.encode(), ""


def committed_ids(folder: Path) -> Counter[int]:
    """The ids in the files that the sink's log names."""
    found: Counter[int] = Counter()
    for file in SinkLog(LocalStore(folder)).files():
        path = local_path(file.path)
        assert path is not None
        if file.size:
            found.update(pyarrow.parquet.read_table(path)["id"].to_pylist())
    return found


@pytest.mark.feature("K1.1")
@pytest.mark.usefixtures("context")
def test_every_good_message_once_and_every_broken_one_once_in_quarantine(
    tmp_path: Path, broker: Broker
) -> None:
    sent = list(messages())
    topic = fresh_topic(broker.servers, PARTITIONS)
    values = [Message(value, partition=number % PARTITIONS) for number, (value, _) in enumerate(sent)]
    places = produce(broker.servers, topic, values)
    bad = Counter(
        (reason, topic, *place, value) for (value, reason), place in zip(sent, places, strict=True) if reason
    )
    good = Counter(json.loads(value or b"")["id"] for value, reason in sent if not reason)
    text = PIPELINE.format(servers=broker.servers, topic=topic, large=LARGE, batch=BATCH)
    file = tmp_path / "clicks.yml"
    file.write_text(text)

    # Killed in the middle: both queries have committed something, and neither all of it.
    with headwater(tmp_path, "run", file, "--json") as program:
        commits = tmp_path / ".headwater" / "checkpoints"
        program.until(
            lambda: all(
                (commits / name / "commits" / "1").exists() for name in ("clicks", "quarantine.clicks")
            )
        )
        os.kill(program.pid, signal.SIGKILL)
        program.process.wait()
    ended = run_until_idle(file)
    assert ended.exit_code == 0
    assert set(ended.queries) == {"clicks", "quarantine.clicks"}
    query = ended.queries["clicks"]
    counts = query.sources["clicks"]
    # Spark's own counts are those of the rows read and written: ours must agree with them.
    assert (counts["read"], counts["good"]) == (query.rows_in, query.rows_out)
    assert 0 < counts["read"] < MESSAGES

    assert committed_ids(tmp_path / "out") == good
    rows = show(file, "clicks", everything=True)
    assert Counter((row.reason, row.topic, row.partition, row.offset, row.value) for row in rows) == bad
    assert sum(bad.values()) > MESSAGES * 0.025
    assert {reason for reason, *_ in bad} == {reason for reason, _ in WAYS.values()}
