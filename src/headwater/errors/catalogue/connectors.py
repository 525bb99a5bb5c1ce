"""What can go wrong with connectors."""

from headwater.errors.problems import Entry

UNKNOWN_CONNECTOR = Entry(
    "There is no {side} connector `{name}`.", "{hint} Installed {side} connectors: {known}."
)
CONNECTOR_BROKEN = Entry(
    "The installed connector `{name}` ({module}) can't be loaded: {error}.",
    "Repair or uninstall the package that brings it.",
)
CONNECTOR_TWICE = Entry(
    "Two installed packages bring a connector `{name}` (one is {other}).", "Uninstall one of them."
)
FILES_NOT_INFERRED = Entry(
    "The schema of source `{name}` can't be inferred: no readable file is there yet ({paths}).",
    "Put a first file there, or write `schema:` instead of `infer_schema: true`.",
)
FILES_PARTITION_COLUMN = Entry(
    "The sink `{name}` is partitioned by `{column}`, which its rows do not have.", "Its columns are: {known}."
)
FILES_NO_COLUMNS = Entry(
    "All columns of the sink `{name}` are partition columns, so its files would be empty.",
    "Leave at least one column out of `partition_by`.",
)
FILES_TEXT_COLUMN = Entry(
    "Text files hold one column of text, and the sink `{name}` gets: {columns}.",
    "Make one column of them, for instance `SELECT to_json(struct(*)) AS value`, or choose another format.",
)
FILES_CSV_COLUMN = Entry(
    "A csv file can't hold the column `{column}` ({type}) of the sink `{name}`.",
    "Turn it into text, for instance `to_json({column}) AS {column}`, or choose another format.",
)
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
CATALOG_NO_TABLE = Entry(
    "The source `{name}` reads the table {table}, which no catalog of this Spark has.",
    "{hint} Tables of another process are there only through a catalog that outlives it: "
    "set one under `spark:`, see the guide on catalog tables.",
)
FILES_STORED_SCHEMA = Entry(
    "The schema that was inferred at the first start can't be read from {file}.",
    "Write the columns under `schema:` instead of `infer_schema: true`, or restore the file.",
)


# What can go wrong when bytes become columns.

REGISTRY_UNREACHABLE = Entry(
    "The schema registry of the source `{name}` can't be used ({place}): {reason}.",
    "See that it runs at this address, is reached from here and takes the user and password; then start "
    "again.",
    retry=True,
)
REGISTRY_GONE = Entry(
    "The query `{sink}` needs a schema that it has not read yet, and the registry {place} gives none: "
    "{reason}.",
    "No row was set aside for that: start again when the registry answers, and the batch is repeated.",
    retry=True,
)
REGISTRY_NO_FOLDER = Entry(
    "The schemas of the source `{name}` should be in {place}, and there is no such folder.",
    "Make it, and put each schema into a file `<id>.avsc`.",
)
AVRO_PACKAGE = Entry(
    "The source `{name}` reads Avro, for which a Python package is missing.",
    "Install it here and where the executors run: pip install 'headwater[avro]'.",
)


# What can be wrong with static sources, and what can happen to them.

STATIC_KEY = Entry(
    "The key `{key}` does nothing for the source `{name}`, which is a stream.",
    "Take it out, or write `static: true` to have the source read as a finished table.",
)
STREAM_KEY = Entry(
    "The key `{key}` does nothing for the source `{name}`, which is static: it is read whole.",
    "Take it out, or take out `static: true` to have the source read as a stream.",
)
CACHE_EVERY_BATCH = Entry(
    "The source `{name}` can't have `cache: true` with `refresh: every batch`: the kept rows would never be "
    "used a second time.",
    "Take `cache` out, or refresh less often, for instance `refresh: every 10 minutes`.",
)
NO_REFRESH = Entry(
    "The source `{name}` can't be refreshed: with `{connector}` Spark alone decides when it looks again.",
    "Take `refresh` out.",
)
STATIC_UNREADABLE = Entry(
    "The static source `{name}` can't be read: {says}.",
    "Put it right and start again: a batch that needed it was not written, and runs then.",
)
STATIC_FILE_GONE = Entry(
    "A file of a static source was removed or written over while the query `{sink}` read it.",
    "Its batch runs again with the files that are there now.",
)
STATIC_WRITTEN_OVER = Entry(
    "A file of the static source `{name}` was written over in its place: {file}.",
    "Batches read the files that are there now. Write new files aside and rename them into place, or say "
    "with `refresh:` when changes are to be seen.",
)


# Tables in the memory of a run, and queries over them.

RUN_SQL_REFUSED = Entry(
    "Spark refuses the query: {says}.", "Mend the SQL; the tables in memory are: {tables}."
)
RUN_SQL_STREAM = Entry(
    "The query reads a stream, which has no end.",
    "Query a table in memory: {tables}. To have another, add a `memory` sink that reads the stream's table.",
)
SINK_KIND_CHANGED = Entry(
    "The checkpoint of `{sink}` was made by a `{old}` sink, and now it is `{new}`: {says}.",
    "Give the sink another name, or start from the beginning with a new run folder (`folder:`); either with "
    "another output folder.",
)
CHECKPOINT_NOT_REMOVED = Entry(
    "The sink `{sink}` begins anew at each start, but its old checkpoint {path} can't be removed: {reason}.",
    "See to it that this user may remove it: `rm -r {path}`.",
)
