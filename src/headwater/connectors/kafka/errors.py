"""Errors and notices of the Kafka connector."""

from headwater.errors import Entry, name_entries

KAFKA_UNREACHABLE = Entry(
    "Source `{name}`: no Kafka broker at {servers} responded within {seconds} s ({says}).",
    "Check that the broker is running and that `bootstrap_servers` is correct. If the listener uses TLS, set "
    "`tls`; if it requires a login, set `sasl`.",
    retryable=True,
)
KAFKA_REQUEST_FAILED = Entry(
    "Source `{name}`: a request to the Kafka cluster at {servers} failed: {says} ({kind}).",
    "Check the broker logs, fix the cause and restart.",
    retryable=True,
)
KAFKA_AUTHENTICATION_FAILED = Entry(
    "Source `{name}`: authentication at the Kafka cluster {servers} failed: {says}.",
    "Check `sasl` (mechanism, user and password) and `tls` (certificates) against the listener at this port. "
    "Remove the settings that the listener does not use.",
)
KAFKA_SETTINGS_INVALID = Entry(
    "Source `{name}`: the Kafka client rejected the settings: {says}.",
    "Check `bootstrap_servers`, `tls`, `sasl` and all `kafka.` keys under `options`.",
)
KAFKA_KEY_ENCRYPTION_UNSUPPORTED = Entry(
    "Source `{name}`: the private key in `tls` uses PBES2 encryption, which Java supports only from version "
    "19.",
    "Re-encrypt the key with `openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in plain.key -out client.key`, or use "
    "a newer Java.",
)
KAFKA_NOT_AUTHORIZED = Entry(
    "Source `{name}`: not authorized by the Kafka cluster at {servers}: {says}.",
    "Ask the administrator of the cluster for permission to describe and read the topics.",
)
KAFKA_TOPIC_NOT_FOUND = Entry(
    "Source `{name}`: topic {topic} not found in the Kafka cluster at {servers}.", "{hint}"
)
KAFKA_PARTITION_NOT_FOUND = Entry(
    "Source `{name}`: topic `{topic}` has no partition {partition}.",
    "{hint}",
)
KAFKA_TOPIC_NOT_READ = Entry(
    "Source `{name}`: `{key}` contains topic `{topic}`, which the source does not read.",
    "Remove the topic from `{key}`, or add it to the topics of the source.",
)
KAFKA_PATTERN_INVALID = Entry(
    "Source `{name}`: `topic_pattern` is not a valid Java regular expression: {says}.",
    "Correct the pattern. It must match the whole topic name: write `clicks-.*`, not `clicks-*`.",
)
KAFKA_NO_OFFSET_FOR_TIMESTAMP = Entry(
    "Source `{name}`: partition {partition} of `{topic}` has no message at or after the start time {time}.",
    "Use an earlier timestamp, or set `fallback: latest` to start such a partition at its next message.",
)
KAFKA_RECORD_UNREADABLE = Entry(
    "Could not read {file}, the record of {what}: {says}.",
    "Restore the file from a backup, or delete it. {then}.",
)
KAFKA_OFFSET_OUT_OF_RANGE = Entry(
    "Source `{name}`: offset {offset} in `{key}` is out of range for partition {partition} of `{topic}` "
    "({first} to {next}).",
    "Use an offset from {first} to {next}, `earliest` or `latest`.",
)
KAFKA_RANGE_EMPTY = Entry(
    "Source `{name}`: a batch read cannot start at `latest`, because it would read no messages.",
    "Set `start: earliest`, or start at offsets or a timestamp.",
)
KAFKA_RANGE_REVERSED = Entry(
    "Source `{name}`: in partition {partition} of `{topic}`, `start` (offset {start}) is after `end` (offset "
    "{end}).",
    "Correct `start` or `end`.",
)
KAFKA_DATA_LOSS = Entry(
    "Query `{sink}` failed: Kafka deleted messages before the query read them: {says}.",
    "To continue with the remaining messages, set `on_data_loss: warn` on the source and restart. The run "
    "then reports which offsets were lost.",
)
KAFKA_TOPIC_DELETED = Entry(
    "Query `{sink}` failed: a topic that it reads no longer exists: {says}.",
    "Recreate the topic and restart with `on_topic_recreated: earliest`. To continue without it, remove it "
    "from the source and rename the sink, because a checkpoint is bound to its topics.",
)
KAFKA_TIMEOUT = Entry(
    "Query `{sink}` failed: a Kafka broker did not respond in time: {says}.",
    "Check that the brokers are running, then restart. The query resumes from its checkpoint.",
    retryable=True,
)
KAFKA_TOPIC_OFFSETS_RESET = Entry(
    "Query `{sink}` failed: a topic that it reads was deleted and recreated: {says}.",
    "Set `on_topic_recreated: earliest` on the source and restart to read the new topic from the beginning.",
)
KAFKA_ROWS_DELETED = Entry(
    "Query `{sink}`: Kafka deleted offsets {first} to {last} of partition {partition} of `{topic}` before the "
    "query had processed them all{known}.",
    "Increase the retention of the topic (`retention.ms`) or the throughput of the query. Unread messages are "
    "lost.",
)
KAFKA_TOPIC_LOST = Entry(
    "Query `{sink}`: topic `{topic}` no longer exists. Messages of partition {partition} from offset {offset} "
    "on are lost.",
    "Recreate the topic if its deletion was a mistake; `on_topic_recreated` then applies.",
)
KAFKA_TOPIC_RECREATED = Entry(
    "Query `{sink}`: topic `{topic}` was deleted and recreated, so the offsets in the checkpoint are no "
    "longer valid.",
    "Set `on_topic_recreated: earliest` on source `{name}` and restart to read the new topic from the "
    "beginning. Rows that the query already read from the new topic are duplicated.",
)
KAFKA_TOPIC_RECREATED_STOPPED = Entry(
    "Query `{sink}` stopped: topic `{topic}` was deleted and recreated while the query was reading it.",
    "Restart the run. With `on_topic_recreated: earliest`, source `{name}` reads the new topic from the "
    "beginning.",
    retryable=True,
)
KAFKA_TOO_FEW_CORES = Entry(
    "Query `{sink}` stopped: source `{name}` now has {partitions} partitions and needs a core for each, but "
    "cores are available for only {most}.",
    "Restart with more cores (`headwater check` reports how many), or use a trigger with batches, such as "
    "`every 1 second`. No data is lost.",
)
KAFKA_TOPIC_RESET = Entry(
    "Query `{sink}`: topic `{topic}` was deleted and recreated; reading the new topic from the beginning.",
    "Expect duplicates of rows that the query already read from the new topic. The previous checkpoint files "
    "are in {backup}.",
)


