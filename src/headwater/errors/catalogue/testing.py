"""What can go wrong with a test: names that the pipeline does not have, rows that don't fit, Spark."""

from headwater.errors.problems import Entry

TEST_SPARK_UNSUPPORTED = Entry(
    "Tests with scripted streams can't control Spark {version}.",
    'Install a Spark that they know: `pip install "pyspark>=4.1,<4.3"`.',
)
TEST_NAME_NOT_FOUND = Entry("{where} names `{name}`, which is no {kind} of the pipeline.", "{hint}")
TEST_FEED_STATIC = Entry(
    "The test feeds `{name}`, which is static: it has the same rows in every batch.",
    "Give its rows by `given: {{{name}: [...]}}` at the top of the file or of the test.",
)
TEST_GIVEN_STREAM = Entry(
    "`given:` names `{name}`, which is a stream: its rows come batch by batch.",
    "Feed it in a step: `- feed: {{{name}: [...]}}`.",
)
TEST_ROWS_MISSING = Entry(
    "The static source `{name}` has no rows in this test.",
    "Write `given: {{{name}: [...]}}`, or `given: {{{name}: real}}` to read the one that is declared.",
)
TEST_ROW_MISMATCH = Entry("A row of `{name}` does not fit{column}: {says}.", "Its columns are: {columns}.")
TEST_COLUMN_DUPLICATE = Entry(
    "The rows of `{name}` have two columns named `{column}`, and a test tells columns by their names.",
    "Give one of them another name by AS.",
)
TEST_TIME_INVALID = Entry("`{key}` is no time: {says}.", "Write 12:07, 12:07:30 or 2026-01-01 12:07.")
TEST_DURATION_INVALID = Entry(
    "The clock can't be advanced by `{written}`: {says}.", "Write `advance: 2 hours`."
)
TEST_NOT_RUNNING = Entry(
    "The step `{step}` needs running queries, and they are stopped.", "Put a `start` step before it."
)
TEST_QUERY_FAILED = Entry(
    "The query of the sink `{name}` has failed in an earlier step, as expected, and does not run.",
    "Put a `restart` or a `change_to` before this step.",
)
TEST_ALREADY_RUNNING = Entry(
    "The step `start` finds the queries running.", "Take it out, or put a `stop` step before it."
)
TEST_SINK_UNREADABLE = Entry(
    "The sink `{name}` is kept real, and the {connector} connector can't read back what it wrote.",
    'Say how: `sinks: {{{name}: {{read: "checks.py:read"}}}}`, a function of the Spark session.',
)
TEST_SINK_READ_FAILED = Entry(
    "The real sink `{name}` can't be read back: {says}.",
    "Mend what reads it; the function of a `read:` gets the Spark session and returns a DataFrame.",
)
TEST_BATCH_TIMEOUT = Entry(
    "The query of the sink `{name}` did not come to rest: it is still in a batch after {limit}.",
    "Look for a loop or a wait in your own functions; `--limit` allows a batch more time.",
)
TEST_STATE_UNREADABLE = Entry(
    "The state of the sink `{name}` can't be read: {says}.",
    "Expect the number of its rows (`state: {{{name}: 2}}`), or name a part of it.",
)
TEST_STATE_AMBIGUOUS = Entry(
    "It is not clear which state of the sink `{name}` is meant; its operators with state are: {parts}.",
    "Name one, and of a join a side: `state: {{{name}: {{{first}: [...]}}}}`.",
)
TEST_SINK_AMBIGUOUS = Entry(
    "`{check}` does not say which sink it is about, and the queries differ: {names}.",
    "Write `{check}: {{{first}: …}}`.",
)


# What can be wrong with a test file, and with the choice of tests.

