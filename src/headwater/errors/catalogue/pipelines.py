"""Problems of a declared pipeline."""

from headwater.errors.problems import Entry

KEY_UNKNOWN = Entry(
    "{where}: unknown key `{key}`.",
    "{hint}",
)
KEY_RENAMED = Entry(
    "{where}: `{key}` was renamed to `{new}`.",
    "Write `{form}` instead of `{key}`.",
)
KEY_MISSING = Entry(
    "{where}: missing key `{key}`.",
    "Add {example}.",
)
VALUE_INVALID = Entry(
    "{what}: {says}.",
    "{hint}",
)
NAME_INVALID = Entry(
    "`{name}` is not a valid name for {where}.",
    "Use the letters a to z, digits and `_`, and do not start with a digit. For example: `{suggestion}`.",
)
NAME_CONFLICT = Entry(
    "Name `{name}` is declared twice: {first} and {second}.",
    "Rename one of them. Sources and tables share one namespace, and names are not case-sensitive.",
)
PIPELINE_NAME_CONFLICT = Entry(
    "Pipeline `{name}` has the same name as {other}.",
    "Rename one of them, or run each in its own process with `headwater run`.",
)
PIPELINE_RUN_DIR_CONFLICT = Entry(
    "Pipelines `{name}` and `{other}` have the same run directory, {directory}.",
    "Set a separate `run_dir` for one of them, such as `run_dir: .headwater-{name}`.",
)
TABLE_NOT_FOUND = Entry(
    "{where}: source or table `{name}` not found in this pipeline.",
    "{hint}",
)
TABLE_CYCLE = Entry(
    "These tables read each other in a cycle: {cycle}.",
    "Remove one of the references.",
)
SINK_PATH_CONFLICT = Entry(
    "Sink `{second}`: {place} overlaps the output of sink `{first}`.",
    "Write each sink to a separate location, neither inside the other. Otherwise, readers see the rows of "
    "both.",
)
GROUP_NAME_CONFLICT = Entry(
    "Group `{group}` of sink `{sink}` has the same name as {other}.",
    "Rename the group. Groups and sinks share one namespace, because both name queries, and names are not "
    "case-sensitive.",
)
GROUP_KEY_CONFLICT = Entry(
    "Sinks `{first}` ({place}) and `{second}` of group `{group}` have different values of `{key}`: {one} and "
    "{other}.",
    "Set the same `{key}` on all sinks of the group, which share one query, or remove `group` from one of them.",
)
GROUP_TRIGGER_UNSUPPORTED = Entry(
    "Sink `{sink}` of group `{group}`: a group does not support trigger `{trigger}`.",
    "Use a trigger with batches, such as `every 1 second`, or remove `group`: only batches can be written to "
    "several sinks.",
)
GROUP_SINK_UNSUPPORTED = Entry(
    "Sink `{sink}`: the {connector} connector does not support groups.",
    "Remove `group` from this sink: it then has its own query. These connectors support groups: {supported}.",
)
GROUP_KEY_UNSUPPORTED = Entry(
    "Sink `{sink}`: `{key}` is not supported in a group.",
    "Remove `{key}`: {why}. Or remove `group`: the sink then has its own query.",
)
SINK_IN_RUN_DIR = Entry(
    "Sink `{sink}`: {place} overlaps the run directory {folder}.",
    "Set a path outside the run directory. It stores checkpoints and can be deleted as a whole.",
)
SINK_WRITES_SOURCE = Entry(
    "Sink `{sink}` writes to {place}, which source `{source}` reads ({read}).",
    "Write to a separate directory or topic. Otherwise, the pipeline reads its own output.",
)
PIPELINE_NO_SINKS = Entry(
    "Pipeline `{name}` has no sinks, so it has nothing to run.",
    "Add a sink under `sinks:`, for example `{{reads: {table}, connector: console}}`.",
)
TABLE_KIND_CONFLICT = Entry(
    "Table `{name}`: expected exactly one of `sql`, `python` and `deduplicate`, got {has}.",
    'Write `{name}: SELECT …`, `{name}: {{python: "file.py:function"}}` or `{name}: {{reads: a_table, '
    "deduplicate: [id]}}`.",
)
FUNCTION_KIND_CONFLICT = Entry(
    "Function `{name}`: expected exactly one of `python` and `java_class`, got {has}.",
    'Write `{name}: {{python: "file.py:function"}}` or `{name}: {{java_class: com.example.Function}}`.',
)
JAR_NOT_FOUND = Entry(
    "Jar {path} not found.",
    "{hint}",
)
KEY_NEEDS_DEDUPLICATE = Entry(
    "Table `{name}`: key `{key}` requires `deduplicate`.",
    "Remove `{key}`, or write `{name}: {{reads: a_table, deduplicate: [id]}}`.",
)
SECRET_NOT_ALLOWED = Entry(
    "{what} does not accept a secret. It would appear in plans, logs or Spark settings.",
    "Use secrets only under `options` and in keys for credentials. For other values, write `${{NAME}}`.",
)
PIPELINE_NOT_FOUND = Entry(
    "{file} does not declare a pipeline.",
    'Create one at the top level of the file: `p = headwater.Pipeline("name")`. To check a plain PySpark '
    "script, run `headwater check {file}`.",
)
PIPELINE_AMBIGUOUS = Entry(
    "{file} declares several pipelines: {names}.",
    "Choose one, for example `{file}:{first}`.",
)
PIPELINE_FILE_INVALID = Entry(
    "{file} is not a pipeline file.",
    "Pass a .yml, .yaml or .py file.",
)
STATIC_UNSUPPORTED = Entry(
    "Source `{name}`: connector `{connector}` does not support static reads.",
    "Remove `static: true`, or use a connector with bounded data, such as `files`.",
)
SOURCE_PATH_NOT_FOUND = Entry(
    "Source `{name}`: path {path} not found.",
    "{hint}",
)
SQL_NOT_A_QUERY = Entry(
    "Table `{name}`: the SQL is not a query ({kind}).",
    "Write a single SELECT. A pipeline does not support statements that change data.",
)
SPARK_SETTING_INVALID = Entry(
    "`{key}` is not a Spark setting. Spark ignores names that do not start with `spark.`.",
    "{hint}",
)
SPARK_SETTING_NOT_ALLOWED = Entry(
    "`{key}` cannot be set under `spark` because Headwater sets it.",
    "{hint}",
)
RUN_DIR_REMOTE = Entry(
    "Run directory {folder} is not on a local file system.",
    "Set `run_dir` to a local directory.",
)


