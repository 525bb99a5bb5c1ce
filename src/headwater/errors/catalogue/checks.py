"""What keeps a query from running in the mode of its sink."""

from headwater.errors.problems import Entry

NEVER_FINAL = Entry(
    "The sink `{sink}` is in append mode, which gives a row once it is final, and {rows} never is: {why}.",
    "{hint}",
)
NOTHING_TO_COMPLETE = Entry(
    "The sink `{sink}` is in complete mode, which gives the whole result each time, and without an "
    "aggregation that is every row that ever came.",
    "{hint}",
)
SESSIONS_IN_UPDATE = Entry(
    "The sink `{sink}` is in update mode, and session windows of {keys} can't be given so: two sessions "
    "may grow into one, and what was given for them can't be taken back.",
    "{hint}",
)
RESULTS_COUNTED_AGAIN = Entry(
    "{later} reads the results of {earlier}, and in {mode} mode these come again each time they change.",
    "{hint}",
)
JOIN_IN_MODE = Entry("The {type} join of two streams can't be in {mode} mode: {why}.", "{hint}")
LIMIT_IN_UPDATE = Entry(
    "The sink `{sink}` is in update mode, and `LIMIT` can't be: rows that were given would have to be taken "
    "back when others change.",
    "{hint}",
)
UNION_IN_COMPLETE = Entry(
    "The sink `{sink}` is in complete mode, and a part of its UNION is not aggregated: of that part each "
    "batch would give only the new rows, and the older ones would be gone.",
    "Give each part a sink of its own, or use update mode.",
)
STATE_MODE = Entry(
    "The sink `{sink}` is in {mode} mode, and `{call}` gives it rows in {given} mode.", "{hint}"
)
STATE_AGGREGATED = Entry(
    "The query of the sink `{sink}` aggregates the rows of `{call}` in update mode, and would count a row "
    "again each time it changes.",
    'Let `{call}` give rows that stay as they are, with `outputMode="append"`.',
)
STATE_AFTER_RESULTS = Entry(
    "`{call}` reads the results of an aggregation, which Spark does not take.",
    "Aggregate inside `{call}`, or write the results with a sink and read that in another pipeline.",
)


# What a stream can't do, and what to write instead.

