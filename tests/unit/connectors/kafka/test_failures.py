"""What Spark and Kafka's producer say of lost and unwritten messages, in our words."""

from __future__ import annotations

import pytest

from headwater.connectors.kafka.failures import kafka_failure, kafka_write_failure

_LOST = "[KAFKA_DATA_LOSS.{}] Some data may have been lost because … Reason:\n{}\nSQLSTATE: 22000\n"


@pytest.mark.parametrize(
    ("condition", "message", "code", "says"),
    [
        (
            "COULD_NOT_READ_OFFSET_RANGE",
            "Could not read records in offset [10, 20) for topic partition my-clicks-0 with consumer group.",
            "HW-KAFKA-DATA-LOSS",
            "partition 0 of `my-clicks` from offset 10, in a batch that reads up to offset 19",
        ),
        (
            "START_OFFSET_RESET",
            "Starting offset for clicks-3 was 5 but consumer reset to 9.",
            "HW-KAFKA-DATA-LOSS",
            "partition 3 of `clicks`, offsets 5 to 8",
        ),
        (
            "START_OFFSET_RESET",
            "Starting offset for clicks-3 was 23 but consumer reset to 0.",
            "HW-KAFKA-DATA-LOSS",
            "partition 3 of `clicks`, offset 23 and later",
        ),
        (
            "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
            "Added partition clicks-3 starts from 4 instead of 0.",
            "HW-KAFKA-DATA-LOSS",
            "new partition 3 of `clicks`, offsets 0 to 3",
        ),
        (
            "PARTITION_OFFSET_CHANGED",
            "Partition clicks-0 offset was changed from 200 to 20.",
            "HW-KAFKA-TOPIC-OFFSETS-RESET",
            "partition 0 of `clicks` was read up to offset 200, but now ends at 20",
        ),
        (
            "PARTITIONS_DELETED",
            "Partitions Set(clicks-0, clicks-1) have been deleted.",
            "HW-KAFKA-TOPIC-DELETED",
            "missing partitions: clicks-0, clicks-1",
        ),
    ],
)
def test_a_loss_is_named_with_topic_partition_and_offsets(
    condition: str, message: str, code: str, says: str
) -> None:
    found = kafka_failure(_LOST.format(condition, message))
    assert found is not None
    assert (found[0].code, found[1]) == (code, says)


def test_a_topic_that_is_gone() -> None:
    text = (
        "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors."
        "UnknownTopicOrPartitionException: This server does not host this topic-partition.\n\tat …"
    )
    found = kafka_failure(text)
    assert found is not None
    assert (found[0].code, found[1]) == (
        "HW-KAFKA-TOPIC-DELETED",
        "This server does not host this topic-partition",
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment.\n",
            "Timed out waiting for a node assignment",
        ),
        (
            "java.util.concurrent.TimeoutException: Cannot fetch record for offset 5 in 1200 milliseconds\n",
            "Cannot fetch record for offset 5 in 1200 milliseconds",
        ),
    ],
)
def test_a_broker_that_does_not_answer(text: str, says: str) -> None:
    found = kafka_failure(text)
    assert found is not None
    assert (found[0].code, found[1], found[0].retryable) == ("HW-KAFKA-TIMEOUT", says, True)
    # The same words of a writer are told as what they are there.
    assert kafka_failure(f"{text}\tat org.apache.spark.sql.kafka010.KafkaRowWriter.send\n") is None


def test_other_failures_are_none_of_these() -> None:
    assert kafka_failure("java.lang.ArithmeticException: / by zero\n") is None


def test_a_topic_that_nobody_could_write_to_is_none_that_was_read() -> None:
    text = (
        "org.apache.kafka.common.errors.TimeoutException: Topic out not present in metadata after 2000 ms.\n"
        "Caused by: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not "
        "host this topic-partition.\n"
    )
    assert kafka_failure(text) is None


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (
            "TimeoutException: Expiring 3 record(s) for my-topic.a-1:120000 ms has passed since then",
            "HW-KAFKA-WRITE-FAILED",
            "no response within 120,000 ms while sending to partition 1 of `my-topic.a`",
        ),
        (
            "TimeoutException: Topic out-1 not present in metadata after 60000 ms.",
            "HW-KAFKA-SINK-TOPIC-NOT-FOUND",
            "topic `out-1` not found within 60,000 ms",
        ),
        (
            "Partition 9 of topic out with partition count 2 is not present in metadata after 60000 ms.",
            "HW-KAFKA-SINK-TOPIC-NOT-FOUND",
            "topic `out` has no partition 9 (number of partitions: 2)",
        ),
        (
            "The message is 2000088 bytes when serialized which is larger than 1048576, "
            "which is the value of the max.request.size configuration.",
            "HW-KAFKA-MESSAGE-TOO-LARGE",
            "2,000,088 bytes, but the producer sends at most 1,048,576",
        ),
        (
            "The request included a message larger than the max message size the server will accept.",
            "HW-KAFKA-MESSAGE-TOO-LARGE",
            "the broker rejected it",
        ),
        (
            "null topic present in the data. Use the topic option for setting a default topic.",
            "HW-KAFKA-TOPIC-NULL",
            "its topic column is null",
        ),
    ],
)
def test_failures_of_the_producer_have_names(text: str, code: str, says: str) -> None:
    found = kafka_write_failure(f"SparkException: Job aborted\n\tat x\nCaused by: {text}\n\tat y")
    assert found is not None
    assert (found[0].code, found[1]) == (code, says)


def test_other_failures_are_those_of_the_writer_alone() -> None:
    said = "Caused by: org.apache.kafka.common.errors.NetworkException: Disconnected from node 1.\n"
    found = kafka_write_failure(f"{said}\tat org.apache.spark.sql.kafka010.KafkaRowWriter.checkForErrors(x)")
    assert found is not None
    assert (found[0].code, found[1]) == ("HW-KAFKA-WRITE-FAILED", "Disconnected from node 1")
    assert kafka_write_failure(f"{said}\tat org.apache.spark.sql.kafka010.KafkaMicroBatchStream.x") is None
    assert kafka_write_failure("java.net.ConnectException: refused") is None