# Problems of a file: reading it, its YAML syntax, its `${…}` substitutions.

FILE_NOT_FOUND = Entry(
    "File {file} not found.",
    "{hint}",
)
FILE_IS_DIRECTORY = Entry(
    "{file} is a directory, not a file.",
    "{hint}",
)
FILE_UNREADABLE = Entry(
    "Could not read {file}: {reason}.",
    "Check its permissions with `ls -l {file}`.",
)
FILE_ENCODING_INVALID = Entry(
    "This line is not valid UTF-8.",
    "Save {file} as UTF-8.",
)
YAML_TOO_LARGE = Entry(
    "{file} exceeds the limit of {limit}.",
    "Check that it is the right file, that its brackets are closed, and what its `*aliases` expand to. "
    "Move long SQL or code into separate files.",
)
YAML_ALIAS_NOT_FOUND = Entry(
    "Alias `*{name}` refers to no complete value above that is marked `&{name}`.",
    'If you mean a string, quote it: `"*{name}"`.',
)
YAML_DOCUMENTS = Entry(
    "A second YAML document starts here. A file declares one pipeline.",
    "Move the second document into a separate file, or remove the `---` or `...` line.",
)
YAML_NOT_MAPPING = Entry(
    "Expected a mapping at the top level of the file, got {kind}.",
    "Start the file with `name: my_pipeline`.",
)
YAML_TAB = Entry(
    "This line is indented with a tab, which YAML does not allow.",
    "Indent with spaces, the same number on every line of one block.",
)
YAML_INDENT = Entry(
    "The indentation of this line does not match the lines above it.",
    "Align it with the keys or list items that it belongs to.",
)
YAML_NO_COLON = Entry(
    "This line is not a `key: value` pair: `{line}`.",
    "Write a colon and a space after the key. If the line continues the one above, indent it further.",
)
YAML_NO_SPACE = Entry(
    "Missing space after the colon in `{found}`, so YAML does not read it as a key and a value.",
    "Write `{suggestion}`. If you mean a single string, quote it.",
)
YAML_QUOTE_COLON = Entry(
    "The value contains a colon followed by a space, which YAML reads as another key.",
    "Quote the value: `{suggestion}`. Or write it as a block below the key, after `|`.",
)
YAML_QUOTE_COMMA = Entry(
    "Inside brackets, a comma ends a value, so YAML reads `{found}` as {pieces} values.",
    "Quote the value: `{suggestion}`.",
)
YAML_QUOTE_SUBSTITUTION = Entry(
    "Inside brackets, `{found}` must be quoted, because YAML reads its `{{` as a new mapping.",
    "Write `{suggestion}`.",
)
YAML_QUOTE_START = Entry(
    "A value that starts with {character} must be quoted.",
    "Write `{suggestion}`.",
)
YAML_KEY_INVALID = Entry(
    "A key must be a string, got {kind}.",
    "Quote the key. If `{{`, `[` or `*` is part of a string, quote the whole value.",
)
YAML_DUPLICATE_KEY = Entry(
    "Key `{key}` is defined twice, on line {first} and on line {second}.",
    "Rename or delete one of them.",
)
YAML_UNSUPPORTED = Entry(
    "{what} are not supported: `{found}`.",
    "Remove it. Replace a merge key with the keys it stands for. If you mean a string, quote it.",
)
YAML_UNCLOSED = Entry(
    "The {opened} opened here is not closed.",
    "Add the closing {closing}.",
)
YAML_COMMA = Entry(
    "Missing comma or closing {closing} before this position.",
    "Add it. Quote values that contain brackets, quotes or `#`.",
)
YAML_LIST = Entry(
    "A list item cannot start on the same line as its key.",
    "Put `- …` on the next line, or write the list in brackets: `[a, b]`.",
)
YAML_SYNTAX = Entry(
    "This line is not valid YAML: `{line}`.",
    "Check indentation, brackets and quotes on this line and the line above. Quote special characters, and "
    "write `\\\\` for a backslash in double quotes.",
)
VARIABLE_MISSING = Entry(
    "Environment variable {name} is not set.",
    "{hint}Set it with `export {name}=…`, or add a default: `${{{name}:-…}}`.",
)
VARIABLE_MALFORMED = Entry(
    "`{found}` is not a valid substitution.",
    "Write `${{NAME}}`, `${{NAME:-default}}` or `${{secret:NAME}}`. For a literal `${{`, write `$${{`.",
)
VARIABLE_IN_KEY = Entry(
    "Key `{key}` contains `${{`. Only values support substitution.",
    "Write the key without a variable.",
)
SECRET_MISSING = Entry(
    "Secret {name} not found in the environment variable {name}, or in a file named by {name}_FILE.",
    "Before the run, set `export {name}=…` or `export {name}_FILE=/path/to/file`.",
)
SECRET_FILE_UNREADABLE = Entry(
    "Could not read secret {name} from {file}, the file that {name}_FILE names: {reason}.",
    "Set {name}_FILE to a readable text file, or set {name}.",
)


