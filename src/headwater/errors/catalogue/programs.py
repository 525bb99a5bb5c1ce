"""What can be said of plain PySpark: a script under `headwater check`, a DataFrame in `hw.check`."""

from headwater.errors.problems import Entry

DATAFRAME_EXPECTED = Entry(
    "`hw.check` takes a DataFrame of Spark, and got {got}.",
    "Pass the DataFrame whose `writeStream` you would start: `hw.check(df, mode=…, sink=…)`.",
)
STREAM_EXPECTED = Entry(
    "The DataFrame of `{name}` is no stream: it reads static rows alone.",
    "Read one of its sources with `spark.readStream`, or write it with `df.write`, which needs no check.",
)
CONNECT_SESSION_UNSUPPORTED = Entry(
    "This is a session of Spark Connect, whose plans stay on its server and can't be judged here.",
    "Make the session without `remote(…)`, SPARK_REMOTE and `spark.api.mode`, and check again.",
)
MODE_INVALID = Entry("`{mode}` is no output mode.", "Write append, update or complete.")
TRIGGER_INVALID = Entry(
    "`hw.check` can't read the trigger: {says}.",
    'Write it as in a pipeline file: `trigger="every 10 seconds"`.',
)
SINK_INVALID = Entry(
    "`hw.check` can't tell what the sink {got} is.",
    'Name a format of Spark\'s (`sink="parquet"`), pass the function of `foreachBatch`, or a connector '
    "such as `hw.files(…)`.",
)
SCRIPT_OFFLINE_UNSUPPORTED = Entry(
    "{file} declares no pipeline, and a plain program can't be judged offline: its queries come to be only "
    "when it runs.",
    "Leave `--offline` out: `headwater check {file}` runs it and starts none of its queries.",
)
SCRIPT_ARGUMENTS_NOT_ALLOWED = Entry(
    "`{arguments}` after `--` is for a script, and {file} declares a pipeline.",
    "Take it out, or check the script that takes these arguments.",
)
SUPPRESS_SCRIPT_ONLY = Entry(
    "`--accept` is for a script, and {file} declares a pipeline.",
    "Write the code and its reason into the file, below `accept:`.",
)
SUPPRESS_REASON_MISSING = Entry(
    "`{code}` is to be accepted, and no reason is given.", "Write in a few words why it is all right: {form}."
)
SCRIPT_FAILED = Entry(
    "The script fails at this line: {error}.",
    "Mend it; `--verbose` shows the whole traceback and what the script has printed.",
)
SCRIPT_NEEDS_PROGRESS = Entry(
    "This line needs the progress of a query, and in a check none has run: {error}.",
    "Ask first whether there is any, `if query.lastProgress:`; a real query has none before its first batch, "
    "either.",
)
SCRIPT_ACTION_UNSUPPORTED = Entry(
    "This line runs {action} on a stream, which has no end.",
    "Write the stream with `writeStream`; what should happen with each batch goes into `foreachBatch`.",
)
SCRIPT_SOURCE_NOT_FOUND = Entry(
    "Spark knows no data source `{format}`, which this line reads or writes.", "{hint}"
)
SCRIPT_EXIT = Entry("The script ends itself with exit code {code}{says}.", "{hint}")
SCRIPT_DIED = Entry(
    "The script's process ended with {how} before the script was through{says}.",
    "Run it by itself to see why; `--verbose` shows what it has printed.",
)
SCRIPT_TIMEOUT = Entry(
    "After {seconds} the script {file} had not come to its end; {reached}.",
    "Nothing starts in a check, so it must not wait for rows. If it only needs longer, give it more with "
    "`--deadline`.",
)
SCRIPT_NEEDS_WRITE = Entry(
    "This line reads {place}, which line {line} of {file} would have written; a check writes nothing, so the "
    "script can't go on from here.",
    "Run the part that writes once by itself, then check again.",
)
SCRIPT_PROCESS = Entry(
    "This line starts the process `{command}`. A check does not start processes. The call returned exit code "
    "0 and no output.",
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
    "Check only scripts here that you would also run; or check on Linux as root or with unprivileged user "
    "namespaces, where a check prevents these effects.",
)
SCRIPT_QUERY_MISSING = Entry(
    "{file} came to its end and started no streaming query, and it declares no pipeline.", "{hint}"
)
CHECKPOINT_MISSING = Entry(
    "The query `{name}` has no checkpoint, and Spark starts none into {format} without.",
    'Name a folder that stays: `.option("checkpointLocation", "…")`.',
)
CHECKPOINT_TEMPORARY = Entry(
    "The query `{name}` has no checkpoint that stays: Spark makes one in a folder for passing files, so each "
    "start begins anew, and rows come again or are lost.",
    'Name a folder that stays: `.option("checkpointLocation", "…")`.',
)
CHECKPOINT_CONFLICT = Entry(
    "The query `{name}` has the checkpoint {checkpoint}, which the query `{other}` has already.",
    "Give each query a checkpoint of its own.",
)
QUERY_NAME_CONFLICT = Entry(
    "A query with the name `{name}` runs already when this one starts, and Spark refuses the second.",
    "Give each query a name of its own with `queryName`.",
)
QUERY_NAME_MISSING = Entry(
    "A stream into memory needs a name for its table, and this one has none.",
    'Name it: `.queryName("totals")`.',
)
SINK_PATH_MISSING = Entry(
    "The query `{name}` writes {format} files and does not say where.",
    'Name a folder: `.start("folder")` or `.option("path", "folder")`.',
)
SINK_FORMAT_UNSUPPORTED = Entry(
    "Spark can't write a stream with the format `{format}`, which the query `{name}` does.", "{hint}"
)
PARTITION_BY_COLUMN_NOT_FOUND = Entry(
    "The query `{name}` is partitioned by `{column}`, which its rows don't have.", "Its columns are: {known}."
)
PARTITION_BY_UNSUPPORTED = Entry(
    "The query `{name}` is partitioned by {columns}, which Spark refuses with the format {format}.",
    "Take `partitionBy` out.",
)


