"""What can go wrong on Spark: when a pipeline is analyzed, and while it runs."""

from headwater.errors.problems import Entry

SETTING_TOO_LATE = Entry(
    "`{key}: {value}` can't be set any more: the Spark of this process runs already, with {now}.",
    "Run this pipeline in a process of its own, or set it where that Spark is started.",
)
SQL_SYNTAX = Entry("The SQL of the table `{name}` can't be read: {says}.", "{hint}")
COLUMN_NOT_FOUND = Entry("{where} names the column {column}, which its input does not have.", "{hint}")
WATERMARK_COLUMN_NOT_FOUND = Entry(
    "The watermark of {where} is on `{column}`, which is none of its columns.", "{hint}"
)
WATERMARK_TYPE_INVALID = Entry(
    "The watermark of {where} is on `{column}`, which is {type} and no timestamp.",
    "Declare it as timestamp, or make one in a table (`to_timestamp({column})`) with the `watermark:` there.",
)
FUNCTION_NOT_FOUND = Entry(
    "{where} calls the function {function}, which Spark does not have.",
    "Check its spelling; functions of your own are declared under `functions:`.",
)
TYPE_MISMATCH = Entry(
    "{where} puts together types that don't fit: {says}.", "Cast one side, for instance `CAST(x AS double)`."
)
STREAM_OPERATION_UNSUPPORTED = Entry("{where} does what Spark can't do on a stream: {says}.", "{hint}")
MODE_UNSUPPORTED = Entry("The sink `{sink}` can't run in {mode} mode: {says}.", "{hint}")
SINK_MODE_UNSUPPORTED = Entry(
    "The sink `{sink}` is in {mode} mode, which the {connector} connector does not take.",
    "It takes: {modes}.",
)
SPARK_ANALYSIS_FAILED = Entry(
    "Spark refuses {where}: {says}.", "Mend what it names; `--verbose` shows Spark's full text."
)
TABLE_CODE_FAILED = Entry(
    "The function of the table `{name}` failed: {error}.",
    "Mend the function at this line; `--verbose` shows its traceback.",
)
CLASS_CODE_FAILED = Entry(
    "The class of {where} failed: {error}.", "Mend the class at this line; `--verbose` shows its traceback."
)
TABLE_NOT_A_DATAFRAME = Entry(
    "The function of the table `{name}` returned {returned} and not a DataFrame.",
    "Return a DataFrame made from its parameters.",
)
TABLE_ACTION_UNSUPPORTED = Entry(
    "The function of the table `{name}` runs {action} on a stream, which has no end.",
    "Return the DataFrame as it is; what should happen with each batch goes into a `foreach_batch` sink.",
)
TABLE_WRITE_UNSUPPORTED = Entry(
    "The function of the table `{name}` calls {call}, and such a function must only return a DataFrame: it "
    "is called at every check and before every start.",
    "Return the DataFrame, and declare a sink that reads the table; what should happen with each batch goes "
    "into a `foreach_batch` sink.",
)
SINK_NOT_STREAMING = Entry(
    "The sink `{sink}` reads `{reads}`, in which nothing streams.",
    "Take `static: true` off one of its sources, or run it with `headwater run --batch`.",
)
DEDUP_NEEDS_WATERMARK = Entry(
    "The table `{name}` is distinct within the watermark, and {source} has none.",
    "Declare one (`watermark: {{column: at, delay: 10 minutes}}` at the source, `withWatermark` in PySpark), "
    "or tell rows apart without a limit (no `within: watermark`, dropDuplicates), which never forgets.",
)
WORKER_TOO_SLOW = Entry(
    "The query `{sink}` failed: a Python process for your code did not start within Spark's ten seconds.",
    "The machine was too busy: start again, nothing is lost; with fewer sinks or more cores it comes less.",
    retry=True,
)
BATCH_UNSUPPORTED = Entry(
    "{what} `{name}` ({connector}) has no batch form.",
    "Leave it out of `run --batch`, or use in its place what has one: stored data, `distinct` without "
    "`within`, applyInPandas.",
)
BATCH_OUTPUT_DIR_MISSING = Entry(
    "The sink `{sink}` keeps what the stream wrote to {place}; a batch run must not write there.",
    "Name another folder: `headwater run --batch --into results/`.",
)
BATCH_APPEND_REQUIRED = Entry(
    "A batch run would add its rows to {place}, where the stream of the sink `{sink}` writes, too.",
    "If that is what you want: `headwater run --batch --append`.",
)
BATCH_OUTPUT_DIR_CONFLICT = Entry(
    "A batch run must not replace {place}: {why}.", "Name another folder with `--into`, or an empty one."
)
QUERY_CODE_FAILED = Entry(
    "The query `{sink}` failed in your code: {error}.",
    "Mend the code at this line and start again; the batch is repeated from its checkpoint.",
)
ROW_MALFORMED = Entry(
    "The query `{sink}` met a row that does not fit its schema: {says}.",
    "Mend the file or the schema; `bad_rows: quarantine` on the source sets such rows aside, and the others "
    "go on.",
)
DATA_FILE_UNREADABLE = Entry(
    "The query `{sink}` met a file that can't be read: {says}.",
    "Mend the file or move it away, and start again; `bad_rows: quarantine` on the source sets such files "
    "aside, and the others go on.",
)
FILE_DELETED = Entry(
    "The query `{sink}` can't read a file any more: {says}.",
    "Put the file back and start again; the batch is repeated from its checkpoint.",
)
QUERY_FAILED = Entry(
    "The query `{sink}` failed: {says}.",
    "The full text is in the log file of the run folder ({log}); start again once the cause is mended.",
)
SPARK_DIED = Entry(
    "Spark's process ended while the query `{sink}` ran: it was killed, or it had too little memory.",
    "Look at the end of {log}, then start again; the batch is repeated from its checkpoint.",
    retry=True,
)
CONNECTION_FAILED = Entry(
    "The query `{sink}` got no connection to a server: {says}.",
    "See that it runs where the pipeline file says, and is reached from here; then start again.",
    retry=True,
)
FORCED_STOP = Entry(
    "A second interrupt ended the run at once.", "The batch that ran is repeated at the next start."
)
FORCED_STOP_AT_START = Entry(
    "A second interrupt ended the start of the pipeline.",
    "Start again; should a batch have begun already, it is repeated.",
)
MONITOR_FAILED = Entry(
    "Headwater could not watch the queries any longer and stopped them: {says}.",
    "Start again, the queries go on from their checkpoints; report what `--verbose` shows.",
)
EVENT_PROCESSING_FAILED = Entry(
    "Headwater could not process a Spark event: {says}. The queries continue, but counts may be too low.",
    "Report this message with the pipeline's `spark.log`.",
)
PROGRESS_LOST = Entry(
    "Spark dropped the progress of {lost} batches of `{sink}`: the counts of this run are too low.",
    "Set `spark.sql.streaming.numRecentProgressUpdates` to 100 or more, so that Headwater can catch up.",
)
PROGRESS_UNREADABLE = Entry(
    "The query `{sink}` ended, but Headwater could not read its last progress within {limit}: the counts of "
    "this run may be too low.",
    "Look for the cause in the pipeline's `spark.log`, such as a JVM that no longer responds. Committed "
    "batches are not affected.",
)
STOP_TIMEOUT = Entry(
    "The running batch of `{sink}` did not end within {limit}; it was interrupted.",
    "It is repeated at the next start; `--stop-timeout` gives it longer.",
)
BACKLOG_GROWING = Entry(
    "The query `{sink}` is behind: {waiting} files wait in {path}, and the last batch took {taken} of them.",
    "If they don't become fewer, raise `{limit}` of the source.",
)
QUERY_METADATA_UNREADABLE = Entry(
    "{file} can't be read ({says}).",
    "It was written by another version of Headwater or cut short; put it back from a backup, or move it "
    "away: what it says is then not compared any more.",
)
RUN_DIR_CONFLICT = Entry(
    "The run folder {folder} belongs to the pipeline `{owner}`, and this one is `{name}`.",
    "Give this pipeline a run folder of its own (`folder:`), or change its name back.",
)
INPUT_IDLE = Entry(
    "{query} waits for {sources}: {brought} no rows since {since}, and {watermark}.",
    "Its next rows let the watermark go on. Where it may be silent for long, let it send a row now and then; "
    "`watermark_policy: fastest`, said before the first start, waits for nobody and drops what comes late.",
)
MAINTENANCE_FAILED = Entry(
    "What is done between batches went wrong: {says}.",
    "The queries go on, and it is tried again after the next batch; logs/failures.log has the rest.",
    retry=True,
)


