"""What can be wrong with a class of the user's that is a data source."""

from headwater.errors import Entry, name_entries

PYTHON_NO_DATA_SOURCE = Entry(
    "`{class_name}` of the {side} `{name}` is no data source: it does not derive from Spark's DataSource.",
    "Write `from pyspark.sql.datasource import DataSource` and `class {class_name}(DataSource):`.",
)
PYTHON_METHOD_MISSING = Entry(
    "The {side} `{name}` can't {does}: its class `{class_name}` has no `{method}`.", "{hint}"
)
PYTHON_NO_SCHEMA = Entry(
    "The columns of the source `{name}` are not known: its class `{class_name}` has no `schema`.",
    'Write `schema:` beside `class:`, or a method `def schema(self): return "id int, …"`.',
)

ENTRIES = name_entries(globals())
