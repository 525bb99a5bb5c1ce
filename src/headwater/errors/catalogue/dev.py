"""What can go wrong with a local server for development."""

from headwater.errors.problems import Entry

BROKER_NOT_STARTED = Entry(
    "HW-BROKER-NOT-STARTED",
    "The Kafka broker did not come up: {reason}.",
    "Read {log}; another broker on this folder has to be stopped first, or choose another with `--folder`.",
)
BROKER_ENDED = Entry(
    "HW-BROKER-ENDED",
    "The Kafka broker ended by itself: {reason}.",
    "Read {log}, and start it again with the same `--folder`: what was written is there.",
)
BROKER_FOLDER = Entry(
    "HW-BROKER-FOLDER",
    "The broker's folder {folder} can't be written: {reason}.",
    "Choose one that you may write with `--folder`.",
)
PORT_TAKEN = Entry(
    "HW-PORT-TAKEN",
    "Port {port} on {host} is taken by another program.",
    "Choose another with `--port`, or let a free one be found with `--port 0`; if it is a broker, send to it "
    "with `--servers {host}:{port}`.",
)
KAFKA_CLIENT_MISSING = Entry(
    "HW-KAFKA-CLIENT-MISSING",
    "Topics and messages need the Python package confluent-kafka, which is not installed.",
    "Run `pip install 'headwater[kafka]'`.",
)
BROKER_REFUSED = Entry(
    "HW-BROKER-REFUSED",
    "The broker at {servers} did not {what}: {reason}.",
    "Correct what the sentence names, or look whether the broker runs: `headwater dev kafka` starts one.",
)
DEV_OPTIONS = Entry(
    "HW-DEV-OPTIONS",
    "{says}.",
    "See `headwater dev kafka --help`; `headwater dev kafka --produce events.jsonl --topic events` starts a "
    "broker and fills a topic.",
)
BAD_TOPICS = Entry(
    "HW-BAD-TOPICS",
    "`--topics {text}` can't be read: {says}.",
    "Write names with a number of partitions where it is not 1: `--topics impressions:2,clicks`.",
)
BAD_PRODUCE_RATE = Entry(
    "HW-BAD-PRODUCE-RATE",
    "`--rate {text}` is not a rate: {says}.",
    "Write messages in a time: `--rate 100/s` or `--rate 500/m`.",
)
PRODUCE_FILE = Entry(
    "HW-PRODUCE-FILE",
    "{file} can't be read: {reason}.",
    "Name a file with one message in each line, or `-` for standard input.",
)