# What can be wrong with a checkpoint folder, and with the lock beside it.

CHECKPOINT_UNREADABLE = Entry(
    "The checkpoint file {file} can't be read: {reason}.",
    "Check with `ls -la {file!r}` that it exists and that this user may read it.",
)
CHECKPOINT_METADATA_CORRUPT = Entry(
    "The checkpoint's {file} does not hold the query's id: {reason}.",
    'Restore it from a backup; if the id is known from a log, write one line into it: {{"id":"<the id>"}}.',
)
CHECKPOINT_OFFSETS_CORRUPT = Entry(
    "The offset file {file} of batch {batch} is damaged: {reason}.",
    "If the checkpoint has no commits/{batch}, delete it with `rm -f {file!r} {checksum!r}` and the batch is "
    "planned again; otherwise restore the checkpoint from a backup.",
)
CHECKPOINT_COMMIT_CORRUPT = Entry(
    "The commit file {file} of batch {batch} is damaged: {reason}.",
    "Delete it with `rm -f {file!r} {checksum!r}`; the batch is then run again with the same offsets.",
)
CHECKPOINT_FILE_LOG_CORRUPT = Entry(
    "The log file {file} that lists the files of batch {batch} is damaged: {reason}.",
    "Restore it from a backup; Spark can't start this query without it.",
)
CHECKPOINT_FILE_LOG_INVALID = Entry(
    "{file} does not list files: it belongs to another kind of source.",
    "Read the positions of that source from the checkpoint's offsets instead.",
)
CHECKPOINT_VERSION_UNSUPPORTED = Entry(
    "The checkpoint file {file} has version {version}; this Headwater reads up to v{newest}.",
    "A newer Spark wrote it: take a Headwater that supports that Spark, `pip install --upgrade headwater`.",
)
CHECKPOINT_LOCKED = Entry(
    "The checkpoint {checkpoint} is in use by run {run} (process {pid} of {user} on {host}) since {since}.",
    "Wait for its end, or stop it: Ctrl-C or `kill {pid}`. Another `folder:` begins from the start again.",
)
CHECKPOINT_LOCKED_BY_THIS_PROCESS = Entry(
    "The checkpoint {checkpoint} is already in use by run {run} of this process ({pid}) since {since}.",
    "Stop that run first, or give this pipeline another `folder:`.",
)
CHECKPOINT_LOCKED_ELSEWHERE = Entry(
    "The checkpoint {checkpoint} is in use by run {run} (process {pid} of {user} on {host}) since {since}; "
    "its last sign of life was at {seen}.",
    "Stop that run on {host} with `kill {pid}`, or, if it is gone, start again after {free_at}.",
    retry=True,
)
CHECKPOINT_BUSY = Entry(
    "Another run has been starting on the checkpoint {checkpoint} for more than {seconds} seconds.",
    "Try again; if it stays, `fuser {guard!r}` names the process that holds the file.",
    retry=True,
)
LOCK_LOST = Entry(
    "The checkpoint {checkpoint} now belongs to run {run} (process {pid} of {user} on {host}) since {since}.",
    "This run was silent for too long and has to end; to start it again, stop the other first: `kill {pid}`.",
)
LOCK_REMOVED = Entry(
    "The lock {file} of this run was removed or overwritten, so another run may use the checkpoint.",
    "Start the run again, and leave that file in place while it runs.",
)
LOCK_VERSION_UNSUPPORTED = Entry(
    "The lock {file} has version {version}; this Headwater knows version {known}.",
    "Use the Headwater that wrote it; if no run is alive on this checkpoint, `rm {file!r}`.",
)
LOCK_UNUSABLE = Entry(
    "The lock {file} can't be read or written: {reason}.",
    "Check that the disk has space and that this user may write there: `df {folder!r}; ls -ld {folder!r}`.",
    retry=True,
)
JVM_STILL_RUNNING = Entry(
    "The run {run} has died, but its Spark process {pid} is still alive and may still write the checkpoint "
    "{checkpoint}.",
    "End it with `kill -9 {pid}`, then start again.",
    retry=True,
)
CHECKPOINT_UPDATE_FAILED = Entry(
    "Headwater could not change {folder} for this start: {reason}.",
    "Fix the cause and start again. The next start completes the change; nothing is lost.",
    retry=True,
)
CHECKPOINT_FIRST_BATCH_PENDING = Entry(
    "The checkpoint {checkpoint} holds batch {batch}, which is not committed, and none before it: under a "
    "continuous trigger the query would forget where it began, and could pass over rows.",
    "Start it once with the trigger from before until a batch is committed, and change the trigger then; or "
    "begin anew: remove {checkpoint} while the pipeline does not run.",
)
CHECKPOINT_INPUTS_CORRUPT = Entry(
    "The file {file}, which names the sources of a checkpoint, is damaged: {reason}.",
    "Delete it with `rm -f {file!r}` and start again: the sources of the last start are taken then, and if "
    "they don't fit the checkpoint, nothing is changed.",
)
CHECKPOINT_REPLAY_FAILED = Entry(
    "The checkpoint {folder} can't be made to know of rows that are fed again: {reason}.",
    "Mend what is said, and start again: what was begun is ended then, and the old checkpoint is kept.",
)


