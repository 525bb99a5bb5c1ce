"""Problems that Spark finds: while a pipeline is analyzed, and while it runs."""

from headwater.errors.problems import Entry

SETTING_TOO_LATE = Entry(
    "Cannot set `{key}: {value}`: Spark is already running in this process (current value: {now}).",
    "Run this pipeline in a separate process, or set the value where that Spark session is created.",
)
SQL_SYNTAX = Entry("Table `{name}`: invalid SQL: {says}.", "{hint}")
COLUMN_NOT_FOUND = Entry("{where}: column {column} not found.", "{hint}")
WATERMARK_COLUMN_NOT_FOUND = Entry("Watermark column `{column}` not found in {where}.", "{hint}")
WATERMARK_TYPE_INVALID = Entry(
    "Watermark column `{column}` of {where} must be a timestamp, got {type}.",
    "Declare the column as `timestamp`, or convert it in a table with `to_timestamp({column})` and set "
    "`watermark` on that table.",
)
FUNCTION_NOT_FOUND = Entry(
    "{where}: function {function} not found.",
    "Check the spelling, or declare your own function under `functions:`.",
)
TYPE_MISMATCH = Entry(
    "{where}: incompatible types: {says}.", "Cast one side, for example `CAST(x AS double)`."
)
STREAM_OPERATION_UNSUPPORTED = Entry(
    "{where} uses an operation that Spark does not support on streams: {says}.", "{hint}"
)
MODE_UNSUPPORTED = Entry("Sink `{sink}`: this query does not support {mode} mode: {says}.", "{hint}")
SINK_MODE_UNSUPPORTED = Entry(
    "Sink `{sink}`: the {connector} connector does not support {mode} mode.", "{hint}"
)
SPARK_ANALYSIS_FAILED = Entry(
    "Spark rejected {where}: {says}.",
    "Fix the cause that Spark names. To see the full Spark error, add `--verbose`.",
)
TABLE_CODE_FAILED = Entry(
    "Table `{name}`: the function failed: {error}.",
    "Fix the function at this line. To see the traceback, add `--verbose`.",
)
CLASS_CODE_FAILED = Entry(
    "The class of {where} failed: {error}.",
    "Fix the class at this line. To see the traceback, add `--verbose`.",
)
TABLE_NOT_A_DATAFRAME = Entry(
    "Table `{name}`: the function must return a DataFrame, got {returned}.",
    "Return a DataFrame that is derived from the function's parameters.",
)
TABLE_ACTION_UNSUPPORTED = Entry(
    "Table `{name}`: the function calls {action}, but streams do not support actions.",
    "Return the DataFrame without running an action. To process each batch, add a `foreach_batch` sink.",
)
TABLE_WRITE_UNSUPPORTED = Entry(
    "Table `{name}`: the function calls {call}, but a table function must only return a DataFrame. "
    "Headwater calls it at every check and before every start.",
    "Return the DataFrame, and declare a sink that reads the table. To process each batch, use a "
    "`foreach_batch` sink.",
)
SINK_NOT_STREAMING = Entry(
    "Sink `{sink}` reads `{reads}`, but none of its sources is a stream.",
    "Remove `static: true` from one of the sources, or run the pipeline with `headwater run --batch`.",
)
DEDUP_NEEDS_WATERMARK = Entry(
    "Table `{name}`: deduplication within the watermark needs a watermark, but {source} has none.",
    "Declare a watermark: `watermark: {{column: at, delay: 10 minutes}}` on the source, or `withWatermark` "
    "in PySpark. To deduplicate without a time limit (unbounded state), remove `within: watermark` or use "
    "`dropDuplicates`.",
)
WORKER_TOO_SLOW = Entry(
    "Query `{sink}` failed: a Python worker did not start within Spark's limit of 10 s.",
    "Restart the pipeline; the batch is retried. If it happens again, run fewer sinks or add cores.",
    retryable=True,
)
BATCH_UNSUPPORTED = Entry(
    "{what} `{name}` ({connector}) does not support batch runs.",
    "Use an alternative that supports batch runs: a source with stored data, `deduplicate` without "
    "`within`, or `applyInPandas`.",
)
BATCH_OUTPUT_DIR_MISSING = Entry(
    "Sink `{sink}`: a batch run cannot write to {place}, because the stream writes there.",
    "Write the results to a different directory: `headwater run --batch --output-dir results/`.",
)
BATCH_APPEND_REQUIRED = Entry(
    "Sink `{sink}`: a batch run would append its rows to {place}, where the stream also writes.",
    "To append the rows anyway, run `headwater run --batch --append`.",
)
BATCH_OUTPUT_DIR_CONFLICT = Entry(
    "A batch run cannot replace {place}: {why}.", "Set `--output-dir` to a different or an empty directory."
)
QUERY_CODE_FAILED = Entry(
    "Query `{sink}` failed in your code: {error}.",
    "Fix the code at this line and restart. The batch is retried from its checkpoint.",
)
ROW_MALFORMED = Entry(
    "Query `{sink}` failed on a row that does not match the schema: {says}.",
    "Fix the file or the schema and restart; the batch is retried. To quarantine such rows instead, set "
    "`bad_rows: quarantine` on the source.",
)
DATA_FILE_UNREADABLE = Entry(
    "Query `{sink}` could not read a file: {says}.",
    "Fix the file or move it out of the directory, then restart. To quarantine such files instead, set "
    "`bad_rows: quarantine` on the source.",
)
FILE_DELETED = Entry(
    "Query `{sink}` could not find a file that it had listed before: {says}.",
    "Restore the file and restart. The batch is retried from its checkpoint.",
)
QUERY_FAILED = Entry(
    "Query `{sink}` failed: {says}.", "Fix the cause and restart. The full error is in {log}."
)
SPARK_DIED = Entry(
    "Spark ended while query `{sink}` was running: its process was killed or ran out of memory.",
    "Check the end of {log}, then restart. The batch is retried from its checkpoint.",
    retryable=True,
)
CONNECTION_FAILED = Entry(
    "Query `{sink}` could not connect to a server: {says}.",
    "Check that the server is running and reachable at the address in the pipeline file, then restart.",
    retryable=True,
)
OUT_OF_MEMORY = Entry(
    "Query `{sink}` ran out of memory: {says}.",
    "Give Spark more memory with `spark: {{spark.driver.memory: 4g}}`, or make batches smaller with a limit on the "
    "source, such as `max_files_per_batch`. Then restart; the batch is retried.",
)
WORKER_DIED = Entry(
    "Query `{sink}` failed: a Python worker exited unexpectedly ({says}).",
    "Check whether the system killed it for lack of memory, or whether your code crashes Python. The batch is "
    "retried at the restart.",
    retryable=True,
)
USER_CONNECTION_FAILED = Entry(
    "Query `{sink}`: your code could not reach a server: {error}.",
    "Check that the server is running and reachable, then restart. The batch is retried from its checkpoint.",
    retryable=True,
)
RESTARTS_USED_UP = Entry(
    "Query `{sink}` is not restarted again: it was restarted {attempts} times within {within}.",
    "Fix the cause of its failure, then start it with `headwater restart {sink}` or restart the run. To allow more "
    "restarts, set `restart: {{attempts: …, within: …}}`.",
)
RUN_STARTING = Entry(
    "Pipeline `{pipeline}` is still starting.",
    "Wait until its queries run: `headwater status` shows when they do.",
    retryable=True,
)
RUN_START_STOPPED = Entry(
    "Pipeline `{pipeline}` did not start: `headwater stop` stopped it before its queries ran.",
    "To run it, start it again.",
)
SPARK_RESTARTING = Entry(
    "Spark is restarting, so the run cannot be queried.",
    "Retry in a minute: `headwater status` shows when the queries run again.",
    retryable=True,
)
RUN_ENDED = Entry(
    "Cannot restart query `{sink}`: its run is stopping or has ended.",
    "Start the pipeline with `headwater run`.",
)
QUERY_STOPPING = Entry(
    "Cannot restart query `{sink}`: a stop was requested, and its current batch is not finished.",
    "Wait until it has stopped, as `headwater status` shows, then run `headwater restart {sink}` again.",
    retryable=True,
)
METRICS_EXPOSED = Entry(
    "Every host that reaches {address} can read metrics: names of pipelines, queries and sources, paths, counts and "
    "alerts.",
    "Restrict access to port {port} with a firewall or a network policy, or use `--metrics 127.0.0.1:{port}`.",
)
FORCED_STOP = Entry(
    "A second interrupt stopped the run immediately.",
    "Restart the pipeline; the interrupted batches are retried.",
)
FORCED_STOP_AT_START = Entry(
    "A second interrupt stopped the pipeline during startup.",
    "Restart the pipeline; a batch that had already started is retried.",
)
MONITOR_FAILED = Entry(
    "Headwater could not monitor the queries and stopped them: {says}.",
    "Restart; the queries resume from their checkpoints. Report this bug with the output of `--verbose`.",
)
EVENT_PROCESSING_FAILED = Entry(
    "Headwater could not process a Spark event: {says}. The queries continue, but counts may be too low.",
    "Report this bug with the pipeline's `spark.log`.",
)
PROGRESS_LOST = Entry(
    "Query `{sink}`: Spark dropped progress reports ({lost:,}), so the counts of this run are too low.",
    "Set `spark.sql.streaming.numRecentProgressUpdates` to 100 or more.",
)
PROGRESS_UNREADABLE = Entry(
    "Query `{sink}` stopped, but Headwater could not read its last progress within {limit}. The counts of "
    "this run may be too low.",
    "Check the pipeline's `spark.log` for the cause, such as an unresponsive JVM. Committed batches are not "
    "affected.",
)
STOP_TIMEOUT = Entry(
    "Query `{sink}`: the current batch did not finish within {limit} and was interrupted.",
    "Restart to retry the batch. To wait longer on shutdown, set `--stop-timeout`.",
)
QUERY_STUCK = Entry(
    "Could not stop query `{sink}`: its batch does not react to an interrupt.",
    "The request stays in effect: the query stops as soon as its code returns. To end it now, end the process of the "
    "run; Spark ends with it.",
)
BACKLOG_GROWING = Entry(
    "Query `{sink}` is falling behind: {path} has a backlog of {waiting:,} files, and the last batch read "
    "{taken:,}.",
    "If the backlog does not shrink, raise `{limit}` on the source.",
)
QUERY_METADATA_UNREADABLE = Entry(
    "Could not read the query metadata in {file}: {says}.",
    "Restore the file from a backup, or delete it: `rm {file!r}`. Without it, Headwater cannot compare the "
    "pipeline with its last start.",
)
RUN_DIR_CONFLICT = Entry(
    "Run directory {directory} belongs to pipeline `{owner}`, but this pipeline is `{name}`.",
    "Set a separate `run_dir` for this pipeline, or restore its old name.",
)
INPUT_IDLE = Entry(
    "{query}: idle {inputs} the watermark (no rows since {since}; {watermark}).",
    "Have the source send a row regularly, such as a heartbeat. If rows may arrive late, set "
    "`watermark_policy: fastest` before the first start: the watermark then ignores idle inputs, and Spark "
    "drops rows that arrive behind it.",
)
MAINTENANCE_FAILED = Entry(
    "A maintenance task failed between batches: {says}.",
    "Check `logs/failures.log` for the cause. The queries continue, and Headwater retries the task after "
    "the next batch.",
    retryable=True,
)


