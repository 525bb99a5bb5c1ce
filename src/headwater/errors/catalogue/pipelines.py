"""What can be wrong with a declared pipeline."""

from headwater.errors.problems import Entry

UNKNOWN_KEY = Entry(
    "There is no key `{key}` in {where}.",
    "{hint}",
)
MISSING_KEY = Entry(
    "The key `{key}` is missing in {where}.",
    "Add it: {example}.",
)
WRONG_VALUE = Entry(
    "{what} is not right: {says}.",
    "{hint}",
)
BAD_NAME = Entry(
    "`{name}` can't be the name of {where}.",
    "Use the letters a to z, digits and `_`, not beginning with a digit, such as `{suggestion}`.",
)
NAME_TAKEN = Entry(
    "The name `{name}` is declared twice: {first} and {second}.",
    "Rename one of them: sources and tables share one name space, and upper and lower case are the same.",
)
UNKNOWN_TABLE = Entry(
    "`{name}`, which {where} reads, is no source and no table of this pipeline.",
    "{hint}",
)
CYCLE = Entry(
    "These tables read each other in a circle: {cycle}.",
    "Take one of the references out.",
)
SAME_PLACE = Entry(
    "The sink `{second}` writes to {place}, which is the place of the sink `{first}`, or meets it.",
    "Give each sink a place of its own, beside the other; else readers of one see the rows of both.",
)
IN_RUN_FOLDER = Entry(
    "The sink `{sink}` writes to {place}, which meets the run folder {folder}.",
    "Give it a folder outside: the run folder holds checkpoints, and may be removed as a whole.",
)
WRITES_SOURCE = Entry(
    "The sink `{sink}` writes to {place}, which is or lies in what the source `{source}` reads ({read}).",
    "Give the sink a folder or topic of its own; else the pipeline feeds itself.",
)
NO_SINKS = Entry(
    "The pipeline `{name}` has no sink, so there is nothing to run.",
    "Add one under `sinks:`, for instance `{{reads: {table}, connector: console}}`.",
)
TABLE_FORM = Entry(
    "The table `{name}` must have exactly one of `sql`, `python` and `distinct`, and has {has}.",
    'Write `{name}: SELECT …`, `{name}: {{python: "file.py:function"}}` or '
    "`{name}: {{reads: a_table, distinct: [id]}}`.",
)
FUNCTION_FORM = Entry(
    "The function `{name}` must have exactly one of `python` and `class`, and has {has}.",
    'Write `{name}: {{python: "file.py:function"}}` or `{name}: {{class: com.example.Function}}`.',
)
NO_SUCH_JAR = Entry(
    "There is no jar {path}.",
    "{hint}",
)
ONLY_WITH_DISTINCT = Entry(
    "The table `{name}` has `{key}`, which only a table with `distinct` has.",
    "Take it out, or write `{name}: {{reads: a_table, distinct: [id]}}`.",
)
SECRET_NOT_HERE = Entry(
    "{what} can't take a secret: it would be shown in plans, logs or Spark's settings.",
    "Secrets go into `options:` or into keys made for them; use `${{NAME}}` for a plain value.",
)
NO_PIPELINE = Entry(
    "{file} declares no pipeline.",
    'Make one at the top level of the file: `p = headwater.Pipeline("name")`; of a plain PySpark program '
    "`headwater check {file}` tells what can be said.",
)
SEVERAL_PIPELINES = Entry(
    "{file} declares several pipelines: {names}.",
    "Name one: `{file}:{first}`.",
)
NOT_A_PIPELINE = Entry(
    "{file} is not a pipeline file.",
    "Give a .yml, .yaml or .py file.",
)
STATIC_NOT_BATCH = Entry(
    "The source `{name}` can't be static: `{connector}` has no end and no batch form.",
    "Leave `static: true` out, or read files.",
)
NO_SUCH_PATH = Entry(
    "The source `{name}` reads {path}, which is not there.",
    "{hint}",
)
SQL_NOT_A_QUERY = Entry(
    "The SQL of the table `{name}` is no query ({kind}).",
    "A table is a SELECT; statements that change something have no place in a pipeline.",
)
SPARK_SETTING_NAME = Entry(
    "`{key}` is no setting of Spark: their names begin with `spark.`, and others are ignored.",
    "{hint}",
)
SPARK_SETTING_FIXED = Entry(
    "`{key}` is set by Headwater.",
    "{hint}",
)
REMOTE_FOLDER = Entry(
    "The run folder {folder} is not on a local file system.",
    "Name a local folder under `folder:`.",
)


