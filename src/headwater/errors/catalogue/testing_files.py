"""What can be wrong with a test file, and with the choice of tests."""

from headwater.errors.problems import Entry

TEST_FILE = Entry(
    "HW-TEST-FILE",
    "{file} is not a test file: it has neither `pipeline:` nor `tests:`.",
    "Name a test file, or begin this one with `pipeline: my_pipeline.yml` and put the tests under `tests:`.",
)
TEST_FILE_TOO_LARGE = Entry(
    "HW-TEST-FILE-TOO-LARGE",
    "The test file {file} holds more than is read of one: {limit}.",
    "Move long lists of rows into files beside it, `feed: {{words: words.jsonl}}`, or split the file.",
)
TEST_PIPELINE = Entry(
    "HW-TEST-PIPELINE",
    "There is no pipeline file {file}.",
    "{hint}",
)
TEST_NONE = Entry(
    "HW-TEST-NONE",
    "There is nothing in `{key}`.",
    "Add a test under it: `{example}`.",
)
TEST_TWO_ACTIONS = Entry(
    "HW-TEST-TWO-ACTIONS",
    "This step has two actions, `{first}` and `{second}`.",
    "Make two steps of it: begin the second one with `- {second}`.",
)
TEST_STEP_EMPTY = Entry(
    "HW-TEST-STEP-EMPTY",
    "This step is empty.",
    "Take it out, or say what happens: {known}.",
)
TEST_STEP_WORD = Entry(
    "HW-TEST-STEP-WORD",
    "`{word}` is not a step.",
    "{hint}",
)
TEST_ROW = Entry(
    "HW-TEST-ROW",
    "A row of {where} is {kind}.",
    "Write its columns with their values, `{{word: owl, n: 1}}`, or its values in the order of the columns, "
    "`[owl, 1]`.",
)
TEST_ROW_FILE = Entry(
    "HW-TEST-ROW-FILE",
    "There is no file {file}, whose rows {where} takes.",
    "{hint}",
)
TEST_PATH = Entry(
    "HW-TEST-PATH",
    "There is no file and no folder {path}.",
    "{hint}",
)
TEST_NOT_FOUND = Entry(
    "HW-TEST-NOT-FOUND",
    "There is no test file in {where}.",
    "Test files are named `test_*.yml` or `*_test.yml` and hold `pipeline:` and `tests:`; "
    "name the file or its folder: `headwater test tests/`.",
)
TEST_NOT_CHOSEN = Entry(
    "HW-TEST-NOT-CHOSEN",
    "`-k '{expression}'` chooses none of {count} tests.",
    "{hint}",
)
TEST_SELECTION = Entry(
    "HW-TEST-SELECTION",
    "`-k '{expression}'` can't be read: {says}.",
    "Write words of test names, joined by `and`, `or`, `not` and parentheses: `-k 'late and not crashed'`.",
)
TEST_DRAW = Entry(
    "HW-TEST-DRAW",
    "`--draw {path}` is one picture, and {count} tests are chosen.",
    "Choose one with `-k`, or name a folder: `--draw pictures/`.",
)
TEST_WRITE = Entry(
    "HW-TEST-WRITE",
    "{path} can't be written: {reason}.",
    "Name another place; its folder must be one that this user may write.",
)