# Problems with a checkpoint directory and its lock.

CHECKPOINT_UNREADABLE = Entry(
    "Could not read checkpoint file {file}: {reason}.",
    "Check that the file exists and that this user can read it: `ls -la {file!r}`.",
)
CHECKPOINT_METADATA_CORRUPT = Entry(
    "Checkpoint file {file} is corrupt, so the query ID is unknown: {reason}.",
    'Restore the file from a backup. If a log shows the ID, write this line into the file: `{{"id":"<the '
    'ID>"}}`.',
)
CHECKPOINT_OFFSETS_CORRUPT = Entry(
    "Offset file {file} of batch {batch} is corrupt: {reason}.",
    "If `commits/{batch}` does not exist, run `rm -f {file!r} {checksum!r}`; Spark then plans the batch "
    "again. Otherwise, restore the checkpoint from a backup.",
)
CHECKPOINT_COMMIT_CORRUPT = Entry(
    "Commit file {file} of batch {batch} is corrupt: {reason}.",
    "Run `rm -f {file!r} {checksum!r}`. Spark then retries the batch with the same offsets.",
)
CHECKPOINT_FILE_LOG_CORRUPT = Entry(
    "Log file {file}, which lists the files of batch {batch}, is corrupt: {reason}.",
    "Restore the file from a backup. Spark cannot start this query without it.",
)
CHECKPOINT_FILE_LOG_INVALID = Entry(
    "{file} is not a list of files: a different kind of source wrote it.",
    "Read the offsets of that source from the `offsets` directory of the checkpoint.",
)
CHECKPOINT_VERSION_UNSUPPORTED = Entry(
    "Checkpoint file {file} has version {version}, but this version of Headwater supports only v{newest} "
    "and older.",
    "Upgrade Headwater to a version that supports the Spark that wrote it: `pip install --upgrade "
    "headwater`.",
)
CHECKPOINT_LOCKED = Entry(
    "Checkpoint {checkpoint} is locked by run {run} (process {pid}, user {user}, host {host}) since {since}.",
    "Wait for that run to finish, or stop it with `kill {pid}`. To start from scratch instead, set a "
    "different `run_dir`.",
)
CHECKPOINT_LOCKED_BY_THIS_PROCESS = Entry(
    "Checkpoint {checkpoint} is already locked by run {run} in this process ({pid}) since {since}.",
    "Stop that run first, or set a different `run_dir` for this pipeline.",
)
CHECKPOINT_LOCKED_ELSEWHERE = Entry(
    "Checkpoint {checkpoint} is locked by run {run} (process {pid}, user {user}, host {host}) since "
    "{since}. Last heartbeat: {seen}.",
    "Stop that run on {host} with `kill {pid}`. If it has died, start again after {free_at}.",
    retryable=True,
)
CHECKPOINT_BUSY = Entry(
    "Checkpoint {checkpoint}: another run has been starting for more than {seconds} s.",
    "Try again. If the problem persists, find the process that holds the lock: `fuser {guard!r}`.",
    retryable=True,
)
LOCK_LOST = Entry(
    "This run lost the lock on checkpoint {checkpoint} to run {run} (process {pid}, user {user}, host "
    "{host}) at {since}.",
    "Stop the other run with `kill {pid}`, then restart this one. A run loses its lock if it sends no "
    "heartbeat for 60 s.",
)
LOCK_REMOVED = Entry(
    "Lock file {file} of this run was deleted or overwritten, so another run may use the checkpoint.",
    "Restart the run, and do not touch the file while it is running.",
)
LOCK_VERSION_UNSUPPORTED = Entry(
    "Lock file {file} has version {version}, but this version of Headwater supports version {known}.",
    "Use the version of Headwater that wrote it. If no run uses this checkpoint, delete it: `rm {file!r}`.",
)
LOCK_UNUSABLE = Entry(
    "Could not read or write lock file {file}: {reason}.",
    "Check that the disk has free space and that this user can write to the directory: `df {directory!r}; "
    "ls -ld {directory!r}`.",
    retryable=True,
)
JVM_STILL_RUNNING = Entry(
    "Run {run} has died, but its Spark process {pid} is still running and may write to checkpoint "
    "{checkpoint}.",
    "Run `kill -9 {pid}`, then start again.",
    retryable=True,
)
CHECKPOINT_UPDATE_FAILED = Entry(
    "Headwater could not update {directory} for this start: {reason}.",
    "Fix the cause and restart. The next start completes the update; no data is lost.",
    retryable=True,
)
CHECKPOINT_FIRST_BATCH_PENDING = Entry(
    "Checkpoint {checkpoint} contains only batch {batch}, which is not committed. With a continuous "
    "trigger, the query would lose its start offsets and could skip rows.",
    "Run the pipeline with the previous trigger until a batch is committed, then change the trigger. To "
    "start from scratch instead, stop the pipeline and delete {checkpoint}.",
)
CHECKPOINT_INPUTS_CORRUPT = Entry(
    "File {file}, which lists the sources of a checkpoint, is corrupt: {reason}.",
    "Run `rm -f {file!r}` and restart. Headwater then uses the sources of the last start. If they do not "
    "match the checkpoint, it changes nothing.",
)
CHECKPOINT_REPLAY_FAILED = Entry(
    "Checkpoint {directory}: could not add the source of replayed rows: {reason}.",
    "Fix the cause and restart. The next start completes the change and keeps the old checkpoint as a "
    "backup.",
)


