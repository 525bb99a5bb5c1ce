"""What can be wrong with a declared pipeline."""

from headwater.errors.problems import Entry

UNKNOWN_KEY = Entry(
    "HW-UNKNOWN-KEY",
    "There is no key `{key}` in {where}.",
    "{hint}",
)
MISSING_KEY = Entry(
    "HW-MISSING-KEY",
    "The key `{key}` is missing in {where}.",
    "Add it: {example}.",
)
WRONG_VALUE = Entry(
    "HW-WRONG-VALUE",
    "{what} is not right: {says}.",
    "{hint}",
)
BAD_NAME = Entry(
    "HW-BAD-NAME",
    "`{name}` can't be the name of {where}.",
    "Use the letters a to z, digits and `_`, not beginning with a digit, such as `{suggestion}`.",
)
NAME_TAKEN = Entry(
    "HW-NAME-TAKEN",
    "The name `{name}` is declared twice: {first} and {second}.",
    "Rename one of them: sources and tables share one name space, and upper and lower case are the same.",
)
UNKNOWN_TABLE = Entry(
    "HW-UNKNOWN-TABLE",
    "`{name}`, which {where} reads, is no source and no table of this pipeline.",
    "{hint}",
)
CYCLE = Entry(
    "HW-CYCLE",
    "These tables read each other in a circle: {cycle}.",
    "Take one of the references out.",
)
SAME_PLACE = Entry(
    "HW-SAME-PLACE",
    "The sink `{second}` writes to {place}, which is the place of the sink `{first}`, or meets it.",
    "Give each sink a place of its own, beside the other; else readers of one see the rows of both.",
)
IN_RUN_FOLDER = Entry(
    "HW-IN-RUN-FOLDER",
    "The sink `{sink}` writes to {place}, which meets the run folder {folder}.",
    "Give it a folder outside: the run folder holds checkpoints, and may be removed as a whole.",
)
WRITES_SOURCE = Entry(
    "HW-WRITES-SOURCE",
    "The sink `{sink}` writes to {place}, which is or lies in what the source `{source}` reads ({read}).",
    "Give the sink a folder or topic of its own; else the pipeline feeds itself.",
)
NO_SINKS = Entry(
    "HW-NO-SINKS",
    "The pipeline `{name}` has no sink, so there is nothing to run.",
    "Add one under `sinks:`, for instance `{{reads: {table}, connector: console}}`.",
)
TABLE_FORM = Entry(
    "HW-TABLE-FORM",
    "The table `{name}` must have exactly one of `sql`, `python` and `distinct`, and has {has}.",
    'Write `{name}: SELECT …`, `{name}: {{python: "file.py:function"}}` or '
    "`{name}: {{reads: a_table, distinct: [id]}}`.",
)
FUNCTION_FORM = Entry(
    "HW-FUNCTION-FORM",
    "The function `{name}` must have exactly one of `python` and `class`, and has {has}.",
    'Write `{name}: {{python: "file.py:function"}}` or `{name}: {{class: com.example.Function}}`.',
)
NO_SUCH_JAR = Entry(
    "HW-NO-SUCH-JAR",
    "There is no jar {path}.",
    "{hint}",
)
ONLY_WITH_DISTINCT = Entry(
    "HW-ONLY-WITH-DISTINCT",
    "The table `{name}` has `{key}`, which only a table with `distinct` has.",
    "Take it out, or write `{name}: {{reads: a_table, distinct: [id]}}`.",
)
SECRET_NOT_HERE = Entry(
    "HW-SECRET-NOT-HERE",
    "{what} can't take a secret: it would be shown in plans, logs or Spark's settings.",
    "Secrets go into `options:` or into keys made for them; use `${{NAME}}` for a plain value.",
)
NO_PIPELINE = Entry(
    "HW-NO-PIPELINE",
    "{file} declares no pipeline.",
    'Make one at the top level of the file: `p = headwater.Pipeline("name")`; of a plain PySpark program '
    "`headwater check {file}` tells what can be said.",
)
SEVERAL_PIPELINES = Entry(
    "HW-SEVERAL-PIPELINES",
    "{file} declares several pipelines: {names}.",
    "Name one: `{file}:{first}`.",
)
NOT_A_PIPELINE = Entry(
    "HW-NOT-A-PIPELINE",
    "{file} is not a pipeline file.",
    "Give a .yml, .yaml or .py file.",
)
STATIC_NOT_BATCH = Entry(
    "HW-STATIC-NOT-BATCH",
    "The source `{name}` can't be static: `{connector}` has no end and no batch form.",
    "Leave `static: true` out, or read files.",
)
NO_SUCH_PATH = Entry(
    "HW-NO-SUCH-PATH",
    "The source `{name}` reads {path}, which is not there.",
    "{hint}",
)
SQL_NOT_A_QUERY = Entry(
    "HW-SQL-NOT-A-QUERY",
    "The SQL of the table `{name}` is no query ({kind}).",
    "A table is a SELECT; statements that change something have no place in a pipeline.",
)
SPARK_SETTING_NAME = Entry(
    "HW-SPARK-SETTING-NAME",
    "`{key}` is no setting of Spark: their names begin with `spark.`, and others are ignored.",
    "{hint}",
)
SPARK_SETTING_FIXED = Entry(
    "HW-SPARK-SETTING-FIXED",
    "`{key}` is set by Headwater.",
    "{hint}",
)
REMOTE_FOLDER = Entry(
    "HW-REMOTE-FOLDER",
    "The run folder {folder} is not on a local file system.",
    "Name a local folder under `folder:`.",
)