# What can be wrong with a file as such: reading it, its YAML, its `${…}`.

FILE_NOT_THERE = Entry(
    "There is no file {file}.",
    "{hint}",
)
FILE_IS_FOLDER = Entry(
    "{file} is a folder, not a file.",
    "{hint}",
)
FILE_UNREADABLE = Entry(
    "{file} can't be read: {reason}.",
    "Check who may read it: `ls -l {file}`.",
)
NOT_UTF8 = Entry(
    "This line is not UTF-8 text.",
    "Save {file} as UTF-8 in your editor.",
)
YAML_TOO_LARGE = Entry(
    "{file} holds more than {limit}, the most that is read.",
    "Check that it is the right file, its brackets and what `*aliases` repeat; move long SQL or code into "
    "files of their own.",
)
YAML_UNKNOWN_ALIAS = Entry(
    "`*{name}` repeats a value, but no complete value above is marked `&{name}`.",
    'If it is meant as text, quote it: "*{name}".',
)
YAML_DOCUMENTS = Entry(
    "A second YAML document begins here, and a file holds one pipeline.",
    "Move what follows into a file of its own, or take the `---` or `...` line out.",
)
YAML_NOT_MAPPING = Entry(
    "The file must hold keys with values at its top level, and it holds {kind}.",
    "Begin with `name: my_pipeline`.",
)
YAML_TAB = Entry(
    "This line is indented with a tab, which YAML does not allow.",
    "Indent with spaces, the same number on every line of one block.",
)
YAML_INDENT = Entry(
    "The indentation of this line does not fit the lines above it.",
    "Line it up with the keys or list items that it belongs to.",
)
YAML_NO_COLON = Entry(
    "This line is no `key: value`: `{line}`.",
    "Write a colon and a space after the key; indent the line further if it continues the one above.",
)
YAML_NO_SPACE = Entry(
    "There is no space after the colon in `{found}`, so it is not read as a key with a value.",
    "Write `{suggestion}`; quote it if it is meant as one text.",
)
YAML_QUOTE_COLON = Entry(
    "The value holds a colon followed by a space, which begins another key in YAML.",
    "Quote the value: `{suggestion}`; or write it below the key after a `|`.",
)
YAML_QUOTE_COMMA = Entry(
    "Between brackets a comma ends a value, so `{found}` is read as {pieces} values.",
    "Quote the value: `{suggestion}`.",
)
YAML_QUOTE_SUBSTITUTION = Entry(
    "Between brackets `{found}` must be quoted, because YAML reads its `{{` as a new mapping.",
    "Write `{suggestion}`.",
)
YAML_QUOTE_START = Entry(
    "A value that begins with {character} must be quoted.",
    "Write `{suggestion}`.",
)
YAML_KEY_NOT_TEXT = Entry(
    "A key must be text, and here stands {kind}.",
    "Quote the key; if `{{`, `[` or `*` is meant as text, quote the whole value.",
)
YAML_DUPLICATE_KEY = Entry(
    "The key `{key}` stands twice: on line {first} and on line {second}.",
    "Rename or delete one of the two.",
)
YAML_UNSUPPORTED = Entry(
    "{what} are not supported: `{found}`.",
    "Take it out, and write merged keys out; quote it if it is meant as text.",
)
YAML_UNCLOSED = Entry(
    "The {opened} opened here is not closed.",
    "Add the closing {closing}.",
)
YAML_COMMA = Entry(
    "A comma or the closing {closing} is missing before this place.",
    "Add it; quote values that hold brackets, quotes or `#`.",
)
YAML_LIST = Entry(
    "A list item can't begin on the same line as its key.",
    "Put `- …` on the next line, or write the list between brackets: [a, b].",
)
YAML_SYNTAX = Entry(
    "This line can't be read as YAML: `{line}`.",
    "Check indentation, brackets and quotes here and on the line above; quote special characters, and write "
    "`\\\\` for a backslash between double quotes.",
)
VARIABLE_MISSING = Entry(
    "The environment variable {name} is not set.",
    "{hint}Set it, `export {name}=…`, or give a default, `${{{name}:-…}}`.",
)
VARIABLE_MALFORMED = Entry(
    "`{found}` is no substitution.",
    "Write `${{NAME}}`, `${{NAME:-default}}` or `${{secret:NAME}}`; write `$${{` for a literal `${{`.",
)
VARIABLE_IN_KEY = Entry(
    "The key `{key}` holds `${{`, and only values are substituted.",
    "Write the key out.",
)
SECRET_MISSING = Entry(
    "The secret {name} is neither in the environment nor in a file named by {name}_FILE.",
    "Set it before the run: `export {name}=…` or `export {name}_FILE=/path/to/file`.",
)
SECRET_FILE = Entry(
    "The secret {name} can't be read from {file}, which {name}_FILE names: {reason}.",
    "Set {name}_FILE to a readable text file, or set {name} itself.",
)