# Problems of expectations: invalid conditions, rows that violate them.

EXPECTATION_SYNTAX = Entry(
    "Table `{table}`: expectation `{expectation}` is not valid SQL: {says}.",
    "Write a condition on the columns of the table, such as `cost >= 0`.",
)
EXPECTATION_COLUMN_NOT_FOUND = Entry(
    "Table `{table}`: expectation `{expectation}` uses the column `{column}`, which the table does not have.",
    "{hint}",
)
EXPECTATION_NOT_BOOLEAN = Entry(
    "Table `{table}`: expectation `{expectation}` returns {type}. Expected a boolean.",
    "Write a comparison, such as `cost >= 0`.",
)
EXPECTATION_NOT_PER_ROW = Entry(
    "Table `{table}`: expectation `{expectation}` contains {what}. Headwater evaluates a condition on each "
    "row separately.",
    "Compute the value in the query of the table, and use that column in the condition.",
)
EXPECTATION_NONDETERMINISTIC = Entry(
    "Table `{table}`: expectation `{expectation}` contains `{part}`, which can return a different value "
    "when Spark retries a batch.",
    "Remove `{part}`, or use a column of the row instead.",
)
EXPECTATION_INVALID = Entry(
    "Table `{table}`: Spark rejected expectation `{expectation}`: {says}.",
    "Fix the condition and run `headwater check` again.",
)
EXPECTATION_FAILED = Entry(
    "Table `{table}`: a row violates expectation `{expectation}` (`{condition}`): {row}.",
    "Fix the row at its origin or the condition, and restart; the batch is retried. To keep running, set "
    "`on_violation: quarantine` or `on_violation: drop`.",
)
EXPECTATION_VIOLATED = Entry(
    "Query `{sink}`, batch {batch}: {rows:,} of {all:,} rows of table `{table}` failed expectation "
    "`{expectation}` ({action}).",
    "See the summary of the run for the total. Headwater counts later violations without another notice.",
)


# Problems of suppressed findings.

SUPPRESS_CODE_UNKNOWN = Entry(
    "`{code}`, which {where} suppresses, is not the code of a check.",
    "{hint} For all codes, see the check reference (docs/reference/checks.md).",
)
SUPPRESS_NOT_ALLOWED = Entry(
    "{where} suppresses `{code}`, which cannot be suppressed: {says}.",
    "Remove it from `suppress` and fix the error.",
)
SUPPRESS_UNUSED = Entry(
    "{where} suppresses `{code}`, but the check does not report it there.",
    "Remove it from `suppress`. Otherwise, it hides the finding if it appears later.",
)


# Problems of the user's Python files.