SORTED_STREAM = Entry(
    "A stream can't be sorted: a row that belongs before the others may come at any time.", "{hint}"
)
RANDOM_SPLIT = Entry(
    "`randomSplit` sorts its rows first, and a stream can't be sorted.",
    "Split by a column: `WHERE pmod(hash(id), 10) < 7` and `>= 7`, with a column of yours for `id`.",
)
OFFSET_ON_STREAM = Entry(
    "`OFFSET` leaves out the first rows, and a stream has no order by which some are the first.",
    "Take it out, or leave rows out by what is in them: `WHERE id > 100`.",
)
WINDOW_FUNCTION = Entry(
    "{functions} looks at rows before and after each row, and those of a stream are not all there.",
    "Group by a window of time (`GROUP BY window(at, '10 minutes'), key` with max_by, min_by, count); to "
    "compare a row with the one before it, keep that one with `transformWithState`.",
)
DISTINCT_AGGREGATE = Entry(
    "`{sql}` would have to keep every value that ever came, which Spark does not do on a stream.", "{hint}"
)
INTERSECT_ON_STREAM = Entry(
    "`INTERSECT` can't be done with a stream.",
    "Write `SELECT … FROM a LEFT SEMI JOIN b ON …`, with the stream as `a`; if both are streams, with "
    "watermarks and a time range in the condition.",
)
HIDDEN_AGGREGATION = Entry(
    "Spark makes an aggregation of the stream out of a part of the query of `{sink}`, most often a LATERAL "
    "subquery that aggregates, and in append mode no row of it is ever final.",
    "Aggregate first and join with that: "
    "`… FROM a JOIN (SELECT id, max(n) AS n FROM b GROUP BY id) USING (id)`.",
)
EXCEPT_ON_STREAM = Entry("`EXCEPT` {why}.", "{hint}")
SAMPLE_ON_STREAM = Entry(
    "Spark can't take a sample of a stream.",
    "Choose by a column: `WHERE pmod(hash(id), 100) < 10` keeps a tenth, and the same rows each time.",
)
UNION_WITH_STATIC = Entry(
    "A UNION of the stream {streams} with static rows can't be done: the static ones have no batch to come "
    "in.",
    "Read them as a stream, too (without `static: true`, with `readStream`), or write them once by "
    "themselves.",
)
ROW_NUMBERS = Entry(
    "`monotonically_increasing_id()` begins anew in every batch, so Spark does not take it on a stream.",
    "Make the id of the row's own columns: `sha2(concat_ws('|', a, b), 256)`.",
)
TIMERS_NEED_WATERMARK = Entry(
    "`{call}` waits by event time, and {streams} has no watermark by which that time moves.",
    "Declare one (`watermark:` in the file, `withWatermark` in PySpark), or let it wait by processing time.",
)
SEVERAL_STATES = Entry(
    "The query of the sink `{sink}` calls `applyInPandasWithState` {count} times, and Spark takes one.",
    "Use `transformWithState`, or write what the first gives with a sink and read that in another pipeline.",
)
PYTHON_AGGREGATE = Entry(
    "`{sql}` is an aggregate of Python ({form}), which needs all rows of a group at once and fails on a "
    "stream.",
    "Keep what it needs with `transformWithState`, or use Spark's own aggregates (avg, percentile_approx and "
    "so on).",
)
GLOBAL_SESSION = Entry(
    "Session windows without another key fail on a stream: {sql} is the only thing it groups by.",
    "Group by something else as well, such as the user whose session it is; for one session over all rows "
    "make a constant column before (`… FROM (SELECT 1 AS one, * FROM orders) GROUP BY one, "
    'session_window(…)`; `withColumn("one", lit(1))` in PySpark).',
)
ONE_BATCH_AT_A_TIME = Entry(
    "`{call}` on a stream gets the rows of one batch at a time: a group that comes in several batches is "
    "given in several pieces, cut by chance.",
    "Use `transformWithState`, which keeps what it has seen of each group; if batch by batch is what you "
    "want, accept it: `accept: {{HW-ONE-BATCH-AT-A-TIME: why}}`.",
)
JOIN_WITHOUT_EQUALITY = Entry(
    "A join of two streams needs something that is equal in both, and this one only compares.",
    "Write an equality into the condition (`a.id = b.id AND …`); where nothing is equal, make it so, for "
    "instance by the hour of both (`date_trunc('hour', a.at) = date_trunc('hour', b.at)`).",
)
SEVERAL_EVENT_TIMES = Entry(
    "More than one column with a watermark comes to {operator}, {columns}, and Spark takes one: the query "
    "would fail in its first batch.",
    "Leave all but one out before: name the columns in the SELECT, or `drop` the others in PySpark.",
)
NEVER_ENDS = Entry(
    "The sink `{sink}` has the trigger `available now`, and `{call}` waits by processing time, for which "
    "Spark runs batch after batch: it never ends.",
    "Use another trigger (`every 1 minute`) and `headwater run --until-idle`, or wait by event time.",
)
DEDUP_OF_RESULTS = Entry("`{call}` by {keys} reads the results of an aggregation: {why}.", "{hint}")
STATE_STORE = Entry(
    "`{call}` needs the state store RocksDB, and the settings name {provider}.",
    "Set `{key}` to `org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider` before the "
    "first start; a declared pipeline that leaves the setting out has it.",
)
PROTOBUF_MISSING = Entry(
    "`{call}` needs the Python package protobuf, which is not installed here.",
    "Install it: `pip install protobuf`.",
)
PIVOT_ON_STREAM = Entry(
    "`pivot` is two aggregations one after the other, which a stream can't do in {mode} mode.",
    "Write a column for each value: `count_if(kind = 'a') AS a, count_if(kind = 'b') AS b`, or "
    "`sum(n) FILTER (WHERE kind = 'a') AS a`.",
)
SUBQUERY_OVER_STREAM = Entry(
    "{where} reads a stream inside an expression (IN, EXISTS, or a query for a single value), which can't be "
    "done.",
    "{hint}",
)


# What keeps a batch that runs again from giving the same rows.

NOT_REPEATABLE = Entry(
    "{what} gives another value when a batch runs again after a crash ({why}), so the sink `{sink}` "
    "({connector}) is not exactly once.",
    "{hint}",
)
STATE_NOT_REPEATABLE = Entry(
    "{what} reaches the state of the query and gives another value when a batch runs again after a crash "
    "({why}): what the sink `{sink}` ({connector}) got before the crash and what the state holds after it "
    "may disagree, and whoever reads the sink can miss rows or see them twice.",
    "{hint}",
)
EVENT_TIME_NOT_REPEATABLE = Entry(
    "A watermark stands on a column that is made from {what}, which gives another value each time ({why}): "
    "which rows are late, and into which window a row falls, is then left to chance.",
    "Put the watermark on a time that the rows bring with them, or on `current_timestamp()` for the time at "
    "which they come in.",
)
ORDER_DECIDES = Entry(
    "{what} depends on the order of the rows, and a stream promises none within a batch: a batch that runs "
    "again may give another value.",
    "{hint}",
)


