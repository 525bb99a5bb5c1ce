"""What Spark's Kafka reader says when messages that it was to read are gone, in our words."""

from __future__ import annotations

import re

from headwater.engine.kafka_writes import in_writer
from headwater.errors import Entry
from headwater.errors.catalogue.kafka import (
    KAFKA_DATA_LOSS,
    KAFKA_NO_ANSWER,
    KAFKA_TOPIC_GONE,
    KAFKA_WENT_BACK,
)

_PARTITION = r"(?P<topic>[\w.-]+)-(?P<partition>\d+)"
_SENTENCES = (
    (
        KAFKA_DATA_LOSS,
        rf"Could not read records in offset \[(?P<first>\d+), (?P<end>\d+)\) "
        rf"for topic partition {_PARTITION}",
        "offsets from {first} on of partition {partition} of `{topic}`, in a batch that goes up to {last}",
    ),
    (
        KAFKA_DATA_LOSS,
        rf"Starting offset for {_PARTITION} was (?P<first>\d+) but consumer reset to (?P<end>\d+)",
        "{range} of partition {partition} of `{topic}`",
    ),
    (
        KAFKA_DATA_LOSS,
        rf"Added partition {_PARTITION} starts from (?P<end>\d+) instead of 0",
        "offsets 0 to {last} of the new partition {partition} of `{topic}`",
    ),
    (
        KAFKA_WENT_BACK,
        rf"Partition {_PARTITION} offset was changed from (?P<first>\d+) to (?P<end>\d+)",
        "partition {partition} of `{topic}` was read up to offset {first}, and ends at {end} now",
    ),
    (
        KAFKA_TOPIC_GONE,
        r"Partitions (?:\w+\()?(?P<partitions>[\w.,: -]+?)\)? have been deleted",
        "Kafka has no {partitions} any more",
    ),
    (
        KAFKA_TOPIC_GONE,
        r"Cannot find initial offsets for partitions (?:\w+\()?(?P<partitions>[\w.,: -]+?)\)?\. They may",
        "Kafka has no {partitions} any more",
    ),
)
_UNKNOWN = re.compile(r"UnknownTopicOrPartitionException: ([^\n]*?)\.?\n")
_NO_ANSWER = re.compile(
    r"(?:common\.errors\.TimeoutException: |TimeoutException: (?=Cannot fetch record))([^\n]*?)\.?\n"
)


def kafka_failure(text: str) -> tuple[Entry, str] | None:
    """The entry for what a failure says of lost messages, and topic, partition and offsets in words."""
    for entry, pattern, words in _SENTENCES:
        found = re.search(pattern, text)
        if found:
            parts = {key: value.strip() for key, value in found.groupdict().items() if value}
            if "end" in parts:
                parts["last"] = str(int(parts["end"]) - 1)
                parts["range"] = _range(parts.get("first", "0"), parts["last"])
            return entry, words.format(**parts)
    return None if in_writer(text) else _of_reader(text)


def _range(first: str, last: str) -> str:
    # Where there was nothing left, Kafka leads a reader back to the beginning.
    return f"offsets {first} to {last}" if int(last) >= int(first) else f"offset {first} and all behind it"


def _of_reader(text: str) -> tuple[Entry, str] | None:
    for entry, pattern in ((KAFKA_TOPIC_GONE, _UNKNOWN), (KAFKA_NO_ANSWER, _NO_ANSWER)):
        found = pattern.search(text)
        if found:
            return entry, found[1].strip()
    return None
