"""What Kafka's producer says, by code and in words."""

from __future__ import annotations

import pytest

from headwater.connectors.kafka.failures import kafka_write_failure


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (
            "TimeoutException: Expiring 3 record(s) for my-topic.a-1:120000 ms has passed since then",
            "HW-KAFKA-NOT-TAKEN",
            "no answer came for 120000 ms, with messages for partition 1 of `my-topic.a` under way",
        ),
        (
            "TimeoutException: Topic out-1 not present in metadata after 60000 ms.",
            "HW-KAFKA-NO-SUCH-TOPIC",
            "no broker told of a topic `out-1` for 60000 ms",
        ),
        (
            "Partition 9 of topic out with partition count 2 is not present in metadata after 60000 ms.",
            "HW-KAFKA-NO-SUCH-TOPIC",
            "`out` has no partition 9: it has 2, from 0 on",
        ),
        (
            "The message is 2000088 bytes when serialized which is larger than 1048576, "
            "which is the value of the max.request.size configuration.",
            "HW-KAFKA-TOO-LARGE",
            "it has 2000088 bytes, and the producer sends 1048576 at most",
        ),
        (
            "The request included a message larger than the max message size the server will accept.",
            "HW-KAFKA-TOO-LARGE",
            "the broker takes none as large",
        ),
        (
            "null topic present in the data. Use the topic option for setting a default topic.",
            "HW-KAFKA-NULL-TOPIC",
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
    assert (found[0].code, found[1]) == ("HW-KAFKA-NOT-TAKEN", "Disconnected from node 1")
    assert kafka_write_failure(f"{said}\tat org.apache.spark.sql.kafka010.KafkaMicroBatchStream.x") is None
    assert kafka_write_failure("java.net.ConnectException: refused") is None
