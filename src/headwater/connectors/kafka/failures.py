"""What Spark says of messages that are gone, or were not taken by Kafka, in our words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwater.connectors.kafka import errors
from headwater.errors import Entry

_WRITE_SENTENCES = (
    (
        errors.KAFKA_WRITE_FAILED,
        r"Expiring (?P<count>\d+) record\(s\) for (?P<topic>[\w.-]+)-(?P<partition>\d+):(?P<ms>\d+) ms",
        "no answer came for {ms} ms, with messages for partition {partition} of `{topic}` under way",
    ),
    (
        errors.KAFKA_SINK_TOPIC_NOT_FOUND,
        r"Topic (?P<topic>[\w.-]+) not present in metadata after (?P<ms>\d+) ms",
        "no broker told of a topic `{topic}` for {ms} ms",
    ),
    (
        errors.KAFKA_SINK_TOPIC_NOT_FOUND,
        r"Partition (?P<partition>\d+) of topic (?P<topic>[\w.-]+) with partition count (?P<count>\d+) "
        r"is not present in metadata",
        "`{topic}` has no partition {partition}: it has {count}, from 0 on",
    ),
    (
        errors.KAFKA_MESSAGE_TOO_LARGE,
        r"The message is (?P<bytes>\d+) bytes when serialized which is larger than (?P<most>\d+)",
        "it has {bytes} bytes, and the producer sends {most} at most",
    ),
    (
        errors.KAFKA_MESSAGE_TOO_LARGE,
        r"The request included a message larger than the max message size",
        "the broker takes none as large",
    ),
    (errors.KAFKA_TOPIC_NULL, r"null topic present in the data", "its column is null"),
)

# In the stack.
_WRITER = re.compile(r"\.kafka010\.Kafka\w*Writ")
_SAID = re.compile(r"org\.apache\.kafka\.common\.(?:errors\.\w+|KafkaException): ([^\n]+)")


_PARTITION = r"(?P<topic>[\w.-]+)-(?P<partition>\d+)"
_READ_SENTENCES = (
    (
        errors.KAFKA_DATA_LOSS,
        rf"Could not read records in offset \[(?P<first>\d+), (?P<end>\d+)\) "
        rf"for topic partition {_PARTITION}",
        "offsets from {first} on of partition {partition} of `{topic}`, in a batch that goes up to {last}",
    ),
    (
        errors.KAFKA_DATA_LOSS,
        rf"Starting offset for {_PARTITION} was (?P<first>\d+) but consumer reset to (?P<end>\d+)",
        "{range} of partition {partition} of `{topic}`",
    ),
    (
        errors.KAFKA_DATA_LOSS,
        rf"Added partition {_PARTITION} starts from (?P<end>\d+) instead of 0",
        "offsets 0 to {last} of the new partition {partition} of `{topic}`",
    ),
    (
        errors.KAFKA_TOPIC_OFFSETS_RESET,
        rf"Partition {_PARTITION} offset was changed from (?P<first>\d+) to (?P<end>\d+)",
        "partition {partition} of `{topic}` was read up to offset {first}, and ends at {end} now",
    ),
    (
        errors.KAFKA_TOPIC_DELETED,
        r"Partitions (?:\w+\()?(?P<partitions>[\w.,: -]+?)\)? have been deleted",
        "Kafka has no {partitions} any more",
    ),
    (
        errors.KAFKA_TOPIC_DELETED,
        r"Cannot find initial offsets for partitions (?:\w+\()?(?P<partitions>[\w.,: -]+?)\)?\. They may",
        "Kafka has no {partitions} any more",
    ),
)
_GONE = re.compile(r"UnknownTopicOrPartitionException: ([^\n]*?)\.?\n")
_NO_ANSWER = re.compile(
    r"(?:common\.errors\.TimeoutException: |TimeoutException: (?=Cannot fetch record))([^\n]*?)\.?\n"
)


def kafka_write_failure(text: str) -> tuple[Entry, str] | None:
    """The entry for what a failure says of messages that were not taken, and what it says in words."""
    said = _SAID.findall(text) if _WRITER.search(text) else []
    # The innermost cause stands last.
    other = (errors.KAFKA_WRITE_FAILED, said[-1].strip().rstrip(".")) if said else None
    return _in_words(text, _WRITE_SENTENCES) or other


def kafka_failure(text: str) -> tuple[Entry, str] | None:
    """The entry for what a failure says of lost messages, and topic, partition and offsets in words."""
    lost = _in_words(text, _READ_SENTENCES)
    # It may be Spark's writer that failed, not its reader; not every text comes with the stack.
    if lost or _WRITER.search(text) or _in_words(text, _WRITE_SENTENCES):
        return lost
    for entry, pattern in ((errors.KAFKA_TOPIC_DELETED, _GONE), (errors.KAFKA_TIMEOUT, _NO_ANSWER)):
        found = pattern.search(text)
        if found:
            return entry, found[1].strip()
    return None


def _in_words(text: str, sentences: Sequence[tuple[Entry, str, str]]) -> tuple[Entry, str] | None:
    for entry, pattern, words in sentences:
        found = re.search(pattern, text)
        if found:
            parts = {key: value.strip() for key, value in found.groupdict().items() if value}
            first, last = int(parts.get("first", 0)), int(parts.get("end", 0)) - 1
            # Where there was nothing left, Kafka leads a reader back to the beginning.
            lost = f"offsets {first} to {last}" if last >= first else f"offset {first} and all behind it"
            return entry, words.format(**{**parts, "last": last, "range": lost})
    return None
