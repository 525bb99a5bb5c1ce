"""Problems with connectors."""

from headwater.errors.problems import Entry

CONNECTOR_NOT_FOUND = Entry(
    "Unknown {side} connector `{name}`.", "{hint} Installed {side} connectors: {known}."
)
CONNECTOR_LOAD_FAILED = Entry(
    "Could not load connector `{name}` ({module}): {error}.",
    "Reinstall or uninstall the package that provides the connector.",
)
CONNECTOR_FILE_OUTSIDE_RUN_DIR = Entry(
    "`{name}`: the {connector} connector tried to store {file}, which is outside the run directory "
    "{directory}.",
    "Report this bug to the authors of the connector: files must be stored below `context.directory.path`.",
)
CONNECTOR_NAME_CONFLICT = Entry(
    "Two installed packages provide a connector named `{name}` (one is {other}).", "Uninstall one of them."
)
SINK_LOG_PATH_INVALID = Entry(
    "The log of directory {folder} lists a file outside of it: {file}.",
    "Move the directory back (Spark's log contains absolute paths), or give the sink a new name and a new "
    "output path; it then starts from scratch.",
)


# Static sources: invalid options, and problems while a run uses them.

OPTION_NEEDS_STATIC = Entry(
    "Source `{name}`: `{key}` has no effect on a stream.",
    "Remove `{key}`, or set `static: true` to read the source as a static table.",
)
OPTION_NEEDS_STREAM = Entry(
    "Source `{name}`: `{key}` has no effect on a static source, which is read completely.",
    "Remove `{key}`, or remove `static: true` to read the source as a stream.",
)
CACHE_REFRESH_CONFLICT = Entry(
    "Source `{name}`: `cache: true` has no effect with `refresh: every batch`, because cached rows would "
    "never be reused.",
    "Remove `cache`, or refresh less often, for example `refresh: every 10 minutes`.",
)
REFRESH_UNSUPPORTED = Entry(
    "Source `{name}`: the {connector} connector does not support `refresh`. Spark decides when to re-read "
    "the data.",
    "Remove `refresh`.",
)
STATIC_UNREADABLE = Entry(
    "Could not read static source `{name}`: {says}.",
    "Fix the source and restart. Batches that need it have not been written and are retried.",
)
STATIC_FILE_DELETED = Entry(
    "Query `{sink}`: a file of a static source was deleted or overwritten while the query read it. Headwater "
    "retries the batch with the current files.",
    "Add new files instead of changing existing ones.",
)
STATIC_FILE_OVERWRITTEN = Entry(
    "Source `{name}`: a file of this static source was overwritten in place: {file}.",
    "Write new files to a temporary name and rename them, or set `refresh:` to control when changes take "
    "effect. Batches now read the current files.",
)


# Queries over the tables of a run, and memory tables.

RUN_SQL_INVALID = Entry("The query failed: {says}.", "Fix the SQL. Available tables: {tables}.")
RUN_SQL_STREAM_UNSUPPORTED = Entry(
    "Cannot query a stream.",
    "Query one of: {tables}. To query another table, add a `memory` sink that reads it.",
)
SQL_NOT_READ_ONLY = Entry("Expected one query that only reads, got {what}.", "Send one SELECT statement.")
SQL_TABLE_UNREADABLE = Entry(
    "Cannot query `{name}`: it is not a sink of this run that can be read back.",
    "Query one of: {tables}. To query another table, add a `memory` sink that reads it.",
)
SQL_FUNCTION_FORBIDDEN = Entry(
    "Cannot call `{name}` in a query over the tables of a run: {reason}.",
    "Remove the call. To query its result, call it in a table of the pipeline and add a `memory` sink.",
)
SQL_TIMEOUT = Entry(
    "The query exceeded its limit of {seconds} s and was canceled.",
    "Read fewer rows, for example with a filter, or set a longer `--timeout`.",
)
SQL_RESULT_TOO_LARGE = Entry(
    "The result of the query exceeds the limit of {size}.", "Select fewer rows or columns."
)
SQL_TABLE_TOO_LARGE = Entry(
    "The table of sink `{name}` exceeds the limit of {size}, so Headwater does not load it.",
    "Query the table in the database.",
)
SQL_BUSY = Entry(
    "The run already has {count} queries to answer.", "Retry when they are answered.", retryable=True
)
SINK_CONNECTOR_CHANGED = Entry(
    "Sink `{sink}`: the `{new}` connector cannot use a checkpoint of {old}, because {says}.",
    "Rename the sink, or set a new `run_dir` to start from scratch. In both cases, also set a new output "
    "path.",
)
CHECKPOINT_REMOVE_FAILED = Entry(
    "Sink `{sink}` starts from scratch at each start, but its old checkpoint {path} could not be deleted: "
    "{reason}.",
    "Check that this user can delete the directory: `rm -r {path}`.",
)
