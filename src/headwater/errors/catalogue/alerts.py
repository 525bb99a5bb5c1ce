"""Alerts: the health of a running query needs attention."""

from headwater.errors.problems import Entry

FALLING_BEHIND = Entry(
    "Query `{query}` is falling behind: for {period}, rows have arrived {percent:.0f} % faster than it "
    "processes them.",
    "Add cores or executors, or simplify the query. `headwater status` shows the duration of each phase.",
)
LAG_GROWING = Entry(
    "Query `{query}` is falling behind: source `{source}` lags by {lag:,} rows, most of them in partition "
    "{partition} ({partition_lag:,}). Input is {percent:.0f} % faster than processing.",
    "Raise `max_rows_per_batch` on the source. If batches already last too long, add cores or executors.",
)
FILE_BACKLOG_GROWING = Entry(
    "Query `{query}` is falling behind: the backlog of {path} grew from {before:,} to {waiting:,} files in "
    "{period}.",
    "Raise `max_files_per_batch` or `max_bytes_per_batch` on the source, or add cores or executors.",
)
WATERMARK_STUCK = Entry(
    "Query `{query}`: the watermark has not advanced for {lasting} while rows arrive ({cause}).",
    "Have each source send current rows regularly, such as a heartbeat. Check that its event-time column "
    "contains the current time.",
)
TIMESTAMP_IN_FUTURE = Entry(
    "Query `{query}`: an event time of {inputs} is {ahead} ahead of the clock ({time}).",
    "Correct the clock or time zone of the producer. In a table, drop rows from the future before the "
    "watermark. Until the clock reaches the watermark, current rows are late.",
)
STATE_GROWING = Entry(
    "Query `{query}`: the state of {operator} grew from {before:,} to {rows:,} rows in {period} without "
    "shrinking.",
    "Add a watermark or a time limit so that Spark removes old rows. `headwater check` reports unbounded state.",
)
BATCHES_SLOW = Entry(
    "Query `{query}`: batches take {average:,} ms on average, {percent:.0f} % of the trigger interval "
    "({interval:,} ms).",
    "Add cores or executors, limit the rows per batch, or set a longer trigger interval.",
)
ROWS_LATE = Entry(
    "Query `{query}`: {operator} dropped {late:,} of {rows:,} rows ({percent:.2g} %) behind the watermark.",
    "Set a longer `delay` of the watermark, or correct producers that send old rows.",
)
ROWS_BAD = Entry(
    "Query `{query}`: {bad:,} of {rows:,} rows ({percent:.2g} %) of source `{source}` are bad rows.",
    "Inspect them with `headwater quarantine list` and the pipeline file. Correct the producer or the schema of the "
    "source.",
)
RESTARTS_REPEATED = Entry(
    "Query `{query}` was restarted {times} in {period}. The last failure was {code}.",
    "Fix the cause of the failure. `headwater logs` shows each one.",
)
SOURCE_IDLE = Entry(
    "Query `{query}`: source `{source}` has delivered no rows for {lasting}. Its longest usual pause is "
    "{usual}.",
    "Check that the producer runs and that it writes to this source.",
)
DISK_ALMOST_FULL = Entry(
    "Query `{query}`: the disk of its checkpoint has {free:,.1f} GB free ({percent:.1f} %), in {path}.",
    "Free some disk space, or move the run directory to a larger disk. If the disk is full, the query fails.",
)