# Queries that cannot run as declared and that no rule covers.

PIVOT_UNSUPPORTED = Entry(
    "`pivot` runs two aggregations in a row. Streams do not support this in {mode} mode.",
    "Write one column per value: `count_if(kind = 'a') AS a, count_if(kind = 'b') AS b`, or `sum(n) FILTER "
    "(WHERE kind = 'a') AS a`.",
)
SUBQUERY_UNSUPPORTED = Entry(
    "{where}: subqueries (IN, EXISTS or a scalar subquery) cannot read a stream.", "{hint}"
)
SOURCE_NOT_REPLAYABLE_TWICE = Entry(
    "Query `{sink}` reads source `{name}` ({connector}) {count} times and would get different rows each "
    "time.",
    "Store the rows with a `files` sink, and join them in a second pipeline that reads its directory.",
)
JARS_ADDED_TOO_LATE = Entry(
    "Query `{sink}` cannot run with trigger `{trigger}` in this process: Spark was already running when the "
    "connector's jars were added, so it would never commit an epoch.",
    "Start the pipeline with `headwater run`, or start Spark with `spark.jars` set to {jars}.",
)
REAL_TIME_NOT_AVAILABLE = Entry(
    "Spark {version} does not support the real-time trigger.",
    "Upgrade to Spark 4.1 or later, or use a different trigger such as `every 1 second`.",
)
UNTIL_IDLE_UNSUPPORTED = Entry(
    "Query `{sink}`: trigger `{trigger}` does not support `--until-idle` and `wait_idle()`, because it "
    "never becomes idle.",
    "Remove `--until-idle`, or use a trigger with batches, such as `every 1 second`.",
)


