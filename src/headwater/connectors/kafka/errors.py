"""What can go wrong between a Kafka cluster and a source that reads it."""

from headwater.errors import Entry, name_entries

KAFKA_UNREACHABLE = Entry(
    "No Kafka broker at {servers} answered the source `{name}` in {seconds} seconds ({says}).",
    "See whether it runs and whether `servers` is right; a broker that speaks TLS needs `tls`, one that "
    "wants a user needs `sasl`.",
    retry=True,
)
KAFKA_REQUEST_FAILED = Entry(
    "The Kafka cluster at {servers} did not tell the source `{name}` what it asked: {says} ({kind}).",
    "Look into the log of the brokers, and start again when they are well.",
    retry=True,
)
KAFKA_AUTHENTICATION_FAILED = Entry(
    "The Kafka cluster at {servers} does not let the source `{name}` in: {says}.",
    "Check `sasl` (mechanism, user and password) and `tls` (certificates) against what the brokers want at "
    "this port; leave out what they don't ask for.",
)
KAFKA_SETTINGS_INVALID = Entry(
    "Kafka's client does not take the settings of the source `{name}`: {says}.",
    "Check `servers`, `tls`, `sasl` and what `options` has under `kafka.`.",
)
KAFKA_KEY_ENCRYPTION_UNSUPPORTED = Entry(
    "The key in `tls` of the source `{name}` is encrypted in a way (PBES2) that Java before 19 can't undo.",
    "Encrypt it the older way, `openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in plain.key -out client.key`, or "
    "run with a newer Java.",
)
KAFKA_NOT_AUTHORIZED = Entry(
    "The Kafka cluster at {servers} refuses what the source `{name}` asks: {says}.",
    "Ask whoever runs the cluster for the right to describe and to read the topics.",
)
KAFKA_TOPIC_NOT_FOUND = Entry(
    "The Kafka cluster at {servers} has no topic {topic}, which the source `{name}` reads.", "{hint}"
)
KAFKA_PARTITION_NOT_FOUND = Entry(
    "The source `{name}` names partition {partition} of `{topic}`, which has {partitions} (from 0 on).",
    "Name one that there is.",
)
KAFKA_TOPIC_NOT_READ = Entry(
    "The source `{name}` names `{topic}` in `{key}`, and does not read it.",
    "Take it out of `{key}`, or let the source read it.",
)
KAFKA_PATTERN_INVALID = Entry(
    "The `pattern` of the source `{name}` is no regular expression of Java: {says}.",
    "Mend it; it has to match the whole name of a topic, so write `clicks-.*`, not `clicks-*`.",
)
KAFKA_NO_OFFSET_FOR_TIMESTAMP = Entry(
    "The source `{name}` starts at {time}, and partition {partition} of `{topic}` has no message since.",
    "Write an earlier time, or `none_after: latest` to start such a partition with its next message.",
)
KAFKA_RECORD_UNREADABLE = Entry(
    "The note of {what}, {file}, can't be read: {says}.",
    "It was written by another version of Headwater or damaged; put it back from a backup, or move it away: "
    "{then}.",
)
KAFKA_OFFSET_OUT_OF_RANGE = Entry(
    "`{key}` of the source `{name}` names offset {offset} of partition {partition} of `{topic}`, which has "
    "messages from offset {first} on and gives the next one offset {next}.",
    "Write an offset from {first} to {next}, or `earliest` or `latest`.",
)
KAFKA_RANGE_EMPTY = Entry(
    "The source `{name}` is read as finished data and starts at `latest`, where nothing is.",
    "Write `start: earliest`, offsets or a time.",
)
KAFKA_RANGE_REVERSED = Entry(
    "The source `{name}` starts at offset {start} of partition {partition} of `{topic}` and ends before, at "
    "{end}.",
    "Mend `start` or `end`.",
)
KAFKA_DATA_LOSS = Entry(
    "The query `{sink}` stopped, because Kafka no longer has what it was to read next: {says}.",
    "Nothing was skipped. Write `on_data_loss: warn` and start again to go on with what is left; the loss is "
    "then named.",
)
KAFKA_TOPIC_DELETED = Entry(
    "A topic that the query `{sink}` reads is gone: {says}.",
    "Make it again and start again with `on_new_topic: earliest`. To go on without it, take it out of the "
    "source and give the sink another name: a checkpoint is bound to its topics.",
)
KAFKA_TIMEOUT = Entry(
    "The query `{sink}` waited for a Kafka broker for too long: {says}.",
    "See whether the brokers run, and start again: it goes on from its checkpoint, and nothing is lost.",
    retry=True,
)
KAFKA_TOPIC_OFFSETS_RESET = Entry(
    "A topic that the query `{sink}` reads was deleted and made again: {says}.",
    "Write `on_new_topic: earliest` in the source and start again to read the new topic from its start.",
)
KAFKA_ROWS_DELETED = Entry(
    "The query `{sink}` had not finished offsets {first} to {last} of partition {partition} of `{topic}` "
    "when Kafka deleted them{known}.",
    "What it had not read of them is lost. Let the topic keep messages for longer (`retention.ms`), or the "
    "query read faster.",
)
KAFKA_TOPIC_LOST = Entry(
    "The topic `{topic}` is gone; the query `{sink}` had read partition {partition} up to offset {offset}.",
    "What came after that is lost. A new topic of this name is told from the old one, see `on_new_topic`.",
)
KAFKA_TOPIC_RECREATED = Entry(
    "The topic `{topic}` was deleted and made again, and offsets in the checkpoint of the query `{sink}` are "
    "those of the old one.",
    "Write `on_new_topic: earliest` in the source `{name}` and start again to read the new topic from its "
    "start; rows that came since may come twice.",
)
KAFKA_TOPIC_RECREATED_STOPPED = Entry(
    "The topic `{topic}` was deleted and made again while the query `{sink}` read it.",
    "Start again: the source `{name}` has `on_new_topic: earliest`, and reads the new topic from its start.",
    retry=True,
)
KAFKA_TOO_FEW_CORES = Entry(
    "The topics of `{name}` have {partitions} partitions now; the query `{sink}` keeps a core for each, and "
    "there are cores for {most}: it would wait for ever and give nothing.",
    "Start it again with more cores; the check before the start says how many. Nothing is lost. Or use a "
    "trigger with batches, such as `every 1 second`.",
)
KAFKA_TOPIC_RESET = Entry(
    "The topic `{topic}` was deleted and made again: the query `{sink}` reads the new one from its start.",
    "Rows of the new topic that it had read already come twice. The checkpoint as it was is in {backup}.",
)


