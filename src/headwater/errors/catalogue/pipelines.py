"""What can be wrong with a declared pipeline."""

from headwater.errors.problems import Entry

KEY_UNKNOWN = Entry("There is no key `{key}` in {where}.", "{hint}")
KEY_MISSING = Entry("The key `{key}` is missing in {where}.", "Add it: {example}.")
VALUE_INVALID = Entry("{what} is not right: {says}.", "{hint}")
NAME_INVALID = Entry(
    "`{name}` can't be the name of {where}.",
    "Use the letters a to z, digits and `_`, not beginning with a digit, such as `{suggestion}`.",
)
NAME_CONFLICT = Entry(
    "The name `{name}` is declared twice: {first} and {second}.",
    "Rename one of them: sources and tables share one name space, and upper and lower case are the same.",
)
TABLE_NOT_FOUND = Entry(
    "`{name}`, which {where} reads, is no source and no table of this pipeline.", "{hint}"
)
TABLE_CYCLE = Entry("These tables read each other in a circle: {cycle}.", "Take one of the references out.")
SINK_PATH_CONFLICT = Entry(
    "The sink `{second}` writes to {place}, which is the place of the sink `{first}`, or meets it.",
    "Give each sink a place of its own, beside the other; else readers of one see the rows of both.",
)
SINK_IN_RUN_DIR = Entry(
    "The sink `{sink}` writes to {place}, which meets the run folder {folder}.",
    "Give it a folder outside: the run folder holds checkpoints, and may be removed as a whole.",
)
SINK_WRITES_SOURCE = Entry(
    "The sink `{sink}` writes to {place}, which is or lies in what the source `{source}` reads ({read}).",
    "Give the sink a folder or topic of its own; else the pipeline feeds itself.",
)
PIPELINE_NO_SINKS = Entry(
    "The pipeline `{name}` has no sink, so there is nothing to run.",
    "Add one under `sinks:`, for instance `{{reads: {table}, connector: console}}`.",
)
TABLE_KIND_CONFLICT = Entry(
    "The table `{name}` must have exactly one of `sql`, `python` and `distinct`, and has {has}.",
    'Write `{name}: SELECT …`, `{name}: {{python: "file.py:function"}}` or '
    "`{name}: {{reads: a_table, distinct: [id]}}`.",
)
FUNCTION_KIND_CONFLICT = Entry(
    "The function `{name}` must have exactly one of `python` and `class`, and has {has}.",
    'Write `{name}: {{python: "file.py:function"}}` or `{name}: {{class: com.example.Function}}`.',
)
JAR_NOT_FOUND = Entry("There is no jar {path}.", "{hint}")
KEY_NEEDS_DEDUPLICATE = Entry(
    "The table `{name}` has `{key}`, which only a table with `distinct` has.",
    "Take it out, or write `{name}: {{reads: a_table, distinct: [id]}}`.",
)
SECRET_NOT_ALLOWED = Entry(
    "{what} can't take a secret: it would be shown in plans, logs or Spark's settings.",
    "Secrets go into `options:` or into keys made for them; use `${{NAME}}` for a plain value.",
)
PIPELINE_NOT_FOUND = Entry(
    "{file} declares no pipeline.",
    'Make one at the top level of the file: `p = headwater.Pipeline("name")`; of a plain PySpark program '
    "`headwater check {file}` tells what can be said.",
)
PIPELINE_AMBIGUOUS = Entry("{file} declares several pipelines: {names}.", "Name one: `{file}:{first}`.")
PIPELINE_FILE_INVALID = Entry("{file} is not a pipeline file.", "Give a .yml, .yaml or .py file.")
STATIC_UNSUPPORTED = Entry(
    "The source `{name}` can't be static: `{connector}` has no end and no batch form.",
    "Leave `static: true` out, or read files.",
)
SOURCE_PATH_NOT_FOUND = Entry("The source `{name}` reads {path}, which is not there.", "{hint}")
SQL_NOT_A_QUERY = Entry(
    "The SQL of the table `{name}` is no query ({kind}).",
    "A table is a SELECT; statements that change something have no place in a pipeline.",
)
SPARK_SETTING_INVALID = Entry(
    "`{key}` is no setting of Spark: their names begin with `spark.`, and others are ignored.", "{hint}"
)
SPARK_SETTING_NOT_ALLOWED = Entry("`{key}` is set by Headwater.", "{hint}")
RUN_DIR_REMOTE = Entry(
    "The run folder {folder} is not on a local file system.", "Name a local folder under `folder:`."
)


# What can be wrong with a file as such: reading it, its YAML, its `${…}`.

