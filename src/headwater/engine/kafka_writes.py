"""What Kafka's producer says when messages were not taken, in our words."""

from __future__ import annotations

import re

from headwater.errors import Entry
from headwater.errors.catalogue.kafka_sink import (
    KAFKA_NO_SUCH_TOPIC,
    KAFKA_NOT_TAKEN,
    KAFKA_NULL_TOPIC,
    KAFKA_TOO_LARGE,
)

_SENTENCES = (
    (
        KAFKA_NOT_TAKEN,
        r"Expiring (?P<count>\d+) record\(s\) for (?P<topic>[\w.-]+)-(?P<partition>\d+):(?P<ms>\d+) ms",
        "no answer came for {ms} ms, with messages for partition {partition} of `{topic}` under way",
    ),
    (
        KAFKA_NO_SUCH_TOPIC,
        r"Topic (?P<topic>[\w.-]+) not present in metadata after (?P<ms>\d+) ms",
        "no broker told of a topic `{topic}` for {ms} ms",
    ),
    (
        KAFKA_NO_SUCH_TOPIC,
        r"Partition (?P<partition>\d+) of topic (?P<topic>[\w.-]+) with partition count (?P<count>\d+) "
        r"is not present in metadata",
        "`{topic}` has no partition {partition}: it has {count}, from 0 on",
    ),
    (
        KAFKA_TOO_LARGE,
        r"The message is (?P<bytes>\d+) bytes when serialized which is larger than (?P<most>\d+)",
        "it has {bytes} bytes, and the producer sends {most} at most",
    ),
    (
        KAFKA_TOO_LARGE,
        r"The request included a message larger than the max message size",
        "the broker takes none as large",
    ),
    (KAFKA_NULL_TOPIC, r"null topic present in the data", "its column is null"),
)

# In the stack.
_WRITER = re.compile(r"\.kafka010\.Kafka\w*Writ")
_SAID = re.compile(r"org\.apache\.kafka\.common\.(?:errors\.\w+|KafkaException): ([^\n]+)")


def in_writer(text: str) -> bool:
    """Whether it was Spark's writer that failed, not its reader; not every text comes with the stack."""
    return _WRITER.search(text) is not None or any(re.search(pattern, text) for _, pattern, _ in _SENTENCES)


def kafka_write_failure(text: str) -> tuple[Entry, str] | None:
    """The entry for what a failure says of messages that were not taken, and what it says in words."""
    for entry, pattern, words in _SENTENCES:
        found = re.search(pattern, text)
        if found:
            return entry, words.format(**found.groupdict())
    said = _SAID.findall(text) if in_writer(text) else []
    # The innermost cause stands last.
    return (KAFKA_NOT_TAKEN, said[-1].strip().rstrip(".")) if said else None