# What can go wrong with rows on their way into Kafka.

KAFKA_VALUE_MISSING = Entry(
    "The rows of the sink `{name}` have no column `value`, and no key says what a message holds.",
    "Write `value: json` for all columns as JSON, or `value: {column}` for one; or select one as `{cast}`.",
)
KAFKA_TOPIC_MISSING = Entry(
    "Nothing says which topic the sink `{name}` writes to.",
    "Write `topic: …`, or `topic_column: …` for a column that names the topic of each row.",
)
KAFKA_COLUMN_NOT_FOUND = Entry(
    "The sink `{name}` takes the {part} of a message from the column `{column}`, which its rows don't have.",
    "{hint}",
)
KAFKA_COLUMN_TYPE_INVALID = Entry(
    "The {part} of a message is {wanted}, and the column `{column}` that the sink `{name}` takes it from is "
    "{type}.",
    "Select it as `{cast}`.",
)
KAFKA_AVRO_NAME_INVALID = Entry(
    "Avro has no field with the name `{column}`, a column of the sink `{name}`: letters, digits and _ only.",
    "Select it under another name, such as `{meant}`.",
)
KAFKA_AVRO_FIELD_MISMATCH = Entry(
    "The Avro schema of the sink `{name}` does not fit its columns: {says}.", "{hint}"
)
KAFKA_DEDUP_TRIGGER_UNSUPPORTED = Entry(
    "`dedup_header` counts the rows of a batch, and the sink `{name}` has none with `trigger: {trigger}`.",
    "Leave `dedup_header` out, or use a trigger with batches, such as `every 1 second`.",
)
KAFKA_WRITE_FAILED = Entry(
    "Kafka did not take the messages of the query `{sink}`: {says}.",
    "See whether the brokers run, then start again: the batch is written again as a whole. To wait longer "
    "for them, set `kafka.delivery.timeout.ms` under `options`.",
    retry=True,
)
KAFKA_SINK_TOPIC_NOT_FOUND = Entry(
    "The query `{sink}` can't write to Kafka: {says}.",
    "Make the topic, or mend `topic`, `topic_column` or `partition`; and see whether the brokers run. A "
    "later start writes the batch again.",
    retry=True,
)
KAFKA_MESSAGE_TOO_LARGE = Entry(
    "A message of the query `{sink}` is too large for Kafka: {says}.",
    "Raise `kafka.max.request.size` under `options`, and `max.message.bytes` of the topic; or write less "
    "into a message with `columns`.",
)
KAFKA_TOPIC_NULL = Entry(
    "A row of the query `{sink}` names no topic: {says}.",
    "Leave such rows out, or give them a topic: `coalesce(topic, 'others') AS topic`.",
)

ENTRIES = name_entries(globals())
