"""What can be wrong with a file of rows that a test names."""

from headwater.errors.problems import Entry

ROWS_FILE_KIND = Entry(
    "HW-ROWS-FILE-KIND",
    "{file} is no file of rows that can be read: its name ends in {ending}.",
    "Name a .jsonl file (one row a line), a .json file (a list of rows) or a .csv file (with a header).",
)
ROWS_NOT_JSON = Entry(
    "HW-ROWS-NOT-JSON",
    "This is not JSON: {reason}.",
    "{hint}",
)
ROWS_KEY_TWICE = Entry(
    "HW-ROWS-KEY-TWICE",
    'A row gives "{key}" twice.',
    "Take one of them out; a row has one value for each column.",
)
ROWS_NOT_LIST = Entry(
    "HW-ROWS-NOT-LIST",
    "A .json file of rows holds one list, and this one holds {kind}.",
    'Write [{{"word": "owl"}}, …], or one row a line in a file that ends in .jsonl.',
)
ROWS_NOT_ROW = Entry(
    "HW-ROWS-NOT-ROW",
    "A row is expected here, and this is {kind}.",
    'Write an object, such as {{"word": "owl", "n": 1}}, or a list of all values in column order.',
)
ROWS_NO_HEADER = Entry(
    "HW-ROWS-NO-HEADER",
    "{file} has no header: its first line must name the columns.",
    "Begin the file with the names of the columns, such as `at,word`.",
)
ROWS_HEADER = Entry(
    "HW-ROWS-HEADER",
    "The header of {file} {reason}.",
    "Give each column one name of its own, such as `at,word`.",
)
ROWS_CELLS = Entry(
    "HW-ROWS-CELLS",
    "This line has {found} cells, and the header names {wanted} columns.",
    "Give each column one cell: an empty one is null, one with a comma in it stands between double quotes.",
)
ROWS_NOT_CSV = Entry(
    "HW-ROWS-NOT-CSV",
    "This line is not CSV: {reason}.",
    'Put a cell with commas or quotes in it between double quotes, and double the quotes inside: "a ""b""".',
)
