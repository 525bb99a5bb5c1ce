"""Errors of the database sinks."""

from __future__ import annotations

from headwater.errors import Entry, name_entries

# Before the start.

DATABASE_DRIVER_MISSING = Entry(
    "Sink `{sink}`: the {connector} connector needs the Python package `{package}`, which is not installed.",
    "Run `pip install 'headwater[{extra}]'`, also on the executors of a cluster.",
)
DATABASE_NAME_INVALID = Entry(
    "Sink `{sink}`: {what} `{name}` is not a valid name in {database}: {why}.",
    "{hint}",
)
DATABASE_TYPE_UNSUPPORTED = Entry(
    "Sink `{sink}`: column `{column}` has type {type}, which {database} cannot store.",
    "Cast it in the table, for example `CAST({column} AS STRING) AS {column}`.",
)
DATABASE_KEY_REQUIRED = Entry(
    "Sink `{sink}`: update mode needs `key`, the columns that identify a row.",
    "Set `key` to the columns by which the query groups its rows, such as `key: [{example}]`.",
)
DATABASE_KEY_UNUSED = Entry(
    "Sink `{sink}`: `{key}` has no effect in {mode} mode.",
    "Remove `{key}`, or set `mode: update`.",
)
DATABASE_KEY_NOT_FOUND = Entry(
    "Sink `{sink}`: column `{column}` of `key` not found.", "{hint} Existing columns: {columns}."
)
DATABASE_TABLE_NOT_FOUND = Entry(
    "Sink `{sink}`: table {table} not found, and `create: never` is set.",
    "Run `{statement}`, or remove `create: never`.",
)
DATABASE_TABLE_MISMATCH = Entry(
    "Sink `{sink}`: table {table} does not match the rows: {differences}.", "{hint}"
)
DATABASE_READ_FAILED = Entry(
    "Sink `{sink}`: could not read the table from {database}: {says}.",
    "Check that the database is reachable and that its user may read the table. Then repeat the query.",
    retryable=True,
)
DATABASE_LEDGER_FOREIGN = Entry(
    "Sink `{sink}`: another query has written table {table}: {who}. This query has a new checkpoint and would "
    "write all its rows again.",
    "Continue with the checkpoint of that query. Or start over: empty the table and run `{statement}`. Or keep its "
    "rows and write to the same table: set `other_writers: allow`.",
)
DATABASE_FUNCTION_FOREIGN = Entry(
    "`hw.sinks.exactly_once`: another query has called the function `{table}`: {who}. This query has a new checkpoint "
    "and would call it with all its rows again.",
    "Continue with the checkpoint of that query. Or start over: remove the rows that the function has stored and run "
    "`{statement}`. Or pass another `name`.",
)
DATABASE_LEDGER_AHEAD = Entry(
    "Sink `{sink}`: table {table} already contains batch {recorded} of this query, but the checkpoint continues "
    "with batch {batch}. The checkpoint is older than the table.",
    "Restore the newer checkpoint. Or run `{statement}`, after you have removed the rows of batch {batch} and later "
    "from the table.",
)
DATABASE_LEDGER_BEHIND = Entry(
    "Sink `{sink}`: the newest batch of this query in table {table} is {recorded}, but the checkpoint continues with "
    "batch {batch}. The table is older than the checkpoint, and lacks the batches between them.",
    "Restore the newer table and its ledger, or a checkpoint as old as the table. Or run `{statement}` to continue "
    "without the rows of these batches.",
)
DATABASE_LEDGER_RUN_NEWER = Entry(
    "Sink `{sink}`: the ledger of table {table} contains run {recorded} of this query, but this is run {epoch}. The "
    "run directory does not contain the number of the newest run, or a plain PySpark query used the checkpoint.",
    "Stop every other run of this query. Then run `{statement}` and restart.",
)

DATABASE_SINK_INVALID = Entry("`hw.sinks.{function}`: {says}.", "Correct the arguments of the call.")

# While a query runs.

DATABASE_NO_QUERY = Entry(
    "`hw.sinks.{function}` got a batch outside of a streaming query.",
    "Pass the function to `writeStream.foreachBatch(…)`, and start the query. Headwater does not support Spark "
    "Connect.",
)

DATABASE_ADDRESS_INVALID = Entry(
    "Sink `{sink}`: the value of `url` is not a valid address: {why}.",
    "Correct `url` or its secret. Or write the parts of the address in the pipeline file, such as "
    "`postgresql://shop:${{secret:PASSWORD}}@localhost:5432/shop`: Headwater percent-encodes the password.",
)
DATABASE_UNAVAILABLE = Entry(
    "Sink `{sink}`: the database is unavailable: {says}.",
    "Check `{address}` and that the server accepts connections, then restart. A batch is written completely or "
    "not at all.",
    retryable=True,
)
DATABASE_SUPERSEDED = Entry(
    "Sink `{sink}`: the database rejected batch {batch} of this run (number {epoch}), because run {newer} of "
    "the same query has taken over.",
    "Stop this run. The newer run continues the query. If no newer run exists, restart this one: its check reports "
    "the statement that corrects the ledger.",
)
DATABASE_KEY_REPEATED = Entry(
    "Sink `{sink}`: a batch contains several rows with the same key ({key}), and their order is undefined.",
    "Emit one row per key, for example with an aggregation, or add a column to `key`.",
)
DATABASE_KEY_NULL = Entry(
    "Sink `{sink}`: a row has a null in `key` ({key}), and the unique index of the table does not treat nulls as "
    "equal.",
    "Filter out such rows, or replace nulls with `coalesce`. On PostgreSQL 15 or later, you can also recreate "
    "the index with `NULLS NOT DISTINCT`.",
)
DATABASE_VALUE_REJECTED = Entry(
    "Sink `{sink}`: column `{column}` contains {value}, which {database} cannot store.",
    "Remove it in the table, or quarantine such rows with an expectation: `condition: {condition}`, "
    "`on_violation: quarantine`.",
)
DATABASE_OUTCOME_UNKNOWN = Entry(
    "Sink `{sink}`: the database did not confirm the commit of a batch run: {says}. Table {table} contains all its "
    "rows or none.",
    "In append mode, first check whether the table contains the rows. Then repeat the batch run if they are missing. "
    "In other modes, repeat it in any case.",
)
DATABASE_WRITE_FAILED = Entry(
    "Sink `{sink}`: the database rejected a statement: {says}.",
    "Fix the cause and restart. The batch was not written.",
)

ENTRIES = name_entries(globals())