# Quarantined rows and their replay.

QUARANTINE_UNREADABLE = Entry(
    "Could not read quarantine file {file}: {reason}.",
    "Check whether the file was changed or deleted, and restore it. Rows in other files are not affected.",
)
QUARANTINE_NOT_FOUND = Entry(
    "`{name}` has no quarantine. {known}.",
    "List the quarantines: `headwater quarantine list {file}`. To quarantine rows, set `bad_rows: "
    "quarantine` on a source or `on_violation: quarantine` on an expectation.",
)
REPLAY_TRIGGER_UNSUPPORTED = Entry(
    "Sink `{sink}` reads `{name}` with trigger `{trigger}`. This trigger supports only one source, so rows "
    "cannot be replayed.",
    "Set a different trigger, such as `every 10 seconds`, and keep it. The query reads replayed rows from "
    "then on.",
)
REPLAY_QUERY_UNSUPPORTED = Entry(
    "Query `{sink}` reads `{stream}` more than once (in a UNION or a self-join), so rows of `{name}` cannot "
    "be replayed.",
    "Read it once, and use `CASE` or `explode` for the branches. Or export the rows with `headwater "
    "quarantine export` and send them to the source again.",
)
REPLAY_TARGET_MISSING = Entry(
    "Replayed rows of `{name}` would not reach any query: {why}.",
    "Declare `{name}` as it was when the rows were quarantined, and add a sink that reads it. Or export the "
    "rows: `headwater quarantine export {file} {name}`.",
)
REPLAY_FILE_INVALID = Entry(
    "{file}: line {line} is not a corrected row: {reason}.",
    "Use the format of `headwater quarantine export`: one JSON object per line. Correct `text`, or `value` "
    "(Base64) if the row is binary.",
)
REPLAY_FILE_UNREADABLE = Entry(
    "Could not read the corrected rows in {file}: {reason}.",
    "Check the path. To create a file, run `headwater quarantine export … --output FILE`.",
)
EXPORT_FILE_UNWRITABLE = Entry(
    "Could not write the rows to {file}: {reason}.",
    "Set `--output` to a file in an existing directory that this user can write to, or omit it to print the "
    "rows.",
)
REPLAY_OFFSET_UNKNOWN = Entry(
    "Query `{sink}`: its progress in `{name}` is unknown, so replayed rows could be duplicated. The "
    "checkpoint does not match the metadata of its last start.",
    "Run the pipeline once with `headwater run {file} --until-idle`, then replay the rows.",
)
REPLAYED_ROWS_MISSING = Entry(
    "Query `{sink}` has read replayed rows of `{source}`, but their directory {directory} does not exist.",
    "Restore the directory. The query cannot resume without it.",
)
REPLAYED_ROWS_DROPPED = Entry(
    "Query `{sink}` has read replayed rows of `{source}`, but its new definition does not read them.",
    "Have the sink read `{source}` as before. For a different query, rename the sink; it then starts from "
    "scratch.",
)
REPLAYED_ROWS_INVALID = Entry(
    "Table `{table}`: a replayed row is not a JSON object with all required columns: {row}.",
    "Add an expectation with `on_violation: quarantine` to the table (the condition `true` is enough) and "
    "restart. The row is then quarantined, and you can correct and replay it again.",
)


