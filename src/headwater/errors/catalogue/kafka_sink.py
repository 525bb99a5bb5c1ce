"""What can go wrong with rows on their way into Kafka."""

from headwater.errors.problems import Entry

KAFKA_NO_VALUE = Entry(
    "HW-KAFKA-NO-VALUE",
    "The rows of the sink `{name}` have no column `value`, and no key says what a message holds.",
    "Write `value: json` for all columns as JSON, or `value: {column}` for one; or select one as `{cast}`.",
)
KAFKA_NO_TOPIC = Entry(
    "HW-KAFKA-NO-TOPIC",
    "Nothing says which topic the sink `{name}` writes to.",
    "Write `topic: …`, or `topic_column: …` for a column that names the topic of each row.",
)
KAFKA_UNKNOWN_COLUMN = Entry(
    "HW-KAFKA-UNKNOWN-COLUMN",
    "The sink `{name}` takes the {part} of a message from the column `{column}`, which its rows don't have.",
    "{hint}",
)
KAFKA_COLUMN_TYPE = Entry(
    "HW-KAFKA-COLUMN-TYPE",
    "The {part} of a message is {wanted}, and the column `{column}` that the sink `{name}` takes it from is "
    "{type}.",
    "Select it as `{cast}`.",
)
KAFKA_AVRO_NAME = Entry(
    "HW-KAFKA-AVRO-NAME",
    "Avro has no field with the name `{column}`, a column of the sink `{name}`: letters, digits and _ only.",
    "Select it under another name, such as `{meant}`.",
)
KAFKA_AVRO_FIELD = Entry(
    "HW-KAFKA-AVRO-FIELD",
    "The Avro schema of the sink `{name}` does not fit its columns: {says}.",
    "{hint}",
)
KAFKA_DEDUP_TRIGGER = Entry(
    "HW-KAFKA-DEDUP-TRIGGER",
    "`dedup_header` counts the rows of a batch, and the sink `{name}` has none with `trigger: {trigger}`.",
    "Leave `dedup_header` out, or use a trigger with batches, such as `every 1 second`.",
)
COMPLETE_APPENDED = Entry(
    "HW-COMPLETE-APPENDED",
    "In complete mode the sink `{sink}` ({connector}) gets the whole result with each batch, and adds all "
    "of it to what is there.",
    "Use `mode: update`, which writes only what has changed; readers take the last message of each key.",
)
BATCH_NEEDS_APPEND = Entry(
    "HW-BATCH-NEEDS-APPEND",
    "A batch run would add its rows to {place}, where the stream of the sink `{sink}` writes, too.",
    "If that is what you want: `headwater run --batch --append`.",
)
KAFKA_NOT_TAKEN = Entry(
    "HW-KAFKA-NOT-TAKEN",
    "Kafka did not take the messages of the query `{sink}`: {says}.",
    "See whether the brokers run, then start again: the batch is written again as a whole. To wait longer "
    "for them, set `kafka.delivery.timeout.ms` under `options`.",
    retry=True,
)
KAFKA_NO_SUCH_TOPIC = Entry(
    "HW-KAFKA-NO-SUCH-TOPIC",
    "The query `{sink}` can't write to Kafka: {says}.",
    "Make the topic, or mend `topic`, `topic_column` or `partition`; and see whether the brokers run. A "
    "later start writes the batch again.",
    retry=True,
)
KAFKA_TOO_LARGE = Entry(
    "HW-KAFKA-TOO-LARGE",
    "A message of the query `{sink}` is too large for Kafka: {says}.",
    "Raise `kafka.max.request.size` under `options`, and `max.message.bytes` of the topic; or write less "
    "into a message with `columns`.",
)
KAFKA_NULL_TOPIC = Entry(
    "HW-KAFKA-NULL-TOPIC",
    "A row of the query `{sink}` names no topic: {says}.",
    "Leave such rows out, or give them a topic: `coalesce(topic, 'others') AS topic`.",
)
