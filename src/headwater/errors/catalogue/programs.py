"""Problems of plain PySpark: a script in `headwater check`, a DataFrame in `hw.check`; and of commands."""

from headwater.errors.problems import Entry

DATAFRAME_EXPECTED = Entry(
    "`hw.check` expects a Spark DataFrame, got {got}.",
    "Pass the DataFrame whose `writeStream` you would start: `hw.check(df, mode=…, sink=…)`.",
)
STREAM_EXPECTED = Entry(
    "The DataFrame of `{name}` is not a stream: it reads only static data.",
    "Read one of its sources with `spark.readStream`. If you write it with `df.write`, it needs no check.",
)
CONNECT_SESSION_UNSUPPORTED = Entry(
    "`hw.check` does not support Spark Connect, because the plans stay on its server.",
    "Create the session without `remote(…)`, SPARK_REMOTE and `spark.api.mode`, and check again.",
)
WATCH_CONNECT_UNSUPPORTED = Entry(
    "`hw.watch` does not support Spark Connect, because the queries run on its server.",
    "Create the session without `remote(…)`, SPARK_REMOTE and `spark.api.mode`, and watch again.",
)
WATCH_SESSION_EXPECTED = Entry(
    "`hw.watch` expects an active Spark session, got {got}.",
    "Create the session first and pass it: `hw.watch(spark)`.",
)
WATCH_DIRECTORY_IN_USE = Entry(
    "Run directory {directory} is in use by run {run} (process {pid} on {host}).",
    'Set a different directory: `hw.watch(spark, run_dir="…")`.',
)
WATCH_RESTART_UNSUPPORTED = Entry(
    "Cannot restart query `{query}`: a program starts it, and Headwater only watches it.",
    "Restart the query in the program: call `start()` of its writer again.",
)
WATCH_SQL_UNSUPPORTED = Entry(
    "Cannot run SQL in `{name}`: it is a program that Headwater only watches.",
    "Run the query in the program with `spark.sql`.",
)
WATCH_SPARK_DIED = Entry(
    "Spark ended while query `{query}` was running: its process was killed or ran out of memory.",
    "Check the output of the program, then start it again. The batch is retried from its checkpoint.",
    retryable=True,
)
MODE_INVALID = Entry(
    "`{mode}` is not an output mode.",
    "Use `append`, `update` or `complete`.",
)
TRIGGER_INVALID = Entry(
    "`hw.check`: invalid trigger: {says}.",
    'Write it as in a pipeline file: `trigger="every 10 seconds"`.',
)
SINK_INVALID = Entry(
    "`hw.check`: invalid sink {got}.",
    'Pass a Spark format (`sink="parquet"`), the function for `foreachBatch`, or a connector such as '
    "`hw.files(…)`.",
)
SCRIPT_OFFLINE_UNSUPPORTED = Entry(
    "{file} does not declare a pipeline, and a script cannot be checked offline: its queries exist only "
    "when it runs.",
    "Omit `--offline`: `headwater check {file}` runs the script and starts none of its queries.",
)
SCRIPT_ARGUMENTS_NOT_ALLOWED = Entry(
    "`{arguments}` after `--` is for scripts, but {file} declares a pipeline.",
    "Remove it, or check the script that takes these arguments.",
)
SUPPRESS_SCRIPT_ONLY = Entry(
    "`--suppress` is for scripts, but {file} declares a pipeline.",
    "Add the code and its reason under `suppress:` in the file.",
)
SUPPRESS_REASON_MISSING = Entry(
    "`{code}` is suppressed without a reason.",
    "State briefly why the finding is intentional: {form}.",
)
SCRIPT_FAILED = Entry(
    "The script fails on this line: {error}.",
    "Fix it. For the full traceback and the output of the script, add `--verbose`.",
)
SCRIPT_NEEDS_PROGRESS = Entry(
    "This line needs the progress of a query, but a check runs no queries: {error}.",
    "Test for progress first: `if query.lastProgress:`. A real query also has none before its first batch.",
)
SCRIPT_ACTION_UNSUPPORTED = Entry(
    "This line runs {action} on a stream, which is unbounded.",
    "Write the stream with `writeStream`, and process each batch in `foreachBatch`.",
)
SCRIPT_SOURCE_NOT_FOUND = Entry(
    "Data source `{format}`, which this line reads or writes, not found.",
    "{hint}",
)
SCRIPT_EXIT = Entry(
    "The script exits with code {code}{says}.",
    "{hint}",
)
SCRIPT_DIED = Entry(
    "The script {how} before it finished{says}.",
    "Run the script without `headwater check` to see why. For its output, add `--verbose`.",
)
SCRIPT_TIMEOUT = Entry(
    "The script {file} did not finish within {seconds}; {reached}.",
    "Do not wait for rows in the script: a check starts no queries. If the script only needs longer, raise "
    "`--timeout`.",
)
SCRIPT_NEEDS_WRITE = Entry(
    "This line reads {place}, which line {line} of {file} would have written. A check writes nothing, so "
    "the script cannot continue.",
    "Run the part that writes once outside the check, then check again.",
)
SCRIPT_PROCESS = Entry(
    "This line starts the process `{command}`. A check does not start processes. The call returned exit "
    "code 0 and no output.",
    "Pass its output to the script as an argument if the queries depend on it: `headwater check … -- …`.",
)
SCRIPT_FORKS = Entry(
    "This line creates a process with `{call}`. A check does not create processes, so the call fails.",
    "Start the queries in the script's own process, or check the program of the other process separately.",
)
SCRIPT_WRITES = Entry(
    "This line writes to {path}. A check cannot discard writes there, so the call fails.",
    "Write below the current directory and check on Linux, or write below `tempfile.gettempdir()`.",
)
SCRIPT_NETWORK = Entry(
    "This line needs the network: {error}. A check blocks network access.",
    "Add `--allow-network`, unless the script changes data over the network: a check cannot undo that.",
)
SCRIPT_WEAK_SANDBOX = Entry(
    "The script ran {sandbox}, because this machine does not allow namespaces. The check could not prevent "
    "{effects}.",
    "On this machine, check only scripts that you would also run. Or check on Linux, as root or with "
    "unprivileged user namespaces, where a check prevents these effects.",
)
SCRIPT_QUERY_MISSING = Entry(
    "{file} started no streaming query and declares no pipeline.",
    "{hint}",
)
CHECKPOINT_MISSING = Entry(
    "Query `{name}` has no checkpoint, which Spark requires for {format}.",
    'Set a permanent directory: `.option("checkpointLocation", "…")`.',
)
CHECKPOINT_TEMPORARY = Entry(
    "Query `{name}`: Spark uses a temporary checkpoint, so every start begins from scratch and can "
    "duplicate or lose rows.",
    'Set a permanent directory: `.option("checkpointLocation", "…")`.',
)
CHECKPOINT_CONFLICT = Entry(
    "Query `{name}`: checkpoint {checkpoint} is already used by query `{other}`.",
    "Set a separate checkpoint for each query.",
)
QUERY_NAME_CONFLICT = Entry(
    "Query `{name}`: a query with this name is already running, so Spark rejects the second one.",
    "Give each query a unique name with `queryName`.",
)
QUERY_NAME_MISSING = Entry(
    "A query that writes to `memory` needs a name for its table.",
    'Add `.queryName("totals")`.',
)
SINK_PATH_MISSING = Entry(
    "Query `{name}` writes {format} files but sets no path.",
    'Set a directory: `.start("directory")` or `.option("path", "directory")`.',
)
SINK_FORMAT_UNSUPPORTED = Entry(
    "Query `{name}`: Spark cannot write a stream in the format `{format}`.",
    "{hint}",
)
PARTITION_BY_COLUMN_NOT_FOUND = Entry(
    "Query `{name}`: partition column `{column}` not found.",
    "Use a column of the query: {known}.",
)
PARTITION_BY_UNSUPPORTED = Entry(
    "Query `{name}` is partitioned by {columns}, which Spark does not support for the format {format}.",
    "Remove `partitionBy`.",
)