TEST_FILE_INVALID = Entry(
    "{file} is not a test file: it has neither `pipeline:` nor `tests:`.",
    "Name a test file, or begin this one with `pipeline: my_pipeline.yml` and put the tests under `tests:`.",
)
TEST_FILE_TOO_LARGE = Entry(
    "The test file {file} holds more than is read of one: {limit}.",
    "Move long lists of rows into files beside it, `feed: {{words: words.jsonl}}`, or split the file.",
)
TEST_PIPELINE_NOT_FOUND = Entry("There is no pipeline file {file}.", "{hint}")
TEST_EMPTY = Entry("There is nothing in `{key}`.", "Add a test under it: `{example}`.")
TEST_STEP_CONFLICT = Entry(
    "This step has two actions, `{first}` and `{second}`.",
    "Make two steps of it: begin the second one with `- {second}`.",
)
TEST_STEP_EMPTY = Entry("This step is empty.", "Take it out, or say what happens: {known}.")
TEST_UNKNOWN_STEP = Entry("`{word}` is not a step.", "{hint}")
TEST_ROW_INVALID = Entry(
    "A row of {where} is {kind}.",
    "Write its columns with their values, `{{word: owl, n: 1}}`, or its values in the order of the columns, "
    "`[owl, 1]`.",
)
TEST_ROW_FILE_NOT_FOUND = Entry("There is no file {file}, whose rows {where} takes.", "{hint}")
TEST_PATH_NOT_FOUND = Entry("There is no file and no folder {path}.", "{hint}")
TEST_FILES_NOT_FOUND = Entry(
    "There is no test file in {where}.",
    "Test files are named `test_*.yml` or `*_test.yml` and hold `pipeline:` and `tests:`; "
    "name the file or its folder: `headwater test tests/`.",
)
TEST_NO_MATCH = Entry("`-k '{expression}'` chooses none of {count} tests.", "{hint}")
TEST_SELECTION_INVALID = Entry(
    "`-k '{expression}'` can't be read: {says}.",
    "Write words of test names, joined by `and`, `or`, `not` and parentheses: `-k 'late and not crashed'`.",
)
TEST_DRAWING_CONFLICT = Entry(
    "`--draw {path}` is one picture, and {count} tests are chosen.",
    "Choose one with `-k`, or name a folder: `--draw pictures/`.",
)
TEST_OUTPUT_UNWRITABLE = Entry(
    "{path} can't be written: {reason}.",
    "Name another place; its folder must be one that this user may write.",
)


# What can be wrong with a file of rows that a test names.

ROWS_FILE_UNSUPPORTED = Entry(
    "{file} is no file of rows that can be read: its name ends in {ending}.",
    "Name a .jsonl file (one row a line), a .json file (a list of rows) or a .csv file (with a header).",
)
ROWS_JSON_INVALID = Entry("This is not JSON: {reason}.", "{hint}")
ROWS_KEY_DUPLICATE = Entry(
    'A row gives "{key}" twice.', "Take one of them out; a row has one value for each column."
)
ROWS_LIST_INVALID = Entry(
    "A .json file of rows holds one list, and this one holds {kind}.",
    'Write [{{"word": "owl"}}, …], or one row a line in a file that ends in .jsonl.',
)
ROWS_ROW_INVALID = Entry(
    "A row is expected here, and this is {kind}.",
    'Write an object, such as {{"word": "owl", "n": 1}}, or a list of all values in column order.',
)
ROWS_HEADER_MISSING = Entry(
    "{file} has no header: its first line must name the columns.",
    "Begin the file with the names of the columns, such as `at,word`.",
)
ROWS_HEADER_INVALID = Entry(
    "The header of {file} {reason}.", "Give each column one name of its own, such as `at,word`."
)
ROWS_CELLS_MISMATCH = Entry(
    "This line has {found} cells, and the header names {wanted} columns.",
    "Give each column one cell: an empty one is null, one with a comma in it stands between double quotes.",
)
ROWS_CSV_INVALID = Entry(
    "This line is not CSV: {reason}.",
    'Put a cell with commas or quotes in it between double quotes, and double the quotes inside: "a ""b""".',
)
