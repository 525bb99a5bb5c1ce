"""What can be wrong with a declared pipeline."""

from headwater.errors.problems import Entry

UNKNOWN_KEY = Entry(
    "HW-UNKNOWN-KEY",
    "{where} has no key `{key}`.",
    "{hint}",
)
MISSING_KEY = Entry(
    "HW-MISSING-KEY",
    "{where} lacks the key `{key}`.",
    "Add it: {example}.",
)
WRONG_VALUE = Entry(
    "HW-WRONG-VALUE",
    "`{key}` of {where} is not right: {says}.",
    "Mend the value; the reference page of the docs and `headwater schema` say what it takes.",
)
BAD_NAME = Entry(
    "HW-BAD-NAME",
    "`{name}` can't be the name of {where}.",
    "Use letters, digits and `_`, not beginning with a digit, such as `{suggestion}`.",
)
NAME_TAKEN = Entry(
    "HW-NAME-TAKEN",
    "The name `{name}` is declared twice: {first} and {second}; sources and tables share one name space.",
    "Rename one of them.",
)
UNKNOWN_TABLE = Entry(
    "HW-UNKNOWN-TABLE",
    "{where} reads `{name}`, which is no source and no table of this pipeline.",
    "{hint}",
)
CYCLE = Entry(
    "HW-CYCLE",
    "These tables read each other in a circle: {cycle}.",
    "Take one of the references out.",
)
SAME_PLACE = Entry(
    "HW-SAME-PLACE",
    "The sinks `{first}` and `{second}` both write to {place}.",
    "Give each sink a place of its own; two queries that write one folder spoil each other's records.",
)
WRITES_SOURCE = Entry(
    "HW-WRITES-SOURCE",
    "The sink `{sink}` writes to {place}, which the source `{source}` of this pipeline reads.",
    "Give the sink another folder; else the pipeline feeds itself.",
)
NO_SINKS = Entry(
    "HW-NO-SINKS",
    "The pipeline `{name}` has no sink, so there is nothing to run.",
    "Add one under `sinks:`, for instance `{{reads: {table}, connector: console}}`.",
)
TABLE_FORM = Entry(
    "HW-TABLE-FORM",
    "The table `{name}` must have exactly one of `sql` and `python`, and has {has}.",
    'Write `{name}: SELECT …`, `{name}: {{sql: …}}` or `{name}: {{python: "file.py:function"}}`.',
)
SECRET_NOT_HERE = Entry(
    "HW-SECRET-NOT-HERE",
    "`{key}` of {where} can't take a secret: it would be shown in plans, logs or Spark's settings.",
    "Secrets go into `options:` or into keys made for them; use `${{NAME}}` for a plain value.",
)
NO_PIPELINE = Entry(
    "HW-NO-PIPELINE",
    "{file} declares no pipeline.",
    'Make one at the top level of the file: `p = headwater.Pipeline("name")`.',
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
SPARK_SETTING_FIXED = Entry(
    "HW-SPARK-SETTING-FIXED",
    "`{key}` under `spark:` is set by Headwater.",
    "{hint}",
)