# Problems of a call or a command line.

TABLE_NAME_MISSING = Entry(
    "A table declared with `sql=` or `python=` needs a name as its first argument.",
    'Write `p.table("name", sql="SELECT …")`, or decorate a function with `@p.table`.',
)
CONF_INVALID = Entry(
    "Invalid `--conf {text}`. Expected `key=value`.",
    "Write for example `--conf spark.sql.shuffle.partitions=4`.",
)
DURATION_INVALID = Entry(
    "Invalid `{option} {text}`: {says}.",
    "Write for example `{option} 60s` or `{option} '10 minutes'`.",
)
DIRECTORY_NOT_EMPTY = Entry(
    "`{path}` already exists and is not empty.",
    "Choose a new directory: `headwater init my_project`.",
)
TEMPLATE_NOT_FOUND = Entry(
    "Template `{name}` not found.",
    "{hint}Set `--template` to one of: {known}.",
)
QUERY_NOT_FOUND = Entry(
    "This run has no query `{name}`.",
    "{hint} Queries of this run: {known}.",
)
OPTION_RENAMED = Entry(
    "Option `{option}` was renamed to `{new}`.",
    "Write `{new}` instead of `{option}`.",
)
OPTION_NEEDS_BATCH = Entry(
    "`{option}` requires `--batch`.",
    "Add `--batch`, or omit `{option}` to start the stream.",
)
OPTIONS_CONFLICT_BATCH = Entry(
    "`--until-idle`, `--for`, `--fail-fast`, `--no-restart`, `--stop-timeout` and `--metrics` cannot be combined "
    "with `--batch`.",
    "Remove them. A batch run stops automatically.",
)
BATCH_NEEDS_ONE_FILE = Entry(
    "`--batch` runs one pipeline, got several files.",
    "Run one `headwater run --batch` per file.",
)
CONNECTOR_NOT_INSTALLED = Entry(
    "Connector `{name}` not found.",
    "{hint} Installed connectors: {known}.",
)
OPTIONS_CONFLICT = Entry(
    "`{one}` and `{other}` cannot be combined: each selects an output format.",
    "Remove one of them.",
)
METRICS_ADDRESS_INVALID = Entry(
    "Invalid `--metrics {text}`: expected a port or an address.",
    "Write for example `--metrics 9464` or `--metrics 127.0.0.1:9464`.",
)
METRICS_ADDRESS_CONFLICT = Entry(
    "This process already serves metrics on {used}. It cannot serve those of `{name}` on {address} as well.",
    "Use `{used}` for all runs of this process, or start `{name}` in another process.",
)
RATE_INVALID = Entry(
    "Invalid `--rate {text}`: {says}.",
    "Write for example `--rate clicks=1000/s`, `--rate clicks=500/m` or `--rate clicks=20/h`.",
)
RATE_SOURCE_NOT_FOUND = Entry(
    "`--rate`: streaming source `{name}` not found in this pipeline.",
    "{hint}Streaming sources: {known}.",
)
