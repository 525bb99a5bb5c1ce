"""What can go wrong with a test: names that the pipeline does not have, rows that don't fit, Spark."""

from headwater.errors.problems import Entry

TEST_SPARK_VERSION = Entry(
    "HW-TEST-SPARK-VERSION",
    "Tests with scripted streams can't control Spark {version}.",
    'Install a Spark that they know: `pip install "pyspark>=4.1,<4.2"`.',
)
TEST_UNKNOWN_SOURCE = Entry(
    "HW-TEST-UNKNOWN-SOURCE",
    "The test names `{name}`, which is no source of the pipeline.",
    "{hint}",
)
TEST_UNKNOWN_STATIC = Entry(
    "HW-TEST-UNKNOWN-STATIC",
    "`given:` names `{name}`, which is no static source of the pipeline.",
    "{hint}",
)
TEST_FEEDS_STATIC = Entry(
    "HW-TEST-FEEDS-STATIC",
    "The test feeds `{name}`, which is static: it has the same rows in every batch.",
    "Give its rows by `given: {{{name}: [...]}}` at the top of the file or of the test.",
)
TEST_GIVES_STREAM = Entry(
    "HW-TEST-GIVES-STREAM",
    "`given:` names `{name}`, which is a stream: its rows come batch by batch.",
    "Feed it in a step: `- feed: {{{name}: [...]}}`.",
)
TEST_NOT_GIVEN = Entry(
    "HW-TEST-NOT-GIVEN",
    "The static source `{name}` has no rows in this test.",
    "Write `given: {{{name}: [...]}}`, or `given: {{{name}: real}}` to read the one that is declared.",
)
TEST_UNKNOWN_SINK = Entry(
    "HW-TEST-UNKNOWN-SINK",
    "The test names `{name}`, which is no sink of the pipeline.",
    "{hint}",
)
TEST_BAD_ROW = Entry(
    "HW-TEST-BAD-ROW",
    "A row of `{name}` does not fit{column}: {says}.",
    "Its columns are: {columns}.",
)
TEST_COLUMN_TWICE = Entry(
    "HW-TEST-COLUMN-TWICE",
    "The rows of `{name}` have two columns named `{column}`, and a test tells columns by their names.",
    "Give one of them another name by AS.",
)
TEST_BAD_TIME = Entry(
    "HW-TEST-BAD-TIME",
    "`{key}` is no time: {says}.",
    "Write 12:07, 12:07:30 or 2026-01-01 12:07.",
)
TEST_BAD_DURATION = Entry(
    "HW-TEST-BAD-DURATION",
    "The clock can't be advanced by `{written}`: {says}.",
    "Write `advance: 2 hours`.",
)
TEST_NOT_RUNNING = Entry(
    "HW-TEST-NOT-RUNNING",
    "The step `{step}` needs running queries, and they are stopped.",
    "Put a `start` step before it.",
)
TEST_HAS_FAILED = Entry(
    "HW-TEST-HAS-FAILED",
    "The query of the sink `{name}` has failed in an earlier step, as expected, and does not run.",
    "Put a `restart` or a `change_to` before this step.",
)
TEST_RUNNING = Entry(
    "HW-TEST-RUNNING",
    "The step `start` finds the queries running.",
    "Take it out, or put a `stop` step before it.",
)
TEST_NO_READ = Entry(
    "HW-TEST-NO-READ",
    "The sink `{name}` is kept real, and the {connector} connector can't read back what it wrote.",
    'Say how: `sinks: {{{name}: {{read: "checks.py:read"}}}}`, a function of the Spark session.',
)
TEST_READ_FAILED = Entry(
    "HW-TEST-READ-FAILED",
    "The real sink `{name}` can't be read back: {says}.",
    "Mend what reads it; the function of a `read:` gets the Spark session and returns a DataFrame.",
)
TEST_STUCK = Entry(
    "HW-TEST-STUCK",
    "The query of the sink `{name}` did not come to rest: it is still in a batch after {limit}.",
    "Look for a loop or a wait in your own functions; `--limit` allows a batch more time.",
)
TEST_STATE = Entry(
    "HW-TEST-STATE",
    "The state of the sink `{name}` can't be read: {says}.",
    "Expect the number of its rows (`state: {{{name}: 2}}`), or name a part of it.",
)
TEST_STATE_PART = Entry(
    "HW-TEST-STATE-PART",
    "It is not clear which state of the sink `{name}` is meant; its operators with state are: {parts}.",
    "Name one, and of a join a side: `state: {{{name}: {{{first}: [...]}}}}`.",
)
TEST_QUERY_NAME = Entry(
    "HW-TEST-SEVERAL-SINKS",
    "`{check}` does not say which sink it is about, and the queries differ: {names}.",
    "Write `{check}: {{{first}: …}}`.",
)