# What keeps a query from running as it is declared, beside what rules say.

PIVOT_UNSUPPORTED = Entry(
    "`pivot` is two aggregations one after the other, which a stream can't do in {mode} mode.",
    "Write a column for each value: `count_if(kind = 'a') AS a, count_if(kind = 'b') AS b`, or "
    "`sum(n) FILTER (WHERE kind = 'a') AS a`.",
)
SUBQUERY_UNSUPPORTED = Entry(
    "{where} reads a stream inside an expression (IN, EXISTS, or a query for a single value), which can't be "
    "done.",
    "{hint}",
)
SOURCE_NOT_REPLAYABLE_TWICE = Entry(
    "The query of the sink `{sink}` would read the source `{name}` ({connector}) {count} times over, and "
    "each time get other rows.",
    "Let a `files` sink store the rows, and join them in another pipeline that reads its folder.",
)
JARS_ADDED_TOO_LATE = Entry(
    "The query of `{sink}` can't run under `{trigger}` in this process: Spark ran already when the jars of "
    "the connector were added, and then no epoch is ever committed.",
    "Let Headwater start Spark, as `headwater run` does; or start it with `spark.jars` set to {jars}.",
)
REAL_TIME_NOT_AVAILABLE = Entry(
    "Spark {version} has no real-time trigger.",
    "Use Spark 4.1 or newer; or another trigger, such as `every 1 second`.",
)
UNTIL_IDLE_UNSUPPORTED = Entry(
    "`--until-idle` and `wait_idle()` wait for the end of what the sources hold, and the query of `{sink}` "
    "under `{trigger}` never comes to one.",
    "Leave that out; or use a trigger with batches, such as `every 1 second`.",
)


