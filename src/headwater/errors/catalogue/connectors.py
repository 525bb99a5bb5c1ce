"""What can go wrong with connectors."""

from headwater.errors.problems import Entry

UNKNOWN_CONNECTOR = Entry(
    "HW-UNKNOWN-CONNECTOR",
    "There is no {side} connector `{name}`.",
    "{hint} Installed {side} connectors: {known}.",
)
CONNECTOR_BROKEN = Entry(
    "HW-CONNECTOR-BROKEN",
    "The installed connector `{name}` ({module}) can't be loaded: {error}.",
    "Repair or uninstall the package that brings it.",
)
CONNECTOR_TWICE = Entry(
    "HW-CONNECTOR-TWICE",
    "Two installed packages bring a connector `{name}` (one is {other}).",
    "Uninstall one of them.",
)
FILES_NOT_INFERRED = Entry(
    "HW-FILES-NOT-INFERRED",
    "The schema of source `{name}` can't be inferred: no readable file is there yet ({paths}).",
    "Put a first file there, or write `schema:` instead of `infer_schema: true`.",
)
FILES_PARTITION_COLUMN = Entry(
    "HW-FILES-PARTITION-COLUMN",
    "The sink `{name}` is partitioned by `{column}`, which its rows do not have.",
    "Its columns are: {known}.",
)
FILES_NO_COLUMNS = Entry(
    "HW-FILES-NO-COLUMNS",
    "All columns of the sink `{name}` are partition columns, so its files would be empty.",
    "Leave at least one column out of `partition_by`.",
)
FILES_TEXT_COLUMN = Entry(
    "HW-FILES-TEXT-COLUMN",
    "Text files hold one column of text, and the sink `{name}` gets: {columns}.",
    "Make one column of them, for instance `SELECT to_json(struct(*)) AS value`, or choose another format.",
)
FILES_CSV_COLUMN = Entry(
    "HW-FILES-CSV-COLUMN",
    "A csv file can't hold the column `{column}` ({type}) of the sink `{name}`.",
    "Turn it into text, for instance `to_json({column}) AS {column}`, or choose another format.",
)
PYTHON_NO_DATA_SOURCE = Entry(
    "HW-PYTHON-NO-DATA-SOURCE",
    "`{class_name}` of the {side} `{name}` is no data source: it does not derive from Spark's DataSource.",
    "Write `from pyspark.sql.datasource import DataSource` and `class {class_name}(DataSource):`.",
)
PYTHON_METHOD_MISSING = Entry(
    "HW-PYTHON-METHOD-MISSING",
    "The {side} `{name}` can't {does}: its class `{class_name}` has no `{method}`.",
    "{hint}",
)
PYTHON_NO_SCHEMA = Entry(
    "HW-PYTHON-NO-SCHEMA",
    "The columns of the source `{name}` are not known: its class `{class_name}` has no `schema`.",
    'Write `schema:` beside `class:`, or a method `def schema(self): return "id int, …"`.',
)
CATALOG_NO_TABLE = Entry(
    "HW-CATALOG-NO-TABLE",
    "The source `{name}` reads the table {table}, which no catalog of this Spark has.",
    "{hint} Tables of another process are there only through a catalog that outlives it: "
    "set one under `spark:`, see the guide on catalog tables.",
)
FILES_STORED_SCHEMA = Entry(
    "HW-FILES-STORED-SCHEMA",
    "The schema that was inferred at the first start can't be read from {file}.",
    "Write the columns under `schema:` instead of `infer_schema: true`, or restore the file.",
)