# Bad rows.

BAD_ROW = Entry(
    "Source `{source}`: bad row at {where}: {reason}.",
    "Fix the row at its origin, or set `bad_rows: quarantine` on the source to quarantine bad rows and keep "
    "running. Other options: `drop`, `keep`.",
)
QUARANTINE_STATIC_SOURCE = Entry(
    "Source `{name}`: a static source does not support `bad_rows: quarantine`, because it is re-read for "
    "each batch.",
    "Set `bad_rows` to `drop`, `keep` or `fail`, or remove `static`.",
)
BAD_ROWS_UNSUPPORTED = Entry(
    "Source `{name}`: the {connector} connector does not detect bad rows and does not support `{key}`.",
    "Remove `{key}`, and check the rows with an expectation on a table (`expect:`).",
)


# The history of runs, and other consumers of their events.

HISTORY_NOT_FOUND = Entry(
    "History {file} not found.",
    "Check the path. A pipeline has a history after its first start: `headwater run FILE`.",
)
HISTORY_VERSION_UNSUPPORTED = Entry(
    "History {file} has version {version}, but this version of Headwater supports version {known}.", "{hint}"
)
HISTORY_UNREADABLE = Entry(
    "Could not read history {file}: {reason}.",
    "Check that this user can read the file. If it is damaged, the next start of the pipeline replaces it.",
    retryable=True,
)
HISTORY_DAMAGED = Entry(
    "History {file} is damaged: {reason}. Headwater moved it to {backup} and started a new one.",
    "Check the disk. To recover the old data, run `sqlite3 {backup} .recover`. Otherwise, delete the file.",
)
HISTORY_UNWRITABLE = Entry(
    "Could not write history {file}: {reason}. The queries continue, and Headwater tries again.",
    "Check that the disk has free space and that this user can write to {directory}.",
    retryable=True,
)
EVENTS_DROPPED = Entry(
    "Events are missing in {consumer}: it is too slow, or it could not write or send them. The queries continue.",
    "Run `headwater status` to see how many. Look for an earlier message with the cause, such as a full disk.",
)
EVENT_LOG_UNWRITABLE = Entry(
    "Could not write event log {file}: {reason}. The queries continue without it.",
    "Check that the disk has free space and that this user can write to the file.",
    retryable=True,
)
WEBHOOK_FAILED = Entry(
    "The webhook did not accept an event of kind `{kind}`: {reason}.",
    "Check that the URL in `webhook` is correct and that its server is running.",
    retryable=True,
)
WEBHOOK_REDIRECTED = Entry(
    "The server of the webhook redirected an event of kind `{kind}` ({reason}). Headwater does not follow redirects: "
    "the event would become a GET request, or another server would receive it.",
    "Set `webhook` to the address that the server redirects to, such as the one with `https://` or with a final `/`.",
)
EVENT_FUNCTION_FAILED = Entry(
    "Function {function} failed on an event of kind `{kind}`: {error}.",
    "Fix the function that `on_event` names. The queries are not affected.",
)
