"""What Spark and Kafka's producer say of lost and unwritten messages, in our words."""

from __future__ import annotations

import pytest

from headwater.connectors.kafka.failures import kafka_failure, kafka_write_failure

_LOST = "[KAFKA_DATA_LOSS.{}] Some data may have been lost because … Reason:\n{}\nSQLSTATE: 22000\n"


@pytest.mark.parametrize(
    ("condition", "sentence", "code", "says"),
    [
        (
            "COULD_NOT_READ_OFFSET_RANGE",
            "Could not read records in offset [10, 20) for topic partition my-clicks-0 with consumer group.",
            "HW-KAFKA-DATA-LOSS",
            "offsets from 10 on of partition 0 of `my-clicks`, in a batch that goes up to 19",
        ),
        (
            "START_OFFSET_RESET",
            "Starting offset for clicks-3 was 5 but consumer reset to 9.",
            "HW-KAFKA-DATA-LOSS",
            "offsets 5 to 8 of partition 3 of `clicks`",
        ),
        (
            "START_OFFSET_RESET",
            "Starting offset for clicks-3 was 23 but consumer reset to 0.",
            "HW-KAFKA-DATA-LOSS",
            "offset 23 and all behind it of partition 3 of `clicks`",
        ),
        (
            "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
            "Added partition clicks-3 starts from 4 instead of 0.",
            "HW-KAFKA-DATA-LOSS",
            "offsets 0 to 3 of the new partition 3 of `clicks`",
        ),
        (
            "PARTITION_OFFSET_CHANGED",
            "Partition clicks-0 offset was changed from 200 to 20.",
            "HW-KAFKA-TOPIC-OFFSETS-RESET",
            "partition 0 of `clicks` was read up to offset 200, and ends at 20 now",
        ),
        (
            "PARTITIONS_DELETED",
            "Partitions Set(clicks-0, clicks-1) have been deleted.",
            "HW-KAFKA-TOPIC-DELETED",
            "Kafka has no clicks-0, clicks-1 any more",
        ),
    ],
)
def test_a_loss_is_named_with_topic_partition_and_offsets(
    condition: str, sentence: str, code: str, says: str
) -> None:
    found = kafka_failure(_LOST.format(condition, sentence))
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
    assert (found[0].code, found[1], found[0].retry) == ("HW-KAFKA-TIMEOUT", says, True)
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
            "no answer came for 120000 ms, with messages for partition 1 of `my-topic.a` under way",
        ),
        (
            "TimeoutException: Topic out-1 not present in metadata after 60000 ms.",
            "HW-KAFKA-SINK-TOPIC-NOT-FOUND",
            "no broker told of a topic `out-1` for 60000 ms",
        ),
        (
            "Partition 9 of topic out with partition count 2 is not present in metadata after 60000 ms.",
            "HW-KAFKA-SINK-TOPIC-NOT-FOUND",
            "`out` has no partition 9: it has 2, from 0 on",
        ),
        (
            "The message is 2000088 bytes when serialized which is larger than 1048576, "
            "which is the value of the max.request.size configuration.",
            "HW-KAFKA-MESSAGE-TOO-LARGE",
            "it has 2000088 bytes, and the producer sends 1048576 at most",
        ),
        (
            "The request included a message larger than the max message size the server will accept.",
            "HW-KAFKA-MESSAGE-TOO-LARGE",
            "the broker takes none as large",
        ),
        (
            "null topic present in the data. Use the topic option for setting a default topic.",
            "HW-KAFKA-TOPIC-NULL",
            "its column is null",
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