# Expectations: conditions that can't be judged, rows that fail them, rows that can't be set aside.

EXPECTATION_SYNTAX = Entry(
    "The expectation `{expectation}` of the table `{table}` is no SQL: {says}.",
    "Write a condition over the table's columns, such as `cost >= 0`.",
)
EXPECTATION_COLUMN = Entry(
    "The expectation `{expectation}` of the table `{table}` asks for `{column}`, which is no column of it.",
    "{hint}",
)
EXPECTATION_NOT_BOOLEAN = Entry(
    "The expectation `{expectation}` of the table `{table}` gives {type}; true or false is wanted.",
    "Compare it with something, such as `cost >= 0`.",
)
EXPECTATION_NOT_OF_A_ROW = Entry(
    "The expectation `{expectation}` of the table `{table}` has {what} in it, and each row is judged alone.",
    "Work it out in the table's own query, and let the condition ask for the column.",
)
EXPECTATION_NOT_CERTAIN = Entry(
    "The expectation `{expectation}` of the table `{table}` has `{part}` in it, which may give another value "
    "each time: a batch that runs again would judge its rows otherwise.",
    "Leave `{part}` out, or judge by a column that a row brings along.",
)
EXPECTATION_REFUSED = Entry(
    "Spark does not take the expectation `{expectation}` of the table `{table}`: {says}.",
    "Mend the condition and run `headwater check` again.",
)
EXPECTATION_FAILED = Entry(
    "A row of the table `{table}` fails the expectation `{expectation}` (`{check}`): {row}.",
    "Mend the row where it comes from or the condition, and run again: the batch is computed anew. With "
    "`else: quarantine` such rows are set aside, with `else: drop` left out, and the others go on.",
)
EXPECTATION_UNMET = Entry(
    "{sink}: {rows} of {all} rows of the table `{table}` fail the expectation `{expectation}` in batch "
    "{batch}; {what}.",
    "From now on they are only counted; the summary of the run has the number.",
)


# What is wrong with a finding that is accepted.

ACCEPT_UNKNOWN = Entry(
    "No check ever finds `{code}`, which {where} accepts.",
    "{hint} The page of rules lists the codes.",
)
ACCEPT_REFUSED = Entry(
    "{where} accepts `{code}`, which can't be accepted: {says}.",
    "Take it out of `accept`, and do what the error itself says.",
)
ACCEPT_UNMATCHED = Entry(
    "{where} accepts `{code}`, and the check finds nothing of that there.",
    "Take it out of `accept`, so that it does not hide what comes later.",
)