# What follows from a source whose rows can't be read a second time.

NOT_REPLAYABLE = Entry(
    "The rows of the source `{name}` ({connector}) can't be read again: what a batch that fails had taken, "
    "and what is sent while nothing runs, is lost.",
    "Good for trying things out; for rows that count, read a source that keeps them, such as `files`.",
)
NOT_REPLAYABLE_SHARED = Entry(
    "The sinks {sinks} all read the source `{name}` ({connector}), and each would get other rows.",
    "Leave one of them; or let one `files` sink store the rows, and read its folder in another pipeline.",
)
NOT_REPLAYABLE_TWICE = Entry(
    "The query of the sink `{sink}` would read the source `{name}` ({connector}) {count} times over, and "
    "each time get other rows.",
    "Let a `files` sink store the rows, and join them in another pipeline that reads its folder.",
)
NOT_REPLAYABLE_CHECKPOINT = Entry(
    "The query `{sink}` can't go on from its checkpoint: the source `{name}` ({connector}) begins anew at "
    "each start.",
    "Begin anew: remove {checkpoint}, and what a `files` sink wrote with it.",
)


# How much a query reads, how often, and how many rows come of it.

READ_TWICE = Entry(
    "The query of the sink `{sink}` names the source `{name}` {count} times, and Spark reads it as often: "
    "each row is fetched, parsed and counted {count} times.",
    "Good to know, no mistake. Branches of a UNION often do in one pass with `CASE` or `explode`; a join of "
    "a stream with itself may be an aggregation, or a function with state.",
)
FULL_FOLDER = Entry(
    "The source `{name}` has {waiting} waiting and no limit, so the first batch of {sinks} reads all of it "
    "at once.",
    "If that is too much for memory, or for one batch to be lost in a crash, write {keys} beside the source.",
)
DIRECTORIES_IGNORED = Entry(
    "Source `{name}` ignores {count}: {directories}.",
    "To read their files, set a glob (`path: {glob}`) or `options: {{recursiveFileLookup: true}}` before the "
    "first start; for a query that has started they count as read. Otherwise move the directories elsewhere.",
)
LIMIT_TOO_LOW = Entry(
    "The sink `{sink}` needs {time} to read what already waits at the source `{name}` ({waiting}): with "
    "`{key}` that is {batches} batches, one {trigger}.",
    "To catch up within an hour, raise `{key}` to {enough}; or catch up first with `trigger: available now`, "
    "which does not wait between batches.",
)
CROSS_JOIN = Entry(
    "This {join} has no condition: every row of the stream meets every row of {static}, so that one row "
    "becomes as many as there are.",
    "Say which rows belong together, `JOIN … ON a.id = b.id`; or accept it if the static side has one row "
    "only, or few.",
)
RANGE_JOIN = Entry(
    "This {join} compares nothing by equality (`{condition}`): every row of the stream is compared with all "
    "of {static}, and comes out once for each that fits.",
    "If ranges may overlap, make sure that this is meant; an additional `a.key = b.key` makes it fast.",
)
STATE_PARTITIONS = Entry(
    "The state of the sink `{sink}` is divided into {partitions} partitions for {cores} core(s): every batch "
    "runs {partitions} tasks for each step that keeps state, most of them for a few rows or none (200 on two "
    "cores make a batch of 1,000 rows take ten seconds instead of a fifth of one).",
    "Set `spark.sql.shuffle.partitions` to {cores}, or up to twice that, before the first start; it can't be "
    "changed later. A declared pipeline that leaves it out gets one partition for each core.",
)
SECRET_IN_CLEAR = Entry(
    "The value of `{key}` in {where} is a secret in clear: it is stored, shown and logged like any other "
    "text.",
    "Write it under `options:` as `${{secret:NAME}}` (in Python `hw.secret('NAME')`) and set the environment "
    "variable NAME, or NAME_FILE for a file that holds it.",
)
SECRET_IN_SETTINGS = Entry(
    "The setting `{key}` of Spark is a secret in clear, and settings are stored, shown and sent to every "
    "executor.",
    "Take it out of the file: let the store's own means bring it (a credential provider, a role of the "
    "machine, `spark-defaults.conf` readable by the user alone).",
)


# What keeps a query from running under its trigger, and what is not as meant there.

