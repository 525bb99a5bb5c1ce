"""Problems with a test: unknown names, rows that do not match, and Spark."""

from headwater.errors.problems import Entry

TEST_SPARK_UNSUPPORTED = Entry(
    "Test streams do not support Spark {version}.",
    'Install a supported version: `pip install "pyspark>=4.1,<4.3"`.',
)
TEST_NAME_NOT_FOUND = Entry("{where} references unknown {kind} `{name}`.", "{hint}")
TEST_FEED_STATIC = Entry(
    "The test feeds rows to `{name}`, but this source is static.",
    "Set its rows with `given: {{{name}: [...]}}` at the top of the file or of the test.",
)
TEST_GIVEN_STREAM = Entry(
    "`given:` sets rows for `{name}`, but this source is a stream.",
    "Feed the rows in a step: `- feed: {{{name}: [...]}}`.",
)
TEST_ROWS_MISSING = Entry(
    "Static source `{name}` has no rows in this test.",
    "Add `given: {{{name}: [...]}}`, or `given: {{{name}: real}}` to read the declared source.",
)
TEST_ROW_MISMATCH = Entry("Invalid row of `{name}`{column}: {says}.", "Columns: {columns}.")
TEST_COLUMN_DUPLICATE = Entry(
    "`{name}` has two columns named `{column}`, but a test identifies columns by name.",
    "Rename one of them with AS.",
)
TEST_TIME_INVALID = Entry("Invalid time `{key}`: {says}.", "Write 12:07, 12:07:30 or 2026-01-01 12:07.")
TEST_DURATION_INVALID = Entry("Cannot advance the clock by `{written}`: {says}.", "Write `advance: 2 hours`.")
TEST_NOT_RUNNING = Entry(
    "Step `{step}` needs running queries, but they are stopped.", "Add a `start` step before it."
)
TEST_QUERY_FAILED = Entry(
    "Query `{name}` is not running: it failed in an earlier step, as expected.",
    "Add a `restart` or `change_to` step before this step.",
)
TEST_ALREADY_RUNNING = Entry(
    "Step `start`: the queries are already running.", "Remove the step, or add a `stop` step before it."
)
TEST_SINK_UNREADABLE = Entry(
    "Sink `{name}` is set to `real`, but the {connector} connector cannot read back its output.",
    'Add a function that reads it: `sinks: {{{name}: {{read: "checks.py:read"}}}}`. It receives the Spark '
    "session.",
)
TEST_SINK_READ_FAILED = Entry(
    "Could not read back real sink `{name}`: {says}.",
    "Fix the code that reads it. A `read:` function receives the Spark session and returns a DataFrame.",
)
TEST_BATCH_TIMEOUT = Entry(
    "Query `{name}` is still running a batch after {limit}.",
    "Check your own functions for a loop or a wait. To allow more time, set `--batch-timeout`.",
)
TEST_STATE_UNREADABLE = Entry(
    "Could not read the state of sink `{name}`: {says}.",
    "Expect the number of state rows instead (`state: {{{name}: 2}}`), or name one part of the state.",
)
TEST_STATE_AMBIGUOUS = Entry(
    "`state` of sink `{name}` is ambiguous. Its stateful operators: {parts}.",
    "Name one operator, and a side if it is a join: `state: {{{name}: {{{first}: [...]}}}}`.",
)
TEST_SINK_AMBIGUOUS = Entry(
    "`{check}` is ambiguous, because the queries differ: {names}.", "Write `{check}: {{{first}: …}}`."
)


# Problems with a test file, and with the selection of tests.

TEST_FILE_INVALID = Entry(
    "{file} is not a test file: `pipeline:` and `tests:` are missing.",
    "Use a different file, or add `pipeline: my_pipeline.yml` and list the tests under `tests:`.",
)
TEST_FILE_TOO_LARGE = Entry(
    "Test file {file} exceeds the limit of {limit}.",
    "Move long lists of rows into separate files (`feed: {{words: words.jsonl}}`), or split the file.",
)
TEST_PIPELINE_NOT_FOUND = Entry("Pipeline file {file} not found.", "{hint}")
TEST_EMPTY = Entry("`{key}` is empty.", "Add a test under it: `{example}`.")
TEST_STEP_CONFLICT = Entry(
    "This step has two actions, `{first}` and `{second}`.",
    "Split it into two steps; start the second one with `- {second}`.",
)
TEST_STEP_EMPTY = Entry("This step is empty.", "Remove it, or add one of: {known}.")
TEST_UNKNOWN_STEP = Entry("Unknown step `{word}`.", "{hint}")
TEST_ROW_INVALID = Entry(
    "Invalid row in {where}: expected a mapping or a list, got {kind}.",
    "Write the columns with their values, `{{word: owl, n: 1}}`, or the values in column order, `[owl, 1]`.",
)
TEST_ROW_FILE_NOT_FOUND = Entry("Row file {file} not found ({where}).", "{hint}")
TEST_PATH_NOT_FOUND = Entry("{path} not found.", "{hint}")
TEST_FILES_NOT_FOUND = Entry(
    "No test files found in {where}.",
    "Name the file or its directory: `headwater test tests/`. Test files are named `test_*.yml` or "
    "`*_test.yml` and contain `pipeline:` and `tests:`.",
)
TEST_NO_MATCH = Entry("No test matches `-k '{expression}'` ({count} found).", "{hint}")
TEST_SELECTION_INVALID = Entry(
    "Invalid expression `-k '{expression}'`: {says}.",
    "Combine words of test names with `and`, `or`, `not` and parentheses: `-k 'late and not crashed'`.",
)
TEST_DRAWING_CONFLICT = Entry(
    "`--diagram {path}` is a single file, but {count} tests are selected.",
    "Select one test with `-k`, or name a directory: `--diagram diagrams/`.",
)
TEST_OUTPUT_UNWRITABLE = Entry(
    "Could not write {path}: {reason}.", "Choose a path in a directory that this user can write to."
)


# Problems with a row file of a test.

ROWS_FILE_UNSUPPORTED = Entry(
    "Row file {file} has an unsupported extension: {ending}.",
    "Use a .jsonl file (one row per line), a .json file (a list of rows) or a .csv file (with a header).",
)
ROWS_JSON_INVALID = Entry("Invalid JSON: {reason}.", "{hint}")
ROWS_KEY_DUPLICATE = Entry('Duplicate key "{key}" in a row.', "Remove one of the two values.")
ROWS_LIST_INVALID = Entry(
    "A .json row file must contain a list of rows, got {kind}.",
    'Write [{{"word": "owl"}}, …], or use a .jsonl file with one row per line.',
)
ROWS_ROW_INVALID = Entry(
    "Expected a row, got {kind}.",
    'Write an object, such as {{"word": "owl", "n": 1}}, or a list of all values in column order.',
)
ROWS_HEADER_MISSING = Entry(
    "{file} has no header: the first line must name the columns.",
    "Add the column names as the first line, such as `at,word`.",
)
ROWS_HEADER_INVALID = Entry(
    "{file}: the header {reason}.", "Give each column a unique name, such as `at,word`."
)
ROWS_CELLS_MISMATCH = Entry(
    "Wrong number of cells: the header has {wanted}, this line has {found}.",
    "Write one cell per column. Leave a cell empty for null, and put a cell that contains a comma in double "
    "quotes.",
)
ROWS_CSV_INVALID = Entry(
    "Invalid CSV: {reason}.",
    'Put cells that contain commas or quotes in double quotes, and double the quotes inside: "a ""b""".',
)