# Errors of the sink.

KAFKA_VALUE_MISSING = Entry(
    "Sink `{name}`: the message value is not defined. Its rows have no column `value`, and the key `value` is "
    "not set.",
    "Set `value: json` to write all columns as JSON, or `value: {column}` to write one column; or select "
    "`{cast}`.",
)
KAFKA_TOPIC_MISSING = Entry(
    "Sink `{name}`: no topic is set.",
    "Set `topic`, or set `topic_column` to a column that contains the topic of each row.",
)
KAFKA_COLUMN_NOT_FOUND = Entry("Sink `{name}`: column `{column}` (message {part}) not found.", "{hint}")
KAFKA_COLUMN_TYPE_INVALID = Entry(
    "Sink `{name}`: column `{column}` (message {part}) has type {type}, expected {wanted}.",
    "Select it as `{cast}`.",
)
KAFKA_AVRO_NAME_INVALID = Entry(
    "Sink `{name}`: `{column}` is not a valid Avro field name. Avro allows only letters, digits and `_`.",
    "Select it with a valid name, such as {meant}.",
)
KAFKA_AVRO_FIELD_MISMATCH = Entry(
    "Sink `{name}`: the columns do not match the Avro schema: {says}.", "{hint}"
)
KAFKA_DEDUP_TRIGGER_UNSUPPORTED = Entry(
    "Sink `{name}`: `dedup_headers` needs a trigger with batches and does not support `trigger: {trigger}`.",
    "Remove `dedup_headers`, or use a trigger with batches, such as `every 1 second`.",
)
KAFKA_WRITE_FAILED = Entry(
    "Query `{sink}` failed: Kafka did not accept its messages: {says}.",
    "Check that the brokers are running, then restart; the whole batch is retried. To wait longer for the "
    "brokers, set `kafka.delivery.timeout.ms` under `options`.",
    retryable=True,
)
KAFKA_SINK_TOPIC_NOT_FOUND = Entry(
    "Query `{sink}` failed: could not write to Kafka: {says}.",
    "Create the topic, or correct `topic`, `topic_column` or `partition`, and check that the brokers are "
    "running. Then restart; the batch is retried.",
    retryable=True,
)
KAFKA_MESSAGE_TOO_LARGE = Entry(
    "Query `{sink}` failed: a message is too large for Kafka: {says}.",
    "Increase `kafka.max.request.size` under `options` and `max.message.bytes` of the topic, or write fewer "
    "columns with `columns`.",
)
KAFKA_TOPIC_NULL = Entry(
    "Query `{sink}` failed: a row has no topic: {says}.",
    "Filter out such rows, or set a default topic: `coalesce(topic, 'others') AS topic`.",
)

ENTRIES = name_entries(globals())