# What can be wrong with a call or a command line.

TABLE_NAME_MISSING = Entry(
    "A table made with `sql=` or `python=` needs its name first.",
    'Write `p.table("name", sql="SELECT …")`, or put `@p.table` over a function.',
)
CONF_INVALID = Entry(
    "`--conf {text}` is not a setting.",
    "Write `--conf key=value`, for instance `--conf spark.sql.shuffle.partitions=4`.",
)
DURATION_INVALID = Entry(
    "`{option} {text}` is not a length of time: {says}.",
    "Write for instance `{option} 60s` or `{option} '10 minutes'`.",
)
DIRECTORY_NOT_EMPTY = Entry(
    "`{path}` is there already and is not empty.", "Name a new folder: `headwater init my_project`."
)
TEMPLATE_NOT_FOUND = Entry(
    "There is no template `{name}`.", "{hint}Write one of these after `--template`: {known}."
)
QUERY_NOT_FOUND = Entry("This run has no query `{name}`.", "{hint} Its queries are: {known}.")
OPTION_NEEDS_BATCH = Entry(
    "`{option}` is for batch runs, and `--batch` is not there.",
    "Add `--batch`, or take `{option}` out to start the stream.",
)
OPTIONS_CONFLICT_BATCH = Entry(
    "`--until-idle`, `--for`, `--fail-fast` and `--stop-timeout` mean nothing with `--batch`.",
    "Take them out: a batch run ends by itself.",
)
CONNECTOR_NOT_INSTALLED = Entry("There is no connector `{name}`.", "{hint} Installed are: {known}.")
OPTIONS_CONFLICT = Entry("`{one}` and `{other}` are two forms of the same output.", "Leave one of them out.")
RATE_INVALID = Entry(
    "`--rate {text}` is not a rate: {says}.",
    "Write for instance `--rate clicks=1000/s`, `--rate clicks=500/m` or `--rate clicks=20/h`.",
)
RATE_SOURCE_NOT_FOUND = Entry(
    "`--rate` names `{name}`, which is no streaming source of this pipeline.",
    "{hint}Its streaming sources are: {known}.",
)