TRIGGER_SINK = Entry(
    "The sink `{sink}` can't take rows under `{trigger}`: {connector} writes whole batches.", "{hint}"
)
TRIGGER_SOURCE = Entry(
    "The source `{name}` can't be read under `{trigger}`: {connector} gives its rows in batches.", "{hint}"
)
NOT_ROW_BY_ROW = Entry(
    "`{step}` can't run under `{trigger}`, where a query may only choose rows and compute columns, each row "
    "by itself.",
    "{hint}",
)
NO_CURRENT_TIME = Entry(
    "`{call}` can't run under `{trigger}`: Spark knows one current time for each batch, and there is none.",
    "Use a time that the rows bring along, such as `timestamp` of the source; or a trigger with batches, "
    "such as `every 1 second`.",
)
CONTINUOUS_REFUSED = Entry(
    "Spark can't run the query of `{sink}` under `{trigger}`: {says}.",
    "Choose rows and compute columns only; or use a trigger with batches, such as `every 1 second`.",
)
OPTION_IDLE = Entry(
    "`{option}` of the source `{name}` does nothing under `{trigger}`.",
    "Leave `{option}` out; or use a trigger with batches, such as `every 1 second`.",
)
TOO_FEW_CORES = Entry(
    "The query of `{sink}` needs {slots} cores at once under `{trigger}`, one for each partition of "
    "{names}, and there are {cores}: it would wait for ever and give nothing.",
    "Run it with {slots} cores or more, on one machine `--master 'local[{slots}]'`; or have {names} make "
    "at most {cores} partitions in all.",
)
CORES_SHARED = Entry(
    "The queries of {sinks} keep {slots} cores busy for as long as they run, and the pipeline needs "
    "{needed}: there are {cores}, so {starved} would wait for ever.",
    "Run it with {needed} cores or more, on one machine `--master 'local[{needed}]'`; or have the sources "
    "make fewer partitions; or use triggers with batches, such as `every 1 second`.",
)
REAL_TIME_MODE = Entry(
    "The sink `{sink}` is in {mode} mode, and `{trigger}` can only be in update mode.",
    'Use update mode: `mode: update` in the file, `outputMode("update")` in PySpark.',
)
REAL_TIME_INTERVAL = Entry(
    "`{trigger}` is too short: {least} is the least that Spark takes.",
    "Write `real time 5 minutes`: rows come out at once all the same, the interval only says how often it "
    "is noted how far the query has read.",
)
REAL_TIME_STEP = Entry("`{step}` can't run under `{trigger}` in Spark {version}: {why}.", "{hint}")
TRIGGER_SWITCHED = Entry(
    "The checkpoint of `{sink}` was written under `{before}` and does not fit `{trigger}`: how far `{name}` "
    "was read is noted in two ways, and `{connector}` can't go on from one to the other.",
    "Go back to `trigger: {before}`; or begin anew: remove {checkpoint} while the pipeline does not run.",
)
PARTITIONS_CHANGED = Entry(
    "The checkpoint of `{sink}` was written with {before} partitions of `{name}`, and now there would be "
    "{now}: under `{trigger}` that number can't change.",
    "Have `{name}` make {before} partitions again (`partitions: {before}`); or begin anew: remove "
    "{checkpoint} while the pipeline does not run.",
)
NOTHING_YET = Entry(
    "The rows of `{name}` are made while a query runs, and `{trigger}` reads only what is there at the "
    "start: the first run gives none.",
    "Use a trigger that goes on, such as `every 1 second`, and stop the run when you have seen enough.",
)
LIMIT_NOT_KEPT = Entry(
    "`{option}` of the source `{name}` does nothing under `once`, which reads everything in one batch.",
    "Write `available now`, which reads the same in batches of that size and ends, too.",
)
ROWS_HELD_BACK = Entry(
    "`{option}` of the source `{name}` waits for more rows, and `{trigger}` reads what is there and ends: it "
    "would not look at the option, or leave the last rows unread.",
    "Leave `{option}` out; or use a trigger that goes on, such as `every 1 minute`.",
)
JARS_TOO_LATE = Entry(
    "The query of `{sink}` can't run under `{trigger}` in this process: Spark ran already when the jars of "
    "the connector were added, and then no epoch is ever committed.",
    "Let Headwater start Spark, as `headwater run` does; or start it with `spark.jars` set to {jars}.",
)
NO_REAL_TIME = Entry(
    "Spark {version} has no real-time trigger.",
    "Use Spark 4.1 or newer; or another trigger, such as `every 1 second`.",
)
NEVER_IDLE = Entry(
    "`--until-idle` and `wait_idle()` wait for the end of what the sources hold, and the query of `{sink}` "
    "under `{trigger}` never comes to one.",
    "Leave that out; or use a trigger with batches, such as `every 1 second`.",
)