CODE_FILE_NOT_FOUND = Entry(
    "Python file {file} not found.",
    "Correct the name or create the file. Similar files in that directory: {known}.",
)
CODE_FILE_UNREADABLE = Entry(
    "Could not read the Python file {file}: {reason}.",
    "Check with `ls -la {file}` that it is a file and that you can read it.",
)
CODE_OUTSIDE_PROJECT = Entry(
    "Python file {file} is outside the project directory {root}.",
    "Move it into the directory of the pipeline file or below. Headwater sends only modules from there to "
    "the executors.",
)
CODE_FILE_NAME_INVALID = Entry(
    "{file} cannot be imported as a module because of its name.",
    "Rename it. The file name must end in `.py`; no other dot is allowed in it or in its directories.",
)
CODE_ENCODING_INVALID = Entry(
    "This line does not match the encoding of the file: {reason}.",
    "Save the file as UTF-8, or declare its encoding on the first line, such as `# -*- coding: latin-1 -*-`.",
)
CODE_SYNTAX = Entry(
    "Python syntax error: {reason}.",
    "Fix this line. To reproduce the error, run `python -m py_compile {file}`.",
)
CODE_FAILED = Entry(
    "This line failed while Headwater imported its module: {exception}.",
    "Fix it and run `headwater check` again. For the full traceback, add `--verbose`.",
)
CODE_NEEDS_SPARK = Entry(
    "This line needs a Spark session, but none is running while Headwater loads the pipeline file.",
    'Write types as objects: `@udf(DoubleType())`, not `@udf("double")`. Move other code into a function.',
)
CODE_NOT_INSTALLED = Entry(
    "This line imports {module}, which is neither installed nor a module in the project directory.",
    "Install the package in this environment, or correct the name.",
)
CODE_DYNAMIC_IMPORT = Entry(
    "This line imports {module} dynamically, so Headwater cannot send it to the executors.",
    "Use an `import` statement for {module}. It can be inside a function.",
)
CODE_NAME_NOT_FOUND = Entry(
    "{file} has no {kind} `{name}`.",
    "Correct the name. Similar names in the file: {known}.",
)
CODE_NAME_INVALID = Entry(
    "`{name}` in {file} is {kind}, not {wanted}.",
    "Use the name of {wanted} in this file.",
)
FUNCTION_DEFINED_ELSEWHERE = Entry(
    "`{function}` is not defined with `def` in {file}, so Headwater cannot read its parameters.",
    "Refer to the file and function with the `def`, or add a `def {function}(…)` here that calls it.",
)
FUNCTION_PARAMETERS_UNSUPPORTED = Entry(
    "Function `{function}` takes {parameter}, but Headwater passes every argument by name.",
    "Declare its parameters as plain names, without `*`, `**` or `/`.",
)
FUNCTION_ARGUMENTS_MISMATCH = Entry(
    "`{function}({takes})` does not accept the {count} it is called with ({passed}).",
    "Define it as `def {short}({passed}):`.",
)
FUNCTION_RETURN_TYPE = Entry(
    "Function `{name}` {says}.",
    "{hint}",
)
CLASS_NOT_FOUND = Entry(
    "Function `{name}`: class {java_class} not found in any jar.",
    "Add its jar under `jars`, and write the class with its package, such as `com.example.Mean`.",
)
CLASS_NOT_A_FUNCTION = Entry(
    "Function `{name}`: class {java_class} is not a Spark function.",
    "Implement `org.apache.spark.sql.api.java.UDF1` (or another of UDF0 … UDF22), or extend "
    "`org.apache.spark.sql.expressions.Aggregator`.",
)
AGGREGATOR_INPUT_UNSUPPORTED = Entry(
    "Function `{name}`: class {java_class} takes {taken}, which SQL cannot pass.",
    "Declare its input as a standard Java type, such as `Aggregator<Double, …>`. In Scala, write "
    "`java.lang.Double`.",
)
FUNCTION_NAME_CONFLICT = Entry(
    "Function `{name}` would replace the Spark function of the same name.",
    "Rename it, for example to `my_{name}`.",
)


# Problems of the user's classes, and of objects that are sent to the executors.

CLASS_METHOD_MISSING = Entry(
    "Class {name} has no method `{method}`.",
    "Add `def {method}({takes}):` to it.",
)
CLASS_NEEDS_ARGUMENTS = Entry(
    "Class {name}: `__init__` requires `{needs}`, but Headwater creates the object without arguments.",
    "Give every parameter of `__init__` a default, or read the value from the environment there.",
)
CLASS_INIT_FAILED = Entry(
    "`{name}()` failed: {error}.",
    "Fix the constructor. Move code that needs the executor, such as opening a connection, into `open`.",
)
NOT_SERIALIZABLE = Entry(
    "`{name}` cannot be sent to the executors: {part} cannot be pickled ({type}).",
    "{hint}",
)
