"""What a stream can't do, and what to write instead."""

from headwater.errors.problems import Entry

SORTED_STREAM = Entry(
    "HW-SORTED-STREAM",
    "A stream can't be sorted: a row that belongs before the others may come at any time.",
    "{hint}",
)
RANDOM_SPLIT = Entry(
    "HW-RANDOM-SPLIT",
    "`randomSplit` sorts its rows first, and a stream can't be sorted.",
    "Split by a column: `WHERE pmod(hash(id), 10) < 7` and `>= 7`, with a column of yours for `id`.",
)
OFFSET_ON_STREAM = Entry(
    "HW-OFFSET-ON-STREAM",
    "`OFFSET` leaves out the first rows, and a stream has no order by which some are the first.",
    "Take it out, or leave rows out by what is in them: `WHERE id > 100`.",
)
WINDOW_FUNCTION = Entry(
    "HW-WINDOW-FUNCTION",
    "{functions} looks at rows before and after each row, and those of a stream are not all there.",
    "Group by a window of time (`GROUP BY window(at, '10 minutes'), key` with max_by, min_by, count); to "
    "compare a row with the one before it, keep that one with `transformWithState`.",
)
DISTINCT_AGGREGATE = Entry(
    "HW-DISTINCT-AGGREGATE",
    "`{sql}` would have to keep every value that ever came, which Spark does not do on a stream.",
    "{hint}",
)
INTERSECT_ON_STREAM = Entry(
    "HW-INTERSECT-ON-STREAM",
    "`INTERSECT` can't be done with a stream.",
    "Write `SELECT … FROM a LEFT SEMI JOIN b ON …`, with the stream as `a`; if both are streams, with "
    "watermarks and a time range in the condition.",
)
HIDDEN_AGGREGATION = Entry(
    "HW-HIDDEN-AGGREGATION",
    "Spark makes an aggregation of the stream out of a part of the query of `{sink}`, most often a LATERAL "
    "subquery that aggregates, and in append mode no row of it is ever final.",
    "Aggregate first and join with that: "
    "`… FROM a JOIN (SELECT id, max(n) AS n FROM b GROUP BY id) USING (id)`.",
)
EXCEPT_ON_STREAM = Entry(
    "HW-EXCEPT-ON-STREAM",
    "`EXCEPT` {why}.",
    "{hint}",
)
SAMPLE_ON_STREAM = Entry(
    "HW-SAMPLE-ON-STREAM",
    "Spark can't take a sample of a stream.",
    "Choose by a column: `WHERE pmod(hash(id), 100) < 10` keeps a tenth, and the same rows each time.",
)
UNION_WITH_STATIC = Entry(
    "HW-UNION-WITH-STATIC",
    "A UNION of the stream {streams} with static rows can't be done: the static ones have no batch to come "
    "in.",
    "Read them as a stream, too (without `static: true`, with `readStream`), or write them once by "
    "themselves.",
)
ROW_NUMBERS = Entry(
    "HW-ROW-NUMBERS",
    "`monotonically_increasing_id()` begins anew in every batch, so Spark does not take it on a stream.",
    "Make the id of the row's own columns: `sha2(concat_ws('|', a, b), 256)`.",
)
TIMERS_NEED_WATERMARK = Entry(
    "HW-TIMERS-NEED-WATERMARK",
    "`{call}` waits by event time, and {streams} has no watermark by which that time moves.",
    "Declare one (`watermark:` in the file, `withWatermark` in PySpark), or let it wait by processing time.",
)
SEVERAL_STATES = Entry(
    "HW-SEVERAL-STATES",
    "The query of the sink `{sink}` calls `applyInPandasWithState` {count} times, and Spark takes one.",
    "Use `transformWithState`, or write what the first gives with a sink and read that in another pipeline.",
)
PYTHON_AGGREGATE = Entry(
    "HW-PYTHON-AGGREGATE",
    "`{sql}` is an aggregate of Python ({form}), which needs all rows of a group at once and fails on a "
    "stream.",
    "Keep what it needs with `transformWithState`, or use Spark's own aggregates (avg, percentile_approx and "
    "so on).",
)
GLOBAL_SESSION = Entry(
    "HW-GLOBAL-SESSION",
    "Session windows without another key fail on a stream: {sql} is the only thing it groups by.",
    "Group by something else as well, such as the user whose session it is; for one session over all rows "
    "make a constant column before (`… FROM (SELECT 1 AS one, * FROM orders) GROUP BY one, "
    'session_window(…)`; `withColumn("one", lit(1))` in PySpark).',
)
ONE_BATCH_AT_A_TIME = Entry(
    "HW-ONE-BATCH-AT-A-TIME",
    "`{call}` on a stream gets the rows of one batch at a time: a group that comes in several batches is "
    "given in several pieces, cut by chance.",
    "Use `transformWithState`, which keeps what it has seen of each group; if batch by batch is what you "
    "want, accept it: `accept: {{HW-ONE-BATCH-AT-A-TIME: why}}`.",
)
JOIN_WITHOUT_EQUALITY = Entry(
    "HW-JOIN-WITHOUT-EQUALITY",
    "A join of two streams needs something that is equal in both, and this one only compares.",
    "Write an equality into the condition (`a.id = b.id AND …`); where nothing is equal, make it so, for "
    "instance by the hour of both (`date_trunc('hour', a.at) = date_trunc('hour', b.at)`).",
)
SEVERAL_EVENT_TIMES = Entry(
    "HW-SEVERAL-EVENT-TIMES",
    "More than one column with a watermark comes to {operator}, {columns}, and Spark takes one: the query "
    "would fail in its first batch.",
    "Leave all but one out before: name the columns in the SELECT, or `drop` the others in PySpark.",
)
NEVER_ENDS = Entry(
    "HW-NEVER-ENDS",
    "The sink `{sink}` has the trigger `available now`, and `{call}` waits by processing time, for which "
    "Spark runs batch after batch: it never ends.",
    "Use another trigger (`every 1 minute`) and `headwater run --until-idle`, or wait by event time.",
)
DEDUP_OF_RESULTS = Entry(
    "HW-DEDUP-OF-RESULTS",
    "`{call}` by {keys} reads the results of an aggregation: {why}.",
    "{hint}",
)
STATE_STORE = Entry(
    "HW-STATE-STORE",
    "`{call}` needs the state store RocksDB, and the settings name {provider}.",
    "Set `{key}` to `org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider` before the "
    "first start; a declared pipeline that leaves the setting out has it.",
)
PROTOBUF_MISSING = Entry(
    "HW-PROTOBUF-MISSING",
    "`{call}` needs the Python package protobuf, which is not installed here.",
    "Install it: `pip install protobuf`.",
)
PIVOT_ON_STREAM = Entry(
    "HW-PIVOT-ON-STREAM",
    "`pivot` is two aggregations one after the other, which a stream can't do in {mode} mode.",
    "Write a column for each value: `count_if(kind = 'a') AS a, count_if(kind = 'b') AS b`, or "
    "`sum(n) FILTER (WHERE kind = 'a') AS a`.",
)
SUBQUERY_OVER_STREAM = Entry(
    "HW-SUBQUERY-OVER-STREAM",
    "{where} reads a stream inside an expression (IN, EXISTS, or a query for a single value), which can't be "
    "done.",
    "{hint}",
)