FILE_NOT_FOUND = Entry("There is no file {file}.", "{hint}")
FILE_IS_DIRECTORY = Entry("{file} is a folder, not a file.", "{hint}")
FILE_UNREADABLE = Entry("{file} can't be read: {reason}.", "Check who may read it: `ls -l {file}`.")
FILE_ENCODING_INVALID = Entry("This line is not UTF-8 text.", "Save {file} as UTF-8 in your editor.")
YAML_TOO_LARGE = Entry(
    "{file} holds more than {limit}, the most that is read.",
    "Check that it is the right file, its brackets and what `*aliases` repeat; move long SQL or code into "
    "files of their own.",
)
YAML_ALIAS_NOT_FOUND = Entry(
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
YAML_QUOTE_START = Entry("A value that begins with {character} must be quoted.", "Write `{suggestion}`.")
YAML_KEY_INVALID = Entry(
    "A key must be text, and here stands {kind}.",
    "Quote the key; if `{{`, `[` or `*` is meant as text, quote the whole value.",
)
YAML_DUPLICATE_KEY = Entry(
    "The key `{key}` stands twice: on line {first} and on line {second}.", "Rename or delete one of the two."
)
YAML_UNSUPPORTED = Entry(
    "{what} are not supported: `{found}`.",
    "Take it out, and write merged keys out; quote it if it is meant as text.",
)
YAML_UNCLOSED = Entry("The {opened} opened here is not closed.", "Add the closing {closing}.")
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
VARIABLE_IN_KEY = Entry("The key `{key}` holds `${{`, and only values are substituted.", "Write the key out.")
SECRET_MISSING = Entry(
    "The secret {name} is neither in the environment nor in a file named by {name}_FILE.",
    "Set it before the run: `export {name}=…` or `export {name}_FILE=/path/to/file`.",
)
SECRET_FILE_UNREADABLE = Entry(
    "The secret {name} can't be read from {file}, which {name}_FILE names: {reason}.",
    "Set {name}_FILE to a readable text file, or set {name} itself.",
)


# Expectations: conditions that can't be judged, rows that fail them, rows that can't be set aside.

EXPECTATION_SYNTAX = Entry(
    "The expectation `{expectation}` of the table `{table}` is no SQL: {says}.",
    "Write a condition over the table's columns, such as `cost >= 0`.",
)
EXPECTATION_COLUMN_NOT_FOUND = Entry(
    "The expectation `{expectation}` of the table `{table}` asks for `{column}`, which is no column of it.",
    "{hint}",
)
EXPECTATION_NOT_BOOLEAN = Entry(
    "The expectation `{expectation}` of the table `{table}` gives {type}; true or false is wanted.",
    "Compare it with something, such as `cost >= 0`.",
)
EXPECTATION_NOT_PER_ROW = Entry(
    "The expectation `{expectation}` of the table `{table}` has {what} in it, and each row is judged alone.",
    "Work it out in the table's own query, and let the condition ask for the column.",
)
EXPECTATION_NONDETERMINISTIC = Entry(
    "The expectation `{expectation}` of the table `{table}` has `{part}` in it, which may give another value "
    "each time: a batch that runs again would judge its rows otherwise.",
    "Leave `{part}` out, or judge by a column that a row brings along.",
)
EXPECTATION_INVALID = Entry(
    "Spark does not take the expectation `{expectation}` of the table `{table}`: {says}.",
    "Mend the condition and run `headwater check` again.",
)
EXPECTATION_FAILED = Entry(
    "A row of the table `{table}` fails the expectation `{expectation}` (`{check}`): {row}.",
    "Mend the row where it comes from or the condition, and run again: the batch is computed anew. With "
    "`else: quarantine` such rows are set aside, with `else: drop` left out, and the others go on.",
)
EXPECTATION_VIOLATED = Entry(
    "{sink}: {rows} of {all} rows of the table `{table}` fail the expectation `{expectation}` in batch "
    "{batch}; {what}.",
    "From now on they are only counted; the summary of the run has the number.",
)


# What is wrong with a finding that is accepted.

SUPPRESS_CODE_UNKNOWN = Entry(
    "No check ever finds `{code}`, which {where} accepts.", "{hint} The page of rules lists the codes."
)
SUPPRESS_NOT_ALLOWED = Entry(
    "{where} accepts `{code}`, which can't be accepted: {says}.",
    "Take it out of `accept`, and do what the error itself says.",
)
SUPPRESS_UNUSED = Entry(
    "{where} accepts `{code}`, and the check finds nothing of that there.",
    "Take it out of `accept`, so that it does not hide what comes later.",
)


# What can be wrong with the user's own Python files.

CODE_FILE_NOT_FOUND = Entry(
    "There is no Python file {file}.",
    "Correct the name or create the file; Python files in that folder, nearest name first: {known}.",
)
CODE_FILE_UNREADABLE = Entry(
    "The Python file {file} can't be read: {reason}.",
    "Check with `ls -la {file}` that it is a file and that this user may read it.",
)
CODE_OUTSIDE_PROJECT = Entry(
    "The Python file {file} lies outside the pipeline's folder {root}.",
    "Move it beside the pipeline file or below: only modules in that folder are sent to the executors.",
)
CODE_FILE_NAME_INVALID = Entry(
    "{file} can't be loaded as a module because of its name.",
    "Rename it: a module's file ends in .py, and neither it nor its folders have another dot in their names.",
)
CODE_ENCODING_INVALID = Entry(
    "This line is not in the file's encoding: {reason}.",
    "Save the file as UTF-8, or name its encoding in the first line, such as `# -*- coding: latin-1 -*-`.",
)
CODE_SYNTAX = Entry(
    "Python can't read this line: {reason}.", "Correct it; `python -m py_compile {file}` shows the same."
)
CODE_FAILED = Entry(
    "This line failed while its module was loaded: {exception}.",
    "Correct it, then run `headwater check` again; `--verbose` shows the whole traceback.",
)
CODE_NEEDS_SPARK = Entry(
    "This line needs a running Spark, and none runs yet while the file of a pipeline is loaded.",
    'Name types as objects, `@udf(DoubleType())` and not `@udf("double")`; move the rest into a function.',
)
CODE_NOT_INSTALLED = Entry(
    "This line imports {module}, which is neither installed nor a module beside the pipeline file.",
    "Install the package in this environment, or correct the name.",
)
CODE_DYNAMIC_IMPORT = Entry(
    "This line loads {module} by its name as text, so it can't be seen that the executors need it.",
    "Use an `import` statement for {module}; it may stand inside a function.",
)
CODE_NAME_NOT_FOUND = Entry(
    "{file} has no {kind} {name}.", "Correct the name; what the file has, nearest name first: {known}."
)
CODE_NAME_INVALID = Entry("{name} in {file} is {kind}, not {wanted}.", "Name {wanted} of this file.")
FUNCTION_DEFINED_ELSEWHERE = Entry(
    "{function} is no plain `def` in {file}, so the tables it reads can't be told from its parameters.",
    "Name the file and function whose `def` it is, or write a `def {function}(…)` here that calls it.",
)
FUNCTION_PARAMETERS_UNSUPPORTED = Entry(
    "The function {function} takes {parameter}, but every parameter has to be passed by its name.",
    "Write its parameters out as plain names, without `*`, `**` or `/`.",
)
FUNCTION_ARGUMENTS_MISMATCH = Entry(
    "`{function}({takes})` is called with {count} arguments ({passed}), which it can't take.",
    "Write it as `def {short}({passed}):`.",
)
FUNCTION_RETURN_TYPE = Entry("The function `{name}` {says}.", "{hint}")
CLASS_NOT_FOUND = Entry(
    "The class {java_class} of the function `{name}` is in none of the jars.",
    "Name the jar that holds it under `jars:`, and the class with its package, such as com.example.Mean.",
)
CLASS_NOT_A_FUNCTION = Entry(
    "The class {java_class} of the function `{name}` is no function of Spark's.",
    "It has to implement org.apache.spark.sql.api.java.UDF1 (or another of UDF0 … UDF22), or to extend "
    "org.apache.spark.sql.expressions.Aggregator.",
)
AGGREGATOR_INPUT_UNSUPPORTED = Entry(
    "The class {java_class} of the function `{name}` takes {taken}, which SQL can't pass.",
    "Declare its input as one of Java's own types, such as Aggregator<Double, …>; in Scala write "
    "java.lang.Double.",
)
FUNCTION_NAME_CONFLICT = Entry(
    "The function `{name}` has the name of one that Spark has itself, and would take its place everywhere.",
    "Give it another name, such as `my_{name}`.",
)


# What can be wrong with the user's own classes, and with what is sent to the executors.

CLASS_METHOD_MISSING = Entry(
    "The class {name} has no method {method}.", "Write `def {method}({takes}):` in it."
)
CLASS_NEEDS_ARGUMENTS = Entry(
    "Objects of the class {name} are made without arguments, but its `__init__` needs `{needs}`.",
    "Give every parameter of `__init__` a default, or read the value from the environment there.",
)
CLASS_INIT_FAILED = Entry(
    "`{name}()` failed: {error}.",
    "Correct it; what needs the executor, such as a connection, belongs into `open`.",
)
NOT_SERIALIZABLE = Entry(
    "`{name}` can't be sent to the executors: {part} can't be pickled ({type}).", "{hint}"
)