# Rows that were set aside, and feeding them again.

QUARANTINE_UNREADABLE = Entry(
    "The file {file} of a quarantine can't be read: {reason}.",
    "See whether it was changed or removed by hand; the rows in other files can be read without it.",
)
QUARANTINE_NOT_FOUND = Entry(
    "Nothing was ever set aside for `{name}`; {known}.",
    "A source sets bad rows aside with `bad_rows: quarantine`, a table with `else: quarantine` at an "
    "expectation. List what there is: `headwater quarantine ls {file}`.",
)
REPLAY_TRIGGER_UNSUPPORTED = Entry(
    "The sink `{sink}` reads `{name}` with the trigger `{trigger}`, which takes rows from one source only.",
    "Set another trigger such as `every 10 seconds`, and stay with it: rows that were fed again stay among "
    "what the query reads.",
)
REPLAY_QUERY_UNSUPPORTED = Entry(
    "The query of `{sink}` reads `{stream}` several times over (in a UNION, or in a join with itself), and "
    "rows of `{name}` can't be fed again into such a query.",
    "Read it once, with `CASE` or `explode` for the branches, or bring the rows into the source by another "
    "way: `headwater quarantine export` writes them.",
)
REPLAY_TARGET_MISSING = Entry(
    "Rows of `{name}` that are fed again would be read by no query: {why}.",
    "Declare it as it was when the rows were set aside and let a sink read it, or write the rows out for "
    "another use: `headwater quarantine export {file} {name}`.",
)
REPLAY_FILE_INVALID = Entry(
    "The file {file} has no mended rows in line {line}: {reason}.",
    "Give it the form that `headwater quarantine export` writes, a JSON object in each line, and change "
    "`text`, or `value` (the bytes in base64) where a row is no text.",
)
REPLAY_FILE_UNREADABLE = Entry(
    "The file of mended rows {file} can't be read: {reason}.",
    "Look at its name; `headwater quarantine export … --to FILE` writes one.",
)
EXPORT_FILE_UNWRITABLE = Entry(
    "The rows can't be written to {file}: {reason}.",
    "Name another file with `--to`, in a folder that is there and that this user may write; without `--to` "
    "they go to standard output.",
)
REPLAY_OFFSET_UNKNOWN = Entry(
    "It can't be told how far the query `{sink}` has read `{name}`, so that rows which are fed again might "
    "come to it twice.",
    "Its checkpoint is older than what is kept of its last start, or newer. Run the pipeline once, "
    "`headwater run {file} --until-idle`, then feed the rows.",
)
REPLAYED_ROWS_MISSING = Entry(
    "The query of `{sink}` has read rows of `{source}` that were fed again, and their folder {folder} is "
    "gone.",
    "Put the folder back; it is part of what the query has read.",
)
REPLAYED_ROWS_DROPPED = Entry(
    "The query of `{sink}` has read rows of `{source}` that were fed again, and as it is declared now it "
    "would not read them any more.",
    "Let the sink read `{source}` as before. For another query give the sink another name: it begins anew.",
)
REPLAYED_ROWS_INVALID = Entry(
    "A row that was fed again to the table `{table}` is not one JSON object with all that a row of it needs: "
    "{row}.",
    "Give the table an expectation with `else: quarantine` (the condition `true` is enough) and run again: "
    "the row is set aside, and can be mended and fed once more.",
)


# Rows that can't be read, and what becomes of them.

BAD_ROW = Entry(
    "A row of the source `{source}` can't be read: {reason} ({where}).",
    "Mend it where it comes from, or write `bad_rows: quarantine` at the source: bad rows are then set aside "
    "and counted, and the others go on. `drop` and `keep` are the other choices.",
)
QUARANTINE_STATIC_SOURCE = Entry(
    "The source `{name}` is static and has `bad_rows: quarantine`, but only a stream sets rows aside: a "
    "static source is read anew for each batch.",
    "Write `bad_rows: drop`, `keep` or `fail`, or leave `static` out.",
)
BAD_ROWS_UNSUPPORTED = Entry(
    "The source `{name}` has `{key}`, but a {connector} source can't tell a row that can't be read.",
    "Leave `{key}` out, and judge the rows by an expectation of a table (`expect:`).",
)
