"""Translates Spark's errors about lost Kafka messages and failed writes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwater.connectors.kafka import errors
from headwater.errors import Entry

_WRITE_SENTENCES = (
    (
        errors.KAFKA_WRITE_FAILED,
        r"Expiring (?P<count>\d+) record\(s\) for (?P<topic>[\w.-]+)-(?P<partition>\d+):(?P<ms>\d+) ms",
        "no response within {ms} ms while sending to partition {partition} of `{topic}`",
    ),
    (
        errors.KAFKA_SINK_TOPIC_NOT_FOUND,
        r"Topic (?P<topic>[\w.-]+) not present in metadata after (?P<ms>\d+) ms",
        "topic `{topic}` not found within {ms} ms",
    ),
    (
        errors.KAFKA_SINK_TOPIC_NOT_FOUND,
        r"Partition (?P<partition>\d+) of topic (?P<topic>[\w.-]+) with partition count (?P<count>\d+) "
        r"is not present in metadata",
        "topic `{topic}` has no partition {partition} (number of partitions: {count})",
    ),
    (
        errors.KAFKA_MESSAGE_TOO_LARGE,
        r"The message is (?P<bytes>\d+) bytes when serialized which is larger than (?P<most>\d+)",
        "{bytes} bytes, but the producer sends at most {most}",
    ),
    (
        errors.KAFKA_MESSAGE_TOO_LARGE,
        r"The request included a message larger than the max message size",
        "the broker rejected it",
    ),
    (errors.KAFKA_TOPIC_NULL, r"null topic present in the data", "its topic column is null"),
)

# Found in the stack trace.
_WRITER = re.compile(r"\.kafka010\.Kafka\w*Writ")
_SAID = re.compile(r"org\.apache\.kafka\.common\.(?:errors\.\w+|KafkaException): ([^\n]+)")


_PARTITION = r"(?P<topic>[\w.-]+)-(?P<partition>\d+)"
_READ_SENTENCES = (
    (
        errors.KAFKA_DATA_LOSS,
        rf"Could not read records in offset \[(?P<first>\d+), (?P<end>\d+)\) "
        rf"for topic partition {_PARTITION}",
        "partition {partition} of `{topic}` from offset {first}, in a batch that reads up to offset {last}",
    ),
    (
        errors.KAFKA_DATA_LOSS,
        rf"Starting offset for {_PARTITION} was (?P<first>\d+) but consumer reset to (?P<end>\d+)",
        "partition {partition} of `{topic}`, {range}",
    ),
    (
        errors.KAFKA_DATA_LOSS,
        rf"Added partition {_PARTITION} starts from (?P<end>\d+) instead of 0",
        "new partition {partition} of `{topic}`, offsets 0 to {last}",
    ),
    (
        errors.KAFKA_TOPIC_OFFSETS_RESET,
        rf"Partition {_PARTITION} offset was changed from (?P<first>\d+) to (?P<end>\d+)",
        "partition {partition} of `{topic}` was read up to offset {first}, but now ends at {end}",
    ),
    (
        errors.KAFKA_TOPIC_DELETED,
        r"Partitions (?:\w+\()?(?P<partitions>[\w.,: -]+?)\)? have been deleted",
        "missing partitions: {partitions}",
    ),
    (
        errors.KAFKA_TOPIC_DELETED,
        r"Cannot find initial offsets for partitions (?:\w+\()?(?P<partitions>[\w.,: -]+?)\)?\. They may",
        "missing partitions: {partitions}",
    ),
)
_GONE = re.compile(r"UnknownTopicOrPartitionException: ([^\n]*?)\.?\n")
_NO_ANSWER = re.compile(
    r"(?:common\.errors\.TimeoutException: |TimeoutException: (?=Cannot fetch record))([^\n]*?)\.?\n"
)


def kafka_write_failure(text: str) -> tuple[Entry, str] | None:
    """The entry for a failed write, and its cause in words."""
    said = _SAID.findall(text) if _WRITER.search(text) else []
    # The innermost cause is last.
    other = (errors.KAFKA_WRITE_FAILED, said[-1].strip().rstrip(".")) if said else None
    return _in_words(text, _WRITE_SENTENCES) or other


def kafka_failure(text: str) -> tuple[Entry, str] | None:
    """The entry for lost messages, with topic, partition and offsets in words."""
    lost = _in_words(text, _READ_SENTENCES)
    # Spark's writer may have failed, not its reader; not every text includes the stack trace.
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
            parts |= {key: f"{int(parts[key]):,}" for key in ("ms", "bytes", "most") if key in parts}
            first, last = int(parts.get("first", 0)), int(parts.get("end", 0)) - 1
            # If nothing was left, Kafka resets a reader to the beginning.
            lost = f"offsets {first} to {last}" if last >= first else f"offset {first} and later"
            return entry, words.format(**{**parts, "last": last, "range": lost})
    return None
